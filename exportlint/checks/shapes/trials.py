"""Calls that the eager model and the program are both given, and the faults that show in them."""

from __future__ import annotations

import contextlib
import functools
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from exportlint import blame
from exportlint.checks import divergence, failing_node
from exportlint.checks.context import call, fresh, mutates, result_of
from exportlint.checks.isolation import child
from exportlint.checks.shapes.branches import Branches, parting
from exportlint.checks.shapes.errors import Errors
from exportlint.checks.shapes.journal import Entry, Journal
from exportlint.checks.wrong_result import unexplained, values_part
from exportlint.parity.compare import compare
from exportlint.shapes import advice, conditions, edges, narrowing, strategies
from exportlint.shapes.contract import keeps_relations, same_structure
from exportlint.shapes.edges import Asked, violated
from exportlint.shapes.kinds import kind_of
from exportlint.shapes.scalars import held_apart
from exportlint.shapes.strategies import sizes_of
from exportlint.text import listed, said

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from torch.export import ExportedProgram

    from exportlint.checks.case import Inputs
    from exportlint.checks.context import Context
    from exportlint.findings import Finding, Result
    from exportlint.parity.compare import Difference
    from exportlint.places import Place
    from exportlint.shapes.contents import Recipe
    from exportlint.shapes.contract import Ask, Contract, Granted
    from exportlint.shapes.strategies import Drawn, Space
    from exportlint.torch_hooks.guards import Guard

    Key = tuple[str, Place | None, frozenset[str]]  # the rule, the line, and the sizes that a fault is about

OF_VALUES = "EXP101"  # the rule of a way that the value of a tensor decides
OF_LAYOUT = "Do not decide by strides or is_contiguous(), which are the example's: use reshape in place of view."
HELD = "EXP304"  # the rule of an argument that is no tensor
MOST_HELD = 3  # arguments that are named
FAILS = "the program fails in a call that the eager model accepts"
REFUSES = "the program refuses a call that the eager model accepts"
OF_ONE = ", in which a size is 0 or 1: torch assumes that none is"
_REFUSAL = re.compile("Guard failed|Runtime assertion failed|Expected input")  # a program's words for: not this call
UNBLAMED = "EXP004"  # the rule of a wrong answer that no guard or branch explains
CALL_SECONDS, TIMES_EXAMPLE = 10.0, 50  # a call may take so long, or so many times as long as the example
MOST_WATCHED = 200  # calls whose branches are noted, as long as one went one way only
MOST_TELLING = 4  # calls of other sizes that show what a program does beyond a guard
SPECIAL_SIZES = frozenset({0, 1})  # torch treats these apart: a program may refuse them


class RefusedError(Exception):
    """The eager model itself refuses the call, so it is no example."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A call to try.

    Attributes:
        inputs: Positional and keyword arguments.
        words: The call in words.
        sizes: Each size, by torch's words for it.
        code: The call as code, where it can be written down.
        inside: Whether the contract holds for it; outside of it the program may refuse.
    """

    inputs: Inputs
    words: str
    sizes: Mapping[str, int]
    code: str = ""
    inside: bool = True
    recipes: Mapping[int, Recipe] = field(default_factory=dict)

    @classmethod
    def of(cls, drawn: Drawn, *, inside: bool = True, words: str = "") -> Trial:
        """The trial of a drawn call."""
        said = ", ".join(drawn.words) + (f"; {words}" if words else "")
        return cls(drawn.inputs, said, drawn.sizes, drawn.code, inside, drawn.recipes)


