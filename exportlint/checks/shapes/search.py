"""The search for calls in which a program is not its model: edges first, then values, then what hypothesis draws."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis.database import ExampleDatabase
from hypothesis.errors import Unsatisfiable
from torch.utils import _pytree as pytree

from exportlint.checks.context import fresh
from exportlint.checks.shapes import reach
from exportlint.checks.shapes.guardless import Guardless
from exportlint.checks.shapes.trials import FaultError, RefusedError, Trial
from exportlint.checks.shapes.values import MOST_LISTED, Values, held, one_way, others
from exportlint.shapes import contents, edges, printing, strategies
from exportlint.shapes.contract import same_structure
from exportlint.shapes.cost import Cost
from exportlint.shapes.fitting import Fitting
from exportlint.shapes.kinds import kind_of
from exportlint.shapes.shrinking import Shrinker
from exportlint.text import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hypothesis.strategies import SearchStrategy

    from exportlint.checks.case import Inputs
    from exportlint.checks.shapes.trials import Key, Subject
    from exportlint.shapes.contents import Recipe
    from exportlint.shapes.strategies import Drawn, Space
    from exportlint.torch_hooks.guards import Guard

MAX_FAULTS = 3  # different places that drawing looks for before it stops
SECONDS = 60.0  # what the search may take; the examples that were run by then count
OUTSIDE = 6  # calls outside of the contract


@dataclass
class Search:
    """One search.

    Attributes:
        subject: The program and its model.
        examples: How many calls may be drawn.
        narrowing: Guards that calls inside the contract can violate.
        wishes: Those of them that the eager model itself has: it refuses what violates them.
        notes: For a reader: bounds that were lowered, branches that were not taken.
    """

    subject: Subject
    examples: int
    narrowing: list[Guard] = field(default_factory=list)
    wishes: list[Guard] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _deadline: float = 0.0

    def run(self) -> None:
        """Look for faults; they are kept in the subject, each with its smallest call."""
        self._deadline = time.monotonic() + SECONDS
        self._second()
        space = self.subject.space = space_of(self.subject)
        if self.examples:
            self._try_all(space)
        guardless = Guardless(self.subject)
        for fault in self.subject.faults.values():
            guardless.judge(fault)
        if guardless.untried and any(fault.silent for fault in self.subject.faults.values()):
            self.notes.append(f"not tried without guards: {guardless.untried}")

    def _try_all(self, space: Space) -> None:
        self.subject.watch_examples()
        space = self.subject.space = self._acceptable(space)
        self._sides(space)
        divisible = (guard for guard in self.narrowing if kind_of(guard) == "divisible")
        space = dataclasses.replace(space, fits=Fitting([*self.wishes, *divisible]))
        self._all(Trial.of(drawn) for drawn in space.sweep(self.examples // 2))
        self._all(Trial.of(drawn) for drawn in space.layouts())
        self._outside(space)
        tried = self._values(space)
        self._shrink(space, self.subject.faults.values())
        self._draw(space, self.examples - self.examples // 2 - tried)
        self.notes += one_way(self.subject.branches)
        self.notes += reach.notes(self.subject, space, late=self._late())

    def _acceptable(self, space: Space) -> Space:
        """The space in which values are kept that the eager model takes no others for, such as offsets that rise."""
        if self._takes(space):
            return space
        flat = pytree.tree_leaves(fresh(self.subject.example))
        domains = {}
        for leaf in space.contract.tensors:
            like, known = flat[leaf.index], space.domains.get(leaf.index, contents.Domain(0.0, 1.0, firm=False))
            code = None if known.mask or like.dtype == torch.bool else printing.tensor(like.detach())
            if code is not None:
                domains[leaf.index] = dataclasses.replace(known, kept=code)
        kept = [{**space.domains, index: domain} for index, domain in domains.items()]
        candidates = (dataclasses.replace(space, domains=found) for found in (*kept, {**space.domains, **domains}))
        return next((candidate for candidate in candidates if self._takes(candidate)), space)

    def _takes(self, space: Space) -> bool:
        """Whether the eager model takes plain contents in the sizes of the example."""
        return not self._is_refused(space, {leaf.index: leaf.shape for leaf in space.contract.leaves})

    def _late(self) -> bool:
        return time.monotonic() > self._deadline

    def _all(self, trials: Iterable[Trial], *, outside: bool = False) -> None:
        for trial in trials:
            if self._late():
                return
            with contextlib.suppress(FaultError, RefusedError):
                (self.subject.probe if outside else self.subject.attempt)(trial)

    def _second(self) -> None:
        """The other examples; one of another structure is a call that the program must refuse."""
        others = _alike(self.subject)
        second = self.subject.ctx.case.inputs2 is not None
        words = ["inputs2" if second and i == 0 else f"more_inputs[{i - second}]" for i, _ in others]
        self._all(self.subject.given(inputs, said) for (_, inputs), said in zip(others, words, strict=True))

    def _sides(self, space: Space) -> None:
        """Both sides of every guard: where the eager model takes the far one, the program is narrower than asked."""
        for ways in edges.flips(space, self.subject.guards):
            self.narrowing.append(ways[0].guard)
            if self._late():
                return
            if all(self._refuses_beyond(space, flip) for flip in ways):
                self.wishes.append(ways[0].guard)

    def _refuses_beyond(self, space: Space, flip: edges.Flip) -> bool:
        """Whether the eager model refuses the far side of a guard."""
        self._is_refused(space, flip.kept)
        if not self._is_refused(space, flip.violated):
            return False
        apart = edges.apart(space, self.subject.guards, flip)
        return apart is None or self._is_refused(space, apart)

    def _is_refused(self, space: Space, shapes: Mapping[int, tuple[int, ...]]) -> bool:
        """Whether the eager model refuses plain contents in these sizes."""
        try:
            self.subject.attempt(Trial.of(_plainly(space, shapes)))
        except RefusedError:
            return True
        except FaultError:
            return False
        return False

    def _outside(self, space: Space) -> None:
        found = [*edges.special(space), *edges.outside(space)][: max(2, min(OUTSIDE, self.examples // 2))]
        trials = (Trial.of(_plainly(space, o.shapes), inside=o.asked, words=o.words) for o in found)
        self._all(trials, outside=True)
        self._all(others(self.subject), outside=True)
        self._scalars()

    def _scalars(self) -> None:
        """Python numbers that are not dynamic: the program must refuse another one that changes anything."""
        kept = []
        for words, trial in held(self.subject):
            if self._late():
                break
            with contextlib.suppress(FaultError):
                if not self.subject.probe(trial):
                    kept.append(words)
        if kept:
            self.notes.append(
                f"the program holds what is no tensor, and refuses other values: {listed(kept, MOST_LISTED)}"
            )

    def _values(self, space: Space) -> int:
        """Other values, until each branch was taken both ways; how many calls that took."""
        values = Values(self.subject, space, max(2, self.examples // 4))
        self._all(values.trials())
        return values.count

    def _shrink(self, space: Space, faults: Iterable[FaultError]) -> None:
        """Make the calls of faults smaller; hypothesis leaves some that it came upon while it shrank another."""
        waiting = list(faults)
        while waiting:
            fault = waiting.pop(0)
            before = set(self.subject.faults)
            if fault.trial.recipes and fault.trial.inside and not self._late():
                again = functools.partial(self._again, space, fault.key)
                Shrinker(space, again, fits=Fitting(self.wishes)).shrink(fault.trial.recipes)
            waiting += [found for key, found in self.subject.faults.items() if key not in before]

    def _again(self, space: Space, key: Key, recipes: Mapping[int, Recipe]) -> bool:
        """Whether a call shows the same fault; the subject keeps the last call that does."""
        if self._late():
            return False
        before = dict(self.subject.faults)
        try:
            self.subject.attempt(Trial.of(space.made(recipes)))
        except FaultError as fault:
            if fault.key == key:
                return True
            if fault.key in before or fault.guard is None:  # the line may be another way to see the same fault
                self.subject.faults = before
        except RefusedError:
            return False
        return False

    def _draw(self, space: Space, examples: int) -> None:
        """Draw; after each fault that was found and shrunk look for others, up to `MAX_FAULTS`."""
        if examples <= 0 or not space.variables():
            return
        subject = self.subject
        before = subject.known = frozenset(subject.faults)
        for number in range(MAX_FAULTS):
            with contextlib.suppress(FaultError, Unsatisfiable):
                self._drawing(space.drawn(), examples, number)()
            if subject.known == subject.faults.keys():
                break  # nothing new
            subject.known = frozenset(subject.faults)
        subject.known = frozenset()
        self._shrink(space, [fault for key, fault in subject.faults.items() if key not in before])

    def _drawing(self, strategy: SearchStrategy[Drawn], examples: int, number: int) -> Callable[[], None]:
        """A test by hypothesis; it raises the first fault that is not a known one, with its smallest call.

        Each round has a memory of its own: hypothesis forgets a draw that fails no longer, as a known fault does not.
        """

        @settings(
            max_examples=examples,
            deadline=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.reuse, Phase.generate, Phase.shrink],
            **_memory(f"{self.subject.ctx.case.name} {number}"),
        )
        @given(drawn=strategy)
        def test(drawn: Drawn) -> None:
            if self._late():
                return
            try:
                self.subject.attempt(Trial.of(drawn))
            except RefusedError:
                reject()

        return test


def _alike(subject: Subject) -> list[tuple[int, Inputs]]:
    """The calls of the case beside its example that have the example's structure, each with its number."""
    others = enumerate(subject.ctx.further_examples())
    return [(i, inputs) for i, inputs in others if same_structure(inputs, subject.example)]


