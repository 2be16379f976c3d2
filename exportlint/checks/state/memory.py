"""Several calls in a row: what the eager model carries from one to the next, and the program does not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from exportlint import blame
from exportlint.checks.context import ModelError
from exportlint.checks.state import leftovers, value_trace, writes
from exportlint.checks.state.python_state import Slot, Snapshot, slots

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import nn

    from exportlint.checks.case import Inputs
    from exportlint.checks.state.inquiry import Inquiry
    from exportlint.places import Place

SCALE = 0.75  # of floating-point inputs in the other call: keeps signs, and values between 0 and 1
MAX_GROUPS = 6  # of changed names that are tried one by one
MANY = 10**6  # calls after which something may be another way
MANY_CALLS = 16  # that are made one after the other
MAX_COUNTS = 30  # values of one counter that are tried
MAX_LINES = 5  # that change one name
DRAW = "Draw with torch and without a generator of its own, which the program does too, or pass the random numbers in."

Group = tuple[str, str, str]


@dataclass
class History:
    """What many calls in a row changed.

    Attributes:
        calls: How many calls there were.
        changes: How many of them changed what goes by one name.
        values: What each slot that holds a number held after the calls that changed it.
    """

    calls: int = 0
    changes: Counter[Group] = field(default_factory=Counter)
    values: dict[Group, dict[int, list[Any]]] = field(default_factory=dict)

    def add(self, changed: Sequence[Slot]) -> None:
        """Note what one more call changed."""
        self.calls += 1
        self.changes.update({_group(slot) for slot in changed})
        for slot in changed:
            if slot.counts:
                self.values.setdefault(_group(slot), {}).setdefault(slot.key[0], []).append(slot.value())

    def goes_on(self, slot: Slot) -> bool:
        """Whether each call moved what counts the same way, so that it may get anywhere."""
        runs = self.values.get(_group(slot), {}).values()
        one_way = all(run in (sorted(run), sorted(run, reverse=True)) for run in runs)
        return one_way and self.changes[_group(slot)] == self.calls


class Memory:
    """What calls leave for later ones.

    Args:
        inquiry: The model case.
        model: A fresh model, which is called with the example twice.
    """

    def __init__(self, inquiry: Inquiry, model: nn.Module) -> None:
        self.inquiry, self.model = inquiry, model
        self.before = Snapshot(model)
        self.results = [self._again()]
        after_one = Snapshot(model)
        self.refusal: BaseException | None = None  # what the second call raised
        try:
            self.results.append(self._again())
        except ModelError as error:
            blame.pass_on_memory_error(error)
            self.refusal = error.__cause__
        self.followed = False  # whether buffers changed that the program writes to as well
        self.counters = [slot for slot in after_one.changed() if slot.counts]

    def _again(self) -> Any:
        return self.inquiry.call(self.model, self.inquiry.ctx.example())

    def judge(self) -> None:
        """Look at later calls of the model, then at many of them."""
        if self.refusal is not None:
            self._judge_refusal(self.refusal)
            return
        self._judge_calls(list(self.results))
        self._judge_long()

    def _judge_calls(self, results: list[Any]) -> None:
        calls = [self.inquiry.ctx.example(), self.inquiry.ctx.example()]
        wanted = [results[0], results[0]]
        if not self.before.changed() and self.inquiry.compare(*results) is None:
            self._judge_program(results, calls)
            return
        other = _scaled(self.inquiry.ctx.example())
        try:
            later = [self.inquiry.call(self.model, other), self.inquiry.call(self.model, self.inquiry.ctx.example())]
            wanted += [self.inquiry.call(self.inquiry.build(), other), results[0]]
            results, calls = [*results, *later], [*calls, other, self.inquiry.ctx.example()]
        except ModelError:  # the model refuses other values
            wanted = wanted[:2]
        if any(self.inquiry.compare(a, b) is not None for a, b in zip(wanted, results, strict=True)):
            self._judge_memory(results, wanted, calls)

    def _judge_refusal(self, refusal: BaseException) -> None:
        """The eager model refuses its second call: the program must, too."""
        try:
            self.inquiry.program_calls([self.inquiry.ctx.example(), self.inquiry.ctx.example()])
        except Exception as error:
            blame.pass_on_memory_error(error)
            return
        evidence = f"call 2: {blame.words(refusal)} in eager, and a result of the program"
        _, before = self._called_once()
        groups = {_group(slot): slot for slot in before.changed()}
        guilty = [group for group in list(groups)[:MAX_GROUPS] if self._lets_go_on(group)]
        for group in guilty:
            self._add_memory(groups[group], evidence)
        if not guilty:
            message = "state baked: the eager model refuses a second call, and the program does not"
            self.inquiry.add("EXP501", message, blame.place_of(refusal) or self.inquiry.ctx.head(), evidence)

    def _called_once(self) -> tuple[nn.Module, Snapshot]:
        """A fresh model after one call, and what there was before that."""
        model = self.inquiry.build()
        before = Snapshot(model)
        self.inquiry.call(model, self.inquiry.ctx.example())
        return model, before

    def _lets_go_on(self, group: Group) -> bool:
        """Whether a second call is possible once what goes by this name is put back."""
        model, before = self._called_once()
        before.restore(slot for slot in before.changed() if _group(slot) == group)
        try:
            self.inquiry.call(model, self.inquiry.ctx.example())
        except ModelError:
            return False
        return True

    def _judge_long(self) -> None:
        """What earlier calls left behind may matter after many of them only: go on, and look at late counts."""
        changed = self.before.changed()
        found = any(f.rule == "EXP501" for f in self.inquiry.findings)
        if not changed or found or self.inquiry.compare(*self.results) is not None:
            return  # earlier calls matter as it is
        history = self._judge_many_calls(self.results[0])
        for slot in [slot for slot in self.counters if history.goes_on(slot)][:MAX_GROUPS]:
            self._judge_counter(slot, self.results[0])
        for slot in changed:
            if history.calls == history.changes[_group(slot)] == MANY_CALLS:
                self._untold(slot, self.results[0])

    def _judge_many_calls(self, wanted: Any) -> History:
        """Call a fresh model again and again, for as long as calls change what it keeps."""
        model = self.inquiry.build()
        results = []
        history = History()
        for _ in range(MANY_CALLS):
            before = Snapshot(model)
            results.append(self.inquiry.call(model, self.inquiry.ctx.example()))
            changed = before.changed()
            history.add(changed)
            if not changed:
                break
            if self.inquiry.compare(wanted, results[-1]) is not None:
                self._judge_memory(results, [wanted] * len(results), [self.inquiry.ctx.example() for _ in results])
                break
        return history

    def _judge_counter(self, slot: Slot, wanted: Any) -> None:
        """Let what counts calls be far ahead, and beside the numbers that the source may compare it with."""
        model = self.inquiry.build()
        before = {_group(known): value for known, value in slots(model)}.get(_group(slot), 0)
        self.inquiry.call(model, self.inquiry.ctx.example())
        for here in (known for known, _ in slots(model) if _group(known) == _group(slot)):
            now = here.value()
            sign = 1 if now >= before else -1
            numbers = writes.numbers_beside(slot.name, self.inquiry.lines, bare=slot.bare)
            beside = [value + step for value in numbers for step in (-1, 0, 1) if (value + step - now) * sign >= 0]
            for value in dict.fromkeys([sign * MANY, *beside[:MAX_COUNTS]]):
                if self._counts_for(here, value, model, wanted):
                    return

    def _counts_for(self, slot: Slot, value: int, model: nn.Module, wanted: Any) -> bool:
        """Whether the model, and not the program, returns something else when a counter has this value."""
        slot.put(value)
        try:
            result = self.inquiry.call(model, self.inquiry.ctx.example())
        except ModelError:
            return False
        difference = self.inquiry.compare(wanted, result)
        if (
            difference is None
            or self.inquiry.compare(result, self.inquiry.program_calls([self.inquiry.ctx.example()])[0]) is None
        ):
            return False
        slot.put(value)
        evidence = f"with {slot.words} = {value}: {difference}"
        self._add_memory(slot, self.inquiry.with_place(evidence, self.inquiry.ctx.example(), model=model))
        return True

    def _untold(self, slot: Slot, wanted: Any) -> None:
        """Say that a change was seen that had no effect so far, so that nobody takes it for refuted."""
        known = any(
            f.rule == "EXP501" and f.message.startswith(f"state baked: {slot.words} ") for f in self.inquiry.findings
        )
        if (
            known
            or not writes.is_read(slot.name, self.inquiry.lines, bare=slot.bare)
            or not self._is_missed(slot, wanted)
        ):
            return
        message = f"{slot.words} is changed here in each call; {MANY_CALLS} calls in a row returned the same"
        lines = leftovers.lines_that_write(slot, self.inquiry.lines) or writes.lines_that_write(
            slot.name, self.inquiry.lines, bare=slot.bare
        )
        for place in lines[:MAX_LINES]:
            self.inquiry.findings.append(blame.finding("EXP501", message, place, outcome=None))

    def _is_missed(self, slot: Slot, wanted: Any) -> bool:
        """Whether the second call is another one without what the first left there: it is read before it is written."""
        model = self.inquiry.build()
        self.inquiry.call(model, self.inquiry.ctx.example())
        for here in [known for known, _ in slots(model) if _group(known) == _group(slot)]:
            here.drop()
        try:
            return self.inquiry.compare(wanted, self.inquiry.call(model, self.inquiry.ctx.example())) is not None
        except ModelError:
            return True

    def _judge_program(self, results: Sequence[Any], calls: Sequence[Inputs]) -> None:
        """The eager model returns the same twice: the program must, too."""
        produced = self.inquiry.program_calls(calls)
        difference = self.inquiry.compare(results[1], produced[1])
        if self.inquiry.compare(results[0], produced[0]) is None and difference is not None:
            message = "the program returns something else in its second call, and the eager model does not"
            evidence = self.inquiry.with_place(str(difference), calls[1], calls[:1])
            self.inquiry.add("EXP004", message, self.inquiry.ctx.head(), evidence)

    def _judge_memory(self, results: Sequence[Any], wanted: Sequence[Any], calls: Sequence[Inputs]) -> None:
        """Later eager calls depend on earlier ones: the program must follow them, and begin where they do."""
        produced = self.inquiry.program_calls(calls)
        carried = [self.inquiry.compare(want, result) is not None for want, result in zip(wanted, results, strict=True)]
        parted = [self.inquiry.compare(result, made) for result, made in zip(results, produced, strict=True)]
        for k, difference in enumerate(parted):
            if difference is not None and any(carried) and (carried[k] or self._begins_late(k)):
                later = k if carried[k] else carried.index(True)
                evidence, place = self.inquiry.parted(f"call {k + 1}: {difference}", calls[k], calls[:k])
                self._blame_memory(later, wanted[later], calls, evidence, place)
                return

    def _begins_late(self, k: int) -> bool:
        """Whether the program may hold what an earlier call left behind, and so differ from the very first."""
        return k == 0 and any(slot.outlives for slot in self.before.changed())

    def _blame_memory(self, k: int, wanted: Any, calls: Sequence[Inputs], evidence: str, parted: Place | None) -> None:
        """Find which names carry what call `k` reads: with them put back, it returns what a fresh model returns.

        Buffers that the program writes to are none of them: where there is no other name, the line is to blame at
        which values part.
        """
        groups: dict[Group, Slot] = {}
        everything = self._without(k, calls, lambda _: True, groups)
        names = list(groups)[:MAX_GROUPS]
        if not groups and self.followed:
            message = "a later call of the program returns something else, though it writes to the same buffers"
            self.inquiry.add("EXP004", message, parted or self.inquiry.ctx.head(), evidence)
            return
        if not groups or self.inquiry.compare(wanted, everything) is not None:
            place = self._parting(k, calls)
            message = "state baked: a later call returns something else than the first, and the program does not follow"
            self.inquiry.add("EXP501", message, place or self.inquiry.ctx.head(), evidence)
            return
        guilty = [g for g in names if len(names) == 1 or self._carries(g, k, wanted, calls)]
        for group in guilty or names:
            self._add_memory(groups[group], evidence)

    def _parting(self, k: int, calls: Sequence[Inputs]) -> Place | None:
        """Where call `k` of a model parts from the same call of a fresh one."""
        used = self.inquiry.build()
        for inputs in calls[:k]:
            self.inquiry.call(used, inputs)
        later = value_trace.traced(lambda: self.inquiry.call(used, calls[k]))
        unused = self.inquiry.build()
        return value_trace.parting(value_trace.traced(lambda: self.inquiry.call(unused, calls[k])), later)

    def _add_memory(self, slot: Slot, evidence: str) -> None:
        message = f"state baked: {slot.words} is changed here and read by a later call; the program does not see it"
        place = leftovers.line_of(slot, self.inquiry.lines) or self.inquiry.ctx.head()
        self.inquiry.add("EXP501", message, place, evidence, DRAW if slot.draws else None)

    def _carries(self, group: Group, k: int, wanted: Any, calls: Sequence[Inputs]) -> bool:
        """Whether this name alone, carried from call to call, changes what call `k` returns."""
        return self.inquiry.compare(wanted, self._without(k, calls, lambda g: g != group, {})) is not None

    def _without(
        self, k: int, calls: Sequence[Inputs], forget: Callable[[Group], bool], groups: dict[Group, Slot]
    ) -> Any:
        """What call `k` of a fresh model returns if some of what changed is put back after each call."""
        model = self.inquiry.build()
        before = Snapshot(model)
        for inputs in calls[:k]:
            self.inquiry.call(model, inputs)
            changed = before.changed()
            follows = self.inquiry.follows(model)
            self.followed |= any(id(slot.value()) in follows for slot in changed)
            groups.update({_group(slot): slot for slot in changed if id(slot.value()) not in follows})
            before.restore(slot for slot in changed if forget(_group(slot)))
        try:
            return self.inquiry.call(model, calls[k])
        except ModelError as error:  # half of the state is worse than none: that name matters
            return repr(error.__cause__)


def _group(slot: Slot) -> Group:
    return slot.kind, slot.name, slot.holder


def _scaled(inputs: Inputs) -> Inputs:
    """The same call with other floating-point values."""

    def other(leaf: Any) -> Any:
        plain = isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and not leaf.is_sparse
        return (leaf.detach() * SCALE).requires_grad_(leaf.requires_grad) if plain else leaf

    scaled: Inputs = pytree.tree_map(other, inputs)
    return scaled