class FaultError(Exception):
    """A call that the eager model accepts and on which the program fails or differs.

    Attributes:
        rule: The rule that it shows.
        message: What happens.
        place: The line to blame.
        evidence: What was seen.
        trial: The call.
        guard: The guard that the call violates, where there is one.
        about: The sizes in that guard, by torch's words; those that vary together are one.
        outcome: What it means: ``silent`` where the program answers wrongly, ``specialises`` where it refuses.
        rewrite: What to write instead; ``None`` for what the rule says.
    """

    def __init__(
        self, message: str, place: Place | None, evidence: str, trial: Trial, *,
        outcome: Result, rule: str = "", guard: Guard | None = None, about: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.rule = rule or blame.size_rule(place)
        self.message, self.place, self.evidence = message, place, evidence
        self.trial, self.guard, self.about, self.outcome = trial, guard, about, outcome
        self.rewrite = advice.of_guard(guard) if guard is not None else None
        self.silent = ""  # what forms of the program without guards do with the call
        self.parting = ""  # where values part, in words

    @property
    def key(self) -> Key:
        """What makes it one fault with others: a line may narrow several dimensions."""
        return self.rule, self.place, self.about

    def finding(self) -> Finding:
        """The finding for it."""
        evidence = f"{self.trial.words}: {self.evidence}{self.parting}{self.silent}"
        return blame.finding(
            self.rule, self.message, self.place, outcome=self.outcome, rewrite=self.rewrite, evidence=evidence
        )


def _is_larger(trial: Trial, kept: Trial) -> bool:
    """Whether a call is larger than one that can be made smaller and tells as much."""
    if not kept.recipes or not kept.inside:
        return False
    return not trial.recipes or sum(trial.sizes.values()) > sum(kept.sizes.values())


def _enlarge(largest: dict[str, int], sizes: Mapping[str, int]) -> None:
    largest.update({source: size for source, size in sizes.items() if size > largest.get(source, -1)})


def _opposite(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.logical_not() if tensor.dtype == torch.bool else -tensor


def _changed(change: Callable[[torch.Tensor], torch.Tensor], tensor: torch.Tensor) -> torch.Tensor:
    """A tensor with other values and the same strides."""
    shared = [not stride for stride in tensor.stride()]  # dimensions whose elements are one
    once = tensor.detach()[tuple(slice(0, 1) if one else slice(None) for one in shared)]
    return change(once).expand(tensor.shape)


def _has_nan(result: Any) -> bool:
    return any(isinstance(leaf, torch.Tensor) and bool(leaf.isnan().any()) for leaf in pytree.tree_leaves(result))


def _with_nan_of(expected: Any, actual: Any) -> Any:
    """A copy of the program's result that is not a number where the eager model's is not."""

    def patched(a: Any, b: Any) -> Any:
        both = isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.shape == b.shape
        return b.masked_fill(a.isnan(), float("nan")) if both and b.is_floating_point() else b

    left, structure = pytree.tree_flatten(expected)
    right, other = pytree.tree_flatten(actual)
    if structure != other:
        return actual
    return pytree.tree_unflatten([patched(a, b) for a, b in zip(left, right, strict=True)], other)


@dataclass
class Subject:
    """The program under test beside its model.

    Attributes:
        ctx: The case.
        contract: What is asked.
        granted: What the program grants.
        program: The captured program.
        guards: Its guards with their lines.
        example: The call that it was captured from.
        faults: What was found, each with its smallest call so far.
        known: Faults of earlier rounds, which drawing no longer stops at.
        ran: Calls that were compared.
        taken: Their sizes, by torch's words for them.
        refused: Calls that the eager model refused.
        moved: Whether one that was compared had another size than the example in a dimension that is dynamic.
        seconds: CPU time that one call of the eager model with the example takes.
        patience: Seconds after which a call hangs; 0 as long as it is not known what the example takes.
        lenience: How many times as long a call may take.
        avoided: Whether a call is like one that ended an earlier process.
        scarce: What keeps larger calls from being tried: ``memory``, or ``time``.
        largest: The largest size of each dimension that was compared, by torch's words for it.
        too_large: The same of calls that the eager model refused.
        no_room: The same of calls for which there was not enough memory.
        undefined: The first call, in words, in which the program had numbers where the eager model had none.
        journal: Told each call before it runs.
        space: Where calls are drawn from, once that is known.
        branches: The conditions of the user's source, with the ways that they went in eager calls inside the contract.
    """

    ctx: Context
    contract: Contract
    granted: Granted
    program: ExportedProgram
    guards: list[Guard]
    example: Inputs
    faults: dict[Key, FaultError] = field(default_factory=dict)
    known: frozenset[Key] = frozenset()
    ran: int = 0
    taken: list[Mapping[str, int]] = field(default_factory=list)
    refused: int = 0
    moved: bool = False
    seconds: float = 0.0
    patience: float = 0.0
    lenience: float = 1.0
    avoided: Callable[[Trial], bool] = lambda _: False
    scarce: str = "time"
    largest: dict[str, int] = field(default_factory=dict)
    too_large: dict[str, int] = field(default_factory=dict)
    no_room: dict[str, int] = field(default_factory=dict)
    undefined: str = ""
    space: Space | None = None
    journal: Journal = field(default_factory=Journal)
    branches: Branches = field(default_factory=Branches)
    errors: Errors = field(default_factory=Errors)

    def __post_init__(self) -> None:
        self.model = self.ctx.build()
        self.module = self.program.module()
        self.keeps_state = mutates(self.program)
        self.remembers = False  # whether the eager model keeps from call to call what no program shows
        self.asked = [leaf.size(d) for leaf, d, _ in self.contract.asked]
        self._variables = Asked(self.contract).by_source
        self._sizes = sizes_of(self.contract.leaves, self.example)
        self._rules: dict[Place, str] = {}  # of lines that decide where no guard does
        self._unguarded: torch.fx.Interpreter | None = None
        self._harmless: dict[str, bool] = {}  # of guards that tell a size apart: whether nothing depends on it

    def eager(self, inputs: Inputs) -> Any:
        """The eager model's result for copies of these arguments.

        Raises:
            Exception: What the model raises.
        """
        model = self.ctx.build() if self.keeps_state or self.remembers else self.model
        return call(model, fresh(inputs))

    def time_example(self) -> None:
        """Measure what one call of the example computes, after one that warms up."""
        self.eager(self.example)
        began, on_the_wall = time.process_time(), time.monotonic()
        self.eager(self.example)
        self.seconds = time.process_time() - began  # whatever else the machine does
        self.patience = self.lenience * max(CALL_SECONDS, TIMES_EXAMPLE * (time.monotonic() - on_the_wall))

    def run(self, module: torch.nn.Module, inputs: Inputs) -> Any:
        """The program's result for copies of these arguments; its buffers stay as they are.

        Raises:
            Exception: What the program raises.
        """
        return result_of(self.program, fresh(inputs), module) if self.keeps_state else call(module, fresh(inputs))

    def differ(self, expected: Any, actual: Any, inputs: Inputs) -> Difference | None:
        """The first difference between two results of a call, as the case defines equal."""
        return self.ctx.compare(expected, actual, fresh(inputs))

    def attempt(self, trial: Trial) -> None:
        """Call both with the same inputs.

        Raises:
            RefusedError: When the eager model refuses them.
            FaultError: When the program fails or differs, and the fault is not a known one.
        """
        if self.avoided(trial):
            raise RefusedError
        self._note(trial, "eager model")
        try:
            with child.within(self.patience):
                expected = self._watched(trial.inputs)
        except Exception as error:
            expected = self._anew(trial, error)
        self.ran += 1
        self.taken.append(trial.sizes)
        asked = {leaf.size(d): leaf.shape[d] for leaf, d, _ in self.contract.asked}
        self.moved = self.moved or any(trial.sizes.get(size, example) != example for size, example in asked.items())
        _enlarge(self.largest, trial.sizes)
        self._note(trial, "program")
        fault = self._fault(trial, expected)
        if fault is not None and fault.key not in self.known:
            kept = self.faults.get(fault.key)
            if kept is None or not _is_larger(trial, kept.trial):
                self.faults[fault.key] = fault
            raise fault

    def _anew(self, trial: Trial, error: Exception) -> Any:
        """What a fresh eager model returns where one that was called before refuses.

        Another is made for the first refusals, and ever more rarely for later ones.

        Raises:
            RefusedError: When the fresh one refuses as well, or none was asked.
        """
        roomy = not blame.is_out_of_memory(error)
        number = self.refused + 1
        if roomy and number & (number - 1) == 0 and not (self.keeps_state or self.remembers):
            with contextlib.suppress(Exception), child.within(self.patience):
                expected = call(self.ctx.build(), fresh(trial.inputs))
                self.remembers = True
                return expected
        self.refused += roomy
        _enlarge(self.too_large if roomy else self.no_room, trial.sizes)
        raise RefusedError from error

    def watch_examples(self) -> None:
        """Note the branches of the calls that the case gives."""
        for inputs in (self.example, *self.ctx.further_examples()):
            if same_structure(inputs, self.example):
                self.branches.watch(functools.partial(self.eager, inputs))

    def _watched(self, inputs: Inputs) -> Any:
        """The eager model's result; branches are noted for as long as one is open."""
        if self.branches.settled or self.branches.calls >= MOST_WATCHED:
            return self.eager(inputs)
        return self.branches.once(lambda: self.eager(inputs))

    def probe(self, trial: Trial) -> bool:
        """Call both where the program may refuse: outside of the contract it must, or answer as the eager model does.

        Returns whether the program answers.

        Raises:
            FaultError: When the program answers something else, and the fault is not a known one.
        """
        if self.avoided(trial):
            return True
        self._note(trial, "program")
        try:
            with child.within(self.patience):
                actual = self.run(self.module, trial.inputs)
        except Exception:
            return False
        self._note(trial, "eager model")
        try:
            with child.within(self.patience):
                expected = self.eager(trial.inputs)
        except Exception:
            return True
        self.ran += 1
        self.taken.append(trial.sizes)
        fault = self._wrong(trial, expected, actual)
        if fault is not None and fault.key not in self.known | self.faults.keys():  # a call inside says more
            self.faults[fault.key] = fault
            raise fault
        return True

    def _note(self, trial: Trial, who: str) -> None:
        self.journal.write(Entry(who, trial.words, trial.code, trial.recipes))

    def _fault(self, trial: Trial, expected: Any) -> FaultError | None:
        try:
            with child.within(self.patience):
                actual = self.run(self.module, trial.inputs)
        except Exception as error:
            return self._failure(error, trial, expected)
        return self._wrong(trial, expected, actual)

    def _wrong(self, trial: Trial, expected: Any, actual: Any) -> FaultError | None:
        difference = self.differ(expected, actual, trial.inputs)
        if difference is None:
            self._note_error(trial, expected, actual)
            return None
        if _has_nan(expected) and self.differ(expected, _with_nan_of(expected, actual), trial.inputs) is None:
            self.undefined = self.undefined or trial.words
            return None  # the eager model itself has no answer there, such as for a row in which all is masked
        again = call(self.ctx.build(), fresh(trial.inputs))
        agrees = self.differ(again, actual, trial.inputs) is None
        self.remembers = self.remembers or agrees
        if agrees or compare(expected, again, rtol=0.0, atol=0.0) is not None:
            return None  # the eager model keeps state from call to call, or never returns the same
        self._note_error(trial, expected, actual)
        return self._difference(difference, trial)

    def _note_error(self, trial: Trial, expected: Any, actual: Any) -> None:
        if trial.inside and self.ctx.case.canonical is None:  # else an order is free, and no error
            self.errors.note(trial, expected, actual)

    def _failure(self, error: Exception, trial: Trial, expected: Any) -> FaultError | None:
        """The program refuses a call, or fails in it."""
        if blame.is_out_of_memory(error):
            raise RefusedError from error
        guard = violated(self.guards, trial.sizes)
        other = None if guard is not None else self._otherwise(error, trial)
        if other is not None:
            return other
        apart = self._apart(trial) if guard is None else []
        if apart and (any(size < ask.minimum for size, ask in apart) or _REFUSAL.search(said(error))):
            return None  # nobody asked for these sizes, or the program says that it is not for them
        if guard is None and not keeps_relations(self.contract, trial.sizes):
            return None  # nobody said that these sizes may differ, and the call is refused, not answered wrongly
        if guard is not None:
            place: Place | None = guard.place
            only = conditions.words(guard)
            message = f"{REFUSES}; it holds only while {only}"
        else:
            place = self._place_of_failure(trial)
            message = FAILS + (OF_ONE if apart else "")
        about = self.variables(conditions.sizes_of(guard)) if guard is not None else frozenset()
        own = guard is not None and self._is_torchs_own(guard, trial, expected)
        outcome: Result = "fine" if own else "specialises"
        fault = FaultError(message, place, self._words(error), trial, guard=guard, about=about, outcome=outcome)
        fault.rewrite = advice.CHANGES["one"] if apart else fault.rewrite
        return fault

    def _apart(self, trial: Trial) -> list[tuple[int, Ask]]:
        """The dynamic sizes that are 0 or 1 in a call and not in the example, each with what is asked of it."""
        found = ((leaf.size(d), ask) for leaf, d, ask in self.contract.asked)
        sizes = [(trial.sizes[source], ask) for source, ask in found if trial.sizes[source] != self._sizes[source]]
        return [(size, ask) for size, ask in sizes if size in SPECIAL_SIZES]

    def _place_of_failure(self, trial: Trial) -> Place | None:
        return self.part(trial.inputs) or failing_node.place(self.program, fresh(trial.inputs)) or self.ctx.head()

    def _otherwise(self, error: Exception, trial: Trial) -> FaultError | None:
        """The fault where a program that fails does so for no size: for a memory layout, or for what is no tensor."""
        if self._is_of_layout(trial):
            return self._of_no_size(UNBLAMED, error, trial, f"{FAILS}, for its memory layout", OF_LAYOUT)
        held = held_apart(self.model, self.contract, self.example, trial.inputs)
        if held is None or not self._is_right(held[1]):
            return None
        return self._of_no_size(HELD, error, trial, f"{REFUSES}; it holds {listed(held[0], MOST_HELD)}")

    def _of_no_size(
        self, rule: str, error: Exception, trial: Trial, message: str, rewrite: str | None = None
    ) -> FaultError:
        place = self._place_of_failure(trial)
        fault = FaultError(message, place, self._words(error), trial, rule=rule, outcome="specialises")
        fault.rewrite = rewrite
        return fault

    def _is_of_layout(self, trial: Trial) -> bool:
        """Whether the program is right for contiguous copies of tensors that have another layout."""
        straight = pytree.tree_map_only(torch.Tensor, torch.Tensor.contiguous, trial.inputs)
        pairs = zip(pytree.tree_leaves(trial.inputs), pytree.tree_leaves(straight), strict=True)
        if all(one is other for one, other in pairs):
            return False
        return self._is_right(straight)

    def _is_right(self, inputs: Inputs) -> bool:
        """Whether the program answers as the eager model does."""
        try:
            with child.within(2 * self.patience):
                return self.differ(self.eager(inputs), self.run(self.module, inputs), inputs) is None
        except Exception:
            return False

    def _is_torchs_own(self, guard: Guard, trial: Trial, expected: Any) -> bool:
        """Whether torch tells one size apart, such as a part of 0 or 1 or equal strides, and nothing depends on it.

        Where the size is asked for by its range, or is the largest that there is, the program should take it all the
        same.
        """
        asked = {leaf.size(d): ask for leaf, d, ask in self.contract.asked}
        ranged = any(asked[s].ranged for s in guard.sources.values() if s in asked)
        if ranged or kind_of(guard) not in ("apart", "unequal") or self._at_the_end(guard, trial):
            return False
        if self.space is None:
            return self._answers_unguarded(trial.inputs, expected)
        if guard.text not in self._harmless:
            self._harmless[guard.text] = self._answers_unguarded(trial.inputs, expected) and all(
                self._answers_unguarded(told.inputs, expected) for told, expected in self.telling(guard, trial)
            )
        return self._harmless[guard.text]

    def _at_the_end(self, guard: Guard, trial: Trial) -> bool:
        """Whether a size in a guard is the largest that the program has, such as that of a buffer that is sliced."""
        sizes = [(leaf.size(d), self.granted.of(leaf, d)) for leaf, d, _ in self.contract.asked]
        ends = {source: self.granted.ranges.get(size, (0, None))[1] for source, size in sizes}
        return any(trial.sizes.get(source) == ends.get(source, -1) for source in guard.sources.values())

    def telling(self, guard: Guard, trial: Trial) -> Iterator[tuple[Trial, Any]]:
        """Calls that violate a guard as a trial does, each with the eager model's result, the trial's sizes first.

        Their contents hide little, as zeros hide a wrong factor. At the smallest sizes what is wrong may be right.
        """
        space = self.space
        assert space is not None  # it is known once anything is drawn
        flat = pytree.tree_leaves(trial.inputs)
        same = {leaf.index: leaf.shape_in(flat) for leaf in self.contract.leaves}
        found = (same, *edges.beyond(space, self.guards, guard, MOST_TELLING))
        drawn = (space.call(shapes, functools.partial(strategies.plain, seed)) for seed, shapes in enumerate(found))
        for told in (*(() if trial.recipes else (trial,)), *map(Trial.of, drawn)):
            try:
                with child.within(self.patience):
                    expected = self.eager(told.inputs)
            except Exception:
                continue
            yield told, expected

    def _answers_unguarded(self, inputs: Inputs, expected: Any) -> bool:
        """Whether the program returns the right result where nothing refuses the call, not even for its range."""
        if self._unguarded is None:
            self._unguarded = torch.fx.Interpreter(self.program.module(check_guards=False))
        try:
            with child.within(self.patience):
                actual = result_of(self.program, (tuple(pytree.tree_leaves(fresh(inputs))), {}), self._unguarded.run)
        except Exception:
            return False
        return self.differ(expected, actual, inputs) is None

    def _words(self, error: BaseException) -> str:
        """What the program says, in the user's names."""
        return narrowing.named(blame.words(error), self.guards)

    def variables(self, sources: Iterable[str]) -> frozenset[str]:
        """Sizes by torch's words, or by a name where several vary together."""
        return frozenset(self._variables.get(source, source) for source in sources)

    def _difference(self, difference: Difference, trial: Trial) -> FaultError:
        """The program answers, and wrongly."""
        guard = violated(self.guards, trial.sizes)
        place = guard.place if guard is not None else self.part(trial.inputs)
        message = "the program returns something else than the eager model for another call"
        if not trial.inside:
            message += ", which it should refuse"
        about = self.variables(conditions.sizes_of(guard)) if guard is not None else frozenset()
        rule = self._decided(trial, place) if guard is None else ""
        of_layout = rule not in ("", OF_VALUES) and self._is_of_layout(trial)
        if of_layout:
            rule, message = UNBLAMED, f"{message}, in another memory layout"
        fault = FaultError(
            message, place or self.ctx.head(), str(difference), trial,
            rule=rule, guard=guard, about=about, outcome="silent",
        )  # fmt: skip
        fault.rewrite = OF_LAYOUT if of_layout else fault.rewrite
        return fault

    def _decided(self, trial: Trial, place: Place | None) -> str:
        """The rule of a wrong answer that no guard explains, by what decides where the eager call goes another way."""
        if place is None:
            return UNBLAMED
        if place not in self._rules:
            shapes = [[getattr(v, "shape", None) for v in pytree.tree_leaves(i)] for i in (self.example, trial.inputs)]
            of_sizes = UNBLAMED if shapes[0] == shapes[1] else blame.size_rule(place)
            of_values = any(self._values_decide(i, place) for i in (trial.inputs, self.example))  # empty ones have none
            self._rules[place] = OF_VALUES if of_values else of_sizes
        return self._rules[place]

    def _values_decide(self, inputs: Inputs, place: Place) -> bool:
        """Whether other values of the same tensors lead another way at a line."""
        others: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (torch.zeros_like, torch.ones_like, _opposite)
        for change in others:
            changed = pytree.tree_map_only(torch.Tensor, functools.partial(_changed, change), inputs)
            if self._parting(inputs, changed) == place:
                return True
        return False

    def finding(self, fault: FaultError) -> Finding:
        """The finding for a fault; where the program answers wrongly, it says where values part."""
        found = values_part(self.ctx, self.program, fault.trial.inputs) if fault.outcome == "silent" else None
        if found is not None:
            fault.parting = f"; {found}"
        if fault.outcome == "silent" and fault.place == self.ctx.head():
            fault.place = (found.place if found is not None else None) or unexplained(self.ctx)
        return fault.finding()

    def part(self, inputs: Inputs) -> Place | None:
        """Where the eager call parts from that of the example."""
        return self._parting(self.example, inputs)

    def _parting(self, one: Inputs, other: Inputs) -> Place | None:
        """Where two eager calls part: at a line, or within one."""
        place = divergence.place(self._calling(one), self._calling(other))
        return place or parting(self._calling(one), self._calling(other))

    def _calling(self, inputs: Inputs) -> Callable[[], Any]:
        """A call of a fresh eager model."""
        model = self.ctx.build()
        return lambda: call(model, fresh(inputs))

    def given(self, inputs: Inputs, words: str, *, inside: bool = True) -> Trial:
        """The trial of a call that was not drawn."""
        flat = pytree.tree_leaves(inputs)
        said = [f"{leaf.words} of shape {list(leaf.shape_in(flat))}" for leaf in self.contract.tensors]
        said += [f"{leaf.words} = {flat[leaf.index]!r}" for leaf in self.contract.leaves if leaf.number]
        return Trial(
            inputs,
            ", ".join(f"{text} ({words})" for text in said),
            sizes_of(self.contract.leaves, inputs),
            inside=inside,
        )