def space_of(subject: Subject) -> Space:
    """The calls inside the contract of a case, no larger than memory and time allow."""
    ctx, example = subject.ctx, subject.example
    examples = (example, *(inputs for _, inputs in _alike(subject)))
    domains = contents.domains(ctx.build(), subject.contract, fresh(examples), ctx.case.value_ranges)
    subject.time_example()
    cost = Cost(subject.program, subject.granted, subject.contract.leaves, subject.seconds)
    subject.scarce = cost.scarce
    return strategies.Space(example, subject.contract, subject.granted, domains, cost.affords, cost.affords_many)


def _plainly(space: Space, shapes: Mapping[int, tuple[int, ...]]) -> Drawn:
    return space.call(shapes, lambda kinds, layouts: strategies.plain(0, kinds, layouts))


def _memory(name: str) -> dict[str, Any]:
    """What hypothesis remembers: failing draws, in the user's database; in CI nothing, and the same draws each time."""
    profile = settings()
    if profile.derandomize or os.environ.get("CI"):
        return {"derandomize": True, "database": None}
    if profile.database is None:
        return {}
    return {"database": OfCase(profile.database, name)}


class OfCase(ExampleDatabase):
    """The part of a database that belongs to one round of one model case."""

    def __init__(self, whole: ExampleDatabase, name: str) -> None:
        super().__init__()
        self._whole, self._name = whole, hashlib.sha256(f"exportlint {name}".encode()).digest()

    def save(self, key: bytes, value: bytes) -> None:
        """Keep a value."""
        self._whole.save(self._name + key, value)

    def fetch(self, key: bytes) -> Iterable[bytes]:
        """The values that are kept."""
        return self._whole.fetch(self._name + key)

    def delete(self, key: bytes, value: bytes) -> None:
        """Drop a value."""
        self._whole.delete(self._name + key, value)
