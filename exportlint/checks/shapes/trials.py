"""Calls that the eager model and the program are both given, and the faults that show in them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch.utils import _pytree as pytree

from exportlint import blame
from exportlint.checks import divergence, failing_node
from exportlint.checks.context import call, fresh, mutates, unchanged
from exportlint.checks.shapes.journal import Entry, Journal
from exportlint.checks.wrong_result import values_part
from exportlint.parity.compare import compare
from exportlint.shapes import narrowing, terms
from exportlint.shapes.edges import Asked, violated
from exportlint.shapes.strategies import sizes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import torch
    from torch.export import ExportedProgram

    from exportlint.checks.case import Inputs
    from exportlint.checks.context import Context
    from exportlint.findings import Finding, Result
    from exportlint.parity.compare import Difference
    from exportlint.places import Place
    from exportlint.shapes.contents import Recipe
    from exportlint.shapes.contract import Contract, Granted
    from exportlint.shapes.strategies import Drawn
    from exportlint.torch_hooks.guards import Guard

    Key = tuple[str, Place | None, frozenset[str]]  # the rule, the line, and the sizes that a fault is about

UNBLAMED = "EXP004"  # the rule of a wrong answer that no guard or branch explains
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
    """

    def __init__(
        self, message: str, place: Place | None, evidence: str, trial: Trial, *,
        outcome: Result, rule: str = "", guard: Guard | None = None, about: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.rule = rule or blame.size_rule(place)
        self.message, self.place, self.evidence = message, place, evidence
        self.trial, self.guard, self.about, self.outcome = trial, guard, about, outcome
        self.silent = ""  # what forms of the program without guards do with the call
        self.parting = ""  # where values part, in words

    @property
    def key(self) -> Key:
        """What makes it one fault with others: a line may narrow several dimensions."""
        return self.rule, self.place, self.about

    def finding(self) -> Finding:
        """The finding for it."""
        rewrite = terms.CHANGES[_change(self.guard)] if self.guard is not None else None
        evidence = f"{self.trial.words}: {self.evidence}{self.parting}{self.silent}"
        return blame.finding(
            self.rule, self.message, self.place, outcome=self.outcome, rewrite=rewrite, evidence=evidence
        )


def _change(guard: Guard) -> terms.Grant:
    """What a guard makes of a dimension."""
    kinds: dict[narrowing.Kind, terms.Grant] = {
        "pinned": "constant",
        "bounded": "range",
        "divisible": "divisible",
        "equal": "equal",
        "bound": "bound",
        "unequal": "bound",
    }
    return kinds[narrowing.kind_of(guard)]


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
        refused: Calls that the eager model refused.
        seconds: CPU time that one call of the eager model with the example takes.
        journal: Told each call before it runs.
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
    refused: int = 0
    seconds: float = 0.0
    journal: Journal = field(default_factory=Journal)

    def __post_init__(self) -> None:
        self.model = self.ctx.build()
        self.module = self.program.module()
        self.keeps_state = mutates(self.program)
        self.asked = [leaf.size(d) for leaf in self.contract.leaves for d in leaf.asked]
        self._variables = Asked(self.contract).by_source

    def eager(self, inputs: Inputs) -> Any:
        """The eager model's result for copies of these arguments.

        Raises:
            Exception: What the model raises.
        """
        model = self.ctx.build() if self.keeps_state else self.model
        return call(model, fresh(inputs))

    def time_example(self) -> None:
        """Measure what one call of the example computes, after one that warms up."""
        self.eager(self.example)
        began = time.process_time()  # whatever else the machine does
        self.eager(self.example)
        self.seconds = time.process_time() - began

    def run(self, module: torch.nn.Module, inputs: Inputs) -> Any:
        """The program's result for copies of these arguments; its buffers stay as they are.

        Raises:
            Exception: What the program raises.
        """
        if not self.keeps_state:
            return call(module, fresh(inputs))
        with unchanged(self.program):
            return call(module, fresh(inputs))

    def differ(self, expected: Any, actual: Any, inputs: Inputs) -> Difference | None:
        """The first difference between two results of a call, as the case defines equal."""
        return self.ctx.compare(expected, actual, fresh(inputs))

    def attempt(self, trial: Trial) -> None:
        """Call both with the same inputs.

        Raises:
            RefusedError: When the eager model refuses them.
            FaultError: When the program fails or differs, and the fault is not a known one.
        """
        self._note(trial, "eager model")
        try:
            expected = self.eager(trial.inputs)
        except Exception as error:
            self.refused += 1
            raise RefusedError from error
        self.ran += 1
        self._note(trial, "program")
        fault = self._fault(trial, expected)
        if fault is not None and fault.key not in self.known:
            self.faults[fault.key] = fault
            raise fault

    def probe(self, trial: Trial) -> None:
        """Call both where the program may refuse: outside of the contract it must, or answer as the eager model does.

        Raises:
            FaultError: When the program answers something else, and the fault is not a known one.
        """
        self._note(trial, "program")
        try:
            actual = self.run(self.module, trial.inputs)
        except Exception:
            return
        self._note(trial, "eager model")
        try:
            expected = self.eager(trial.inputs)
        except Exception:
            return
        self.ran += 1
        fault = self._wrong(trial, expected, actual)
        if fault is not None and fault.key not in self.known:
            self.faults[fault.key] = fault
            raise fault

    def _note(self, trial: Trial, who: str) -> None:
        self.journal.write(Entry(who, trial.words, trial.code, trial.recipes))

    def _fault(self, trial: Trial, expected: Any) -> FaultError | None:
        try:
            actual = self.run(self.module, trial.inputs)
        except Exception as error:
            return self._failure(error, trial)
        return self._wrong(trial, expected, actual)

    def _wrong(self, trial: Trial, expected: Any, actual: Any) -> FaultError | None:
        difference = self.differ(expected, actual, trial.inputs)
        if difference is None:
            return None
        again = call(self.ctx.build(), fresh(trial.inputs))
        if self.differ(again, actual, trial.inputs) is None or compare(expected, again, rtol=0.0, atol=0.0) is not None:
            return None  # the eager model keeps state from call to call, or never returns the same
        return self._difference(difference, trial)

    def _failure(self, error: Exception, trial: Trial) -> FaultError | None:
        """The program refuses a call, or fails in it."""
        if blame.is_out_of_memory(error):
            raise RefusedError from error
        guard = violated(self.guards, trial.sizes)
        if guard is None and SPECIAL_SIZES & {trial.sizes[source] for source in self.asked}:
            return None  # torch treats these sizes apart, and says so: the call is refused, not answered wrongly
        if guard is None and not self._vary_together(trial):
            return None  # nobody said that these sizes may differ, and the call is refused, not answered wrongly
        if guard is not None:
            place: Place | None = guard.place
            message = f"the program refuses a call that the eager model accepts; it holds only while {guard.text}"
        else:
            place = self.part(trial.inputs) or failing_node.place(self.program, fresh(trial.inputs)) or self.ctx.head()
            message = "the program fails in a call that the eager model accepts"
        about = self.variables(guard.sources.values()) if guard is not None else frozenset()
        return FaultError(message, place, blame.words(error), trial, guard=guard, about=about, outcome="specialises")

    def variables(self, sources: Iterable[str]) -> frozenset[str]:
        """Sizes by torch's words, or by a name where several vary together."""
        return frozenset(self._variables.get(source, source) for source in sources)

    def _vary_together(self, trial: Trial) -> bool:
        """Whether dimensions that were inferred, and had the same sizes in every example call, have the same ones."""
        sizes: dict[str, int] = {}
        asked = [(leaf.size(d), ask) for leaf in self.contract.leaves for d, ask in leaf.asked.items()]
        inferred = [(source, ask.root) for source, ask in asked if ask.root and not ask.name]
        return all(sizes.setdefault(root, trial.sizes[source]) == trial.sizes[source] for source, root in inferred)

    def _difference(self, difference: Difference, trial: Trial) -> FaultError:
        """The program answers, and wrongly."""
        guard = violated(self.guards, trial.sizes)
        place = guard.place if guard is not None else self.part(trial.inputs)
        rule = "" if place is not None else UNBLAMED
        message = "the program returns something else than the eager model for another call"
        if not trial.inside:
            message += ", which it should refuse"
        place = place or self.ctx.head()
        about = self.variables(guard.sources.values()) if guard is not None else frozenset()
        return FaultError(message, place, str(difference), trial, rule=rule, guard=guard, about=about, outcome="silent")

    def finding(self, fault: FaultError) -> Finding:
        """The finding for a fault; where the program answers wrongly, it says where values part."""
        found = values_part(self.ctx, self.program, fault.trial.inputs) if fault.outcome == "silent" else None
        if found is not None:
            fault.parting = f"; {found}"
            if fault.rule == UNBLAMED:
                fault.place = found.place or fault.place
        return fault.finding()

    def part(self, inputs: Inputs) -> Place | None:
        """Where the eager call parts from that of the example."""
        one, two = self.ctx.build(), self.ctx.build()
        return divergence.place(lambda: call(one, fresh(self.example)), lambda: call(two, fresh(inputs)))

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
