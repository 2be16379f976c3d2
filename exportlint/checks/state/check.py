"""The check ``state``: what the program cannot remember, and what it remembers of the moment of its capture.

1. A fresh eager model is called several times. Where a later call returns something else than the first, Python
   state was carried; the program must follow. What was carried is found by putting it back, name by name.
2. What the model reads of its surroundings (clock, random numbers, environment, files, and the `switches`) is noted.
   A read counts where the eager model under a twin of the surroundings returns something else and the program does not.
3. What the capture left behind in the eager model is reported.

A read without effect is information. Buffers that are updated in place are followed by the program: no finding.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from exportlint import blame
from exportlint.checks import divergence, uncaptured
from exportlint.checks.context import ModelError, call, fresh, seed_everything, unchanged
from exportlint.checks.state import files, leftovers, value_trace, writes
from exportlint.checks.state.holders import is_installed, python_modules, users_classes
from exportlint.checks.state.python_state import Slot, Snapshot, slots
from exportlint.checks.state.surroundings import OTHER_SEEDS, OTHER_VALUES, SHIFTS, Read, Surroundings, Twin
from exportlint.checks.state.switches import NO_CHANGE, SWITCHES, Change
from exportlint.findings import SEVERITIES, CheckResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import nn
    from torch.export import ExportedProgram

    from exportlint.checks.case import Inputs
    from exportlint.checks.context import Context
    from exportlint.checks.state.switches import Switch
    from exportlint.findings import Finding
    from exportlint.parity.compare import Difference
    from exportlint.places import Place

NAME = "state"
SCALE = 0.75  # of floating-point inputs in the other call: keeps signs, and values between 0 and 1
MAX_GROUPS = 6  # of changed names that are tried one by one
MANY = 10**6  # calls after which something may be another way
MANY_CALLS = 16  # that are made one after the other
MAX_COUNTS = 30  # values of one counter that are tried
MAX_FILES = 6  # that are given other contents
MAX_LINES = 5  # of reads of one kind

GOES_ON = "state baked: what is read here goes on from call to call, in fresh models too; the program keeps what it was"

_TRIED = {
    "clock": "its result was the same at each time that was tried",
    "random": "its result was the same with each seed that was tried",
    "entropy": "its result was the same in two calls",
    "environment": "its result was the same with each value that was tried",
    "file": "the program keeps what it held",
    "path": "its result was the same with each answer that was tried",
}
_CALLED = {"environment": "the environment variable ", "file": "the file ", "path": "what the file system says of "}

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


@dataclass
class Inquiry:
    """One model case under inquiry.

    Attributes:
        ctx: The case.
        program: The captured program.
        lines: Lines of the user's code that the first call executed, in order.
        reads: What that call read of its surroundings.
        frozen: The lines whose reads matter.
        findings: What was found.
        notes: Further lines for a reader.
        unjudged: Why nothing can be said, if so.
    """

    ctx: Context
    program: ExportedProgram
    lines: list[tuple[str, int]] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    frozen: set[Place] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unjudged: str | None = None

    def __post_init__(self) -> None:
        self.module = self.program.module()
        model = self.ctx.build()
        self.found = Snapshot(model)
        self.start = Snapshot(model)
        if self.ctx.code_state is not None:  # earlier checks have called the model
            self.start.take_over(self.ctx.code_state)
        self.modules = python_modules({cls for module in model.modules() for cls in users_classes(module)})

    def run(self) -> None:
        """Watch one call, call another model several times, and look at what was read."""
        try:
            self.findings += self.ctx.left_behind
            first = self._watched()
            model = self.build()
            self.before = Snapshot(model)
            results = [self._call(model, self.ctx.example())]
            after_one = Snapshot(model)
            results.append(self._call(model, self.ctx.example()))
            same = self.compare(first, results[0]) is None
            if same:
                counters = [slot for slot in after_one.changed() if slot.counts]
                self._judge_calls(model, results)
                self._judge_long(counters, results)
            self._judge_reads(first)
            for switch in SWITCHES:
                self._judge_switch(switch, first)
            if not same and not self._of_kind("entropy") and not any(finding.counts for finding in self.findings):
                self._judge_first_calls()
        finally:
            self.found.restore(self.found.changed())

    def build(self) -> nn.Module:
        """A fresh model, with what outlives it as it was before any was called."""
        self.start.restore(self.start.changed())
        return self.ctx.build()

    def compare(self, expected: Any, actual: Any) -> Difference | None:
        """The first difference between two results, as the case defines equal."""
        return self.ctx.compare(expected, actual)

    def _watched(self) -> Any:
        """What the first call of a fresh model returns; its lines and reads are noted."""
        model, inputs = self.build(), self.ctx.example()
        results: list[Any] = []
        with Surroundings(self.modules) as seen:
            self.lines = divergence.lines_of(lambda: results.append(call(model, inputs)))
        self.reads = list(seen.reads)
        if not results or self._of_kind("clock"):
            return self._call(self.build(), self.ctx.example())
        return pytree.tree_map(_kept, results[0])

    def _call(self, model: nn.Module, inputs: Inputs) -> Any:
        """What a call returns; a model that reads clocks meets the same times in each call.

        Raises:
            ModelError: When it raises.
        """
        if not self._of_kind("clock"):
            return pytree.tree_map(_kept, self.ctx.call_eager(model, fresh(inputs)))
        with Surroundings(self.modules, Twin(clock=True)):
            return pytree.tree_map(_kept, self.ctx.call_eager(model, fresh(inputs)))

    def _judge_first_calls(self) -> None:
        """The first calls of fresh models differ, and nothing that was read explains it: something goes on."""
        self.unjudged = "the eager model differs from itself with the same seeds: its calls are not compared"
        produced = self._program_calls([self.ctx.example(), self.ctx.example()])
        if self.compare(*produced) is not None:
            return
        models = [self.build(), self.build()]
        if len({value_trace.mark_of_module(model) for model in models}) > 1:
            self.unjudged = (
                "the factory makes another model each time, with the same seeds: their calls are not compared"
            )
            return
        one, two = (value_trace.traced(lambda m=m: self._call(m, self.ctx.example())) for m in models)  # type: ignore[misc]
        place = value_trace.parting(one, two)
        if place is not None:
            self._add("EXP501", GOES_ON, place, "the first calls of two fresh models return different results")

    # -- several calls

    def _judge_calls(self, model: nn.Module, results: list[Any]) -> None:
        calls = [self.ctx.example(), self.ctx.example()]
        wanted = [results[0], results[0]]
        if not self.before.changed() and self.compare(*results) is None:
            self._judge_program(results, calls)
            return
        other = _scaled(self.ctx.example())
        try:
            later = [self._call(model, other), self._call(model, self.ctx.example())]
            wanted += [self._call(self.build(), other), results[0]]
            results, calls = [*results, *later], [*calls, other, self.ctx.example()]
        except ModelError:  # the model refuses other values
            wanted = wanted[:2]
        if any(self.compare(a, b) is not None for a, b in zip(wanted, results, strict=True)):
            self._judge_memory(results, wanted, calls)

    def _judge_long(self, counters: Sequence[Slot], results: Sequence[Any]) -> None:
        """What earlier calls left behind may matter after many of them only: go on, and look at late counts."""
        changed = self.before.changed()
        if not changed or self.compare(*results) is not None or any(f.rule == "EXP501" for f in self.findings):
            return  # earlier calls matter as it is
        history = self._judge_many_calls(results[0])
        for slot in [slot for slot in counters if history.goes_on(slot)][:MAX_GROUPS]:
            self._judge_counter(slot, results[0])
        for slot in changed:
            if history.calls == history.changes[_group(slot)] == MANY_CALLS:
                self._untold(slot, results[0])

    def _judge_many_calls(self, wanted: Any) -> History:
        """Call a fresh model again and again, for as long as calls change what it keeps."""
        model = self.build()
        results = []
        history = History()
        for _ in range(MANY_CALLS):
            before = Snapshot(model)
            results.append(self._call(model, self.ctx.example()))
            changed = before.changed()
            history.add(changed)
            if not changed:
                break
            if self.compare(wanted, results[-1]) is not None:
                self._judge_memory(results, [wanted] * len(results), [self.ctx.example() for _ in results])
                break
        return history

    def _judge_counter(self, slot: Slot, wanted: Any) -> None:
        """Let what counts calls be far ahead, and beside the numbers that the source may compare it with."""
        model = self.build()
        before = {_group(known): value for known, value in slots(model)}.get(_group(slot), 0)
        self._call(model, self.ctx.example())
        for here in (known for known, _ in slots(model) if _group(known) == _group(slot)):
            now = here.value()
            sign = 1 if now >= before else -1
            numbers = writes.numbers_beside(slot.name, self.lines, bare=slot.bare)
            beside = [value + step for value in numbers for step in (-1, 0, 1) if (value + step - now) * sign >= 0]
            for value in dict.fromkeys([sign * MANY, *beside[:MAX_COUNTS]]):
                if self._counts_for(here, value, model, wanted):
                    return

    def _counts_for(self, slot: Slot, value: int, model: nn.Module, wanted: Any) -> bool:
        """Whether the model, and not the program, returns something else when a counter has this value."""
        slot.put(value)
        try:
            result = self._call(model, self.ctx.example())
        except ModelError:
            return False
        difference = self.compare(wanted, result)
        if difference is None or self.compare(result, self._program_calls([self.ctx.example()])[0]) is None:
            return False
        self._add_memory(slot, f"with {slot.words} = {value}: {difference}")
        return True

    def _untold(self, slot: Slot, wanted: Any) -> None:
        """Say that a change was seen that had no effect so far, so that nobody takes it for refuted."""
        known = any(f.rule == "EXP501" and f.message.startswith(f"state baked: {slot.words} ") for f in self.findings)
        if known or not writes.is_read(slot.name, self.lines, bare=slot.bare) or not self._is_missed(slot, wanted):
            return
        message = f"{slot.words} is changed here in each call; {MANY_CALLS} calls in a row returned the same"
        for place in writes.lines_that_write(slot.name, self.lines, bare=slot.bare)[:MAX_LINES]:
            self.findings.append(blame.finding("EXP501", message, place, outcome=None))

    def _is_missed(self, slot: Slot, wanted: Any) -> bool:
        """Whether the second call is another one without what the first left there: it is read before it is written."""
        model = self.build()
        self._call(model, self.ctx.example())
        for here in [known for known, _ in slots(model) if _group(known) == _group(slot)]:
            here.drop()
        try:
            return self.compare(wanted, self._call(model, self.ctx.example())) is not None
        except ModelError:
            return True

    def _judge_program(self, results: Sequence[Any], calls: Sequence[Inputs]) -> None:
        """The eager model returns the same twice: the program must, too."""
        produced = self._program_calls(calls)
        difference = self.compare(results[1], produced[1])
        if self.compare(results[0], produced[0]) is None and difference is not None:
            message = "the program returns something else in its second call, and the eager model does not"
            self._add("EXP004", message, self.ctx.head(), str(difference))

    def _judge_memory(self, results: Sequence[Any], wanted: Sequence[Any], calls: Sequence[Inputs]) -> None:
        """Later eager calls depend on earlier ones: the program must follow them, and begin where they do."""
        produced = self._program_calls(calls)
        carried = [self.compare(want, result) is not None for want, result in zip(wanted, results, strict=True)]
        parted = [self.compare(result, made) for result, made in zip(results, produced, strict=True)]
        for k, difference in enumerate(parted):
            if difference is not None and any(carried) and (carried[k] or self._begins_late(k)):
                later = k if carried[k] else carried.index(True)
                self._blame_memory(later, wanted[later], calls, f"call {k + 1}: {difference}")
                return

    def _begins_late(self, k: int) -> bool:
        """Whether the program may hold what an earlier call left behind, and so differ from the very first."""
        return k == 0 and any(slot.outlives for slot in self.before.changed())

    def _program_calls(self, calls: Sequence[Inputs]) -> list[Any]:
        self.ctx.stage("run of the program")
        with unchanged(self.program):
            return [pytree.tree_map(_kept, call(self.module, fresh(inputs))) for inputs in calls]

    def _blame_memory(self, k: int, wanted: Any, calls: Sequence[Inputs], evidence: str) -> None:
        """Find which names carry what call `k` reads: with them put back, it returns what a fresh model returns."""
        groups: dict[Group, Slot] = {}
        everything = self._without(k, calls, lambda _: True, groups)
        names = list(groups)[:MAX_GROUPS]
        if not groups or self.compare(wanted, everything) is not None:
            place = self._parting(k, calls)
            message = "state baked: a later call returns something else than the first, and the program does not follow"
            self._add("EXP501", message, place or self.ctx.head(), evidence)
            return
        guilty = [g for g in names if len(names) == 1 or self._carries(g, k, wanted, calls)]
        for group in guilty or names:
            self._add_memory(groups[group], evidence)

    def _parting(self, k: int, calls: Sequence[Inputs]) -> Place | None:
        """Where call `k` of a model parts from the same call of a fresh one."""
        used = self.build()
        for inputs in calls[:k]:
            self._call(used, inputs)
        later = value_trace.traced(lambda: self._call(used, calls[k]))
        unused = self.build()
        return value_trace.parting(value_trace.traced(lambda: self._call(unused, calls[k])), later)

    def _add_memory(self, slot: Slot, evidence: str) -> None:
        message = f"state baked: {slot.words} is changed here and read by a later call; the program does not see it"
        self._add("EXP501", message, leftovers.line_of(slot, self.lines) or self.ctx.head(), evidence)

    def _carries(self, group: Group, k: int, wanted: Any, calls: Sequence[Inputs]) -> bool:
        """Whether this name alone, carried from call to call, changes what call `k` returns."""
        return self.compare(wanted, self._without(k, calls, lambda g: g != group, {})) is not None

    def _without(
        self, k: int, calls: Sequence[Inputs], forget: Callable[[Group], bool], groups: dict[Group, Slot]
    ) -> Any:
        """What call `k` of a fresh model returns if some of what changed is put back after each call."""
        model = self.build()
        before = Snapshot(model)
        for inputs in calls[:k]:
            self._call(model, inputs)
            changed = before.changed()
            groups.update({_group(slot): slot for slot in changed})
            before.restore(slot for slot in changed if forget(_group(slot)))
        try:
            return self._call(model, calls[k])
        except ModelError as error:  # half of the state is worse than none: that name matters
            return repr(error.__cause__)

    # -- surroundings

    def _judge_reads(self, first: Any) -> None:
        """Confirm what was read by twins; what has no effect is information."""
        if not self.reads:
            return
        clocks, base = self._of_kind("clock"), first
        for shift in SHIFTS:
            twin = Twin(clock=True, shift=shift)
            self._confirm(clocks, base, twin, "at another time")
        for seed in OTHER_SEEDS:
            twin = Twin(clock=bool(clocks), seed=seed)
            words = "with another seed of Python's and numpy's random numbers"
            self._confirm(self._of_kind("random"), base, twin, words)
        for name in dict.fromkeys(read.what for read in self._of_kind("environment")):
            self._judge_variable(name, base, bool(clocks))
        self._judge_files(base, bool(clocks))
        if self._of_kind("entropy") and self.compare(base, self._under(Twin(clock=bool(clocks)))) is not None:
            for read in self._of_kind("entropy"):
                self._frozen(read, "the eager model differs from itself with the same seeds")
        if any(read.what == "torch.manual_seed" for read in self.reads):
            self._judge_seed()
        self._inform()

    def _of_kind(self, kind: str) -> list[Read]:
        return [read for read in self.reads if read.kind == kind]

    def _under(self, twin: Twin, function: Callable[..., Any] | None = None, change: Change = NO_CHANGE) -> Any:
        """What a fresh model, or this function, returns for the example in other surroundings."""
        model, inputs = function or self.build(), change.inputs(self.ctx.example())
        if isinstance(model, torch.nn.Module) and function is None:
            change.model(model)
        with Surroundings(self.modules, twin) as surroundings, torch.no_grad():
            seed_everything()
            surroundings.seed()
            try:
                with change.around(self.modules):
                    return pytree.tree_map(_kept, model(*inputs[0], **inputs[1]))
            except Exception as error:
                return repr(error)

    def _confirm(self, reads: list[Read], base: Any, twin: Twin, words: str) -> None:
        """A finding for each line whose read changes what the eager model, and not the program, returns."""
        places = dict.fromkeys(read.place for read in reads)
        left = [place for place in places if place not in self.frozen]
        difference = self._confirmed(base, twin) if left else None
        if difference is None:
            return
        alone = list(places) if len(places) == 1 else [p for p in left if self._matters(p, base, twin)]
        together = list(places) if len(left) == len(places) else []  # else those that were found explain it
        for read in reads:
            if read.place in (alone or together)[:MAX_LINES]:
                self._frozen(read, f"{words}: {difference}")

    def _confirmed(
        self, base: Any, twin: Twin, change: Change = NO_CHANGE, steady: Change = NO_CHANGE
    ) -> Difference | None:
        """The difference that other surroundings make in the eager model and not in the program."""
        changed = change.result(base, self._under(twin, change=change))
        difference = self.compare(base, changed)
        if difference is None or isinstance(changed, str) or isinstance(base, str) or _without_data(changed):
            return None
        if self.compare(base, self._under(Twin(clock=twin.clock), change=steady)) is not None:
            return None  # it differs from itself for another reason
        return None if self._follows(base, changed, twin, change, steady) else difference

    def _follows(self, base: Any, changed: Any, twin: Twin, change: Change, steady: Change) -> bool:
        """Whether the program returns what the eager model does in both surroundings: by chance it may in one."""
        with unchanged(self.program):
            produced = change.result(base, self._under(twin, self.module, change))
            if self.compare(changed, produced) is not None:
                return False
            return self.compare(base, self._under(Twin(clock=twin.clock), self.module, steady)) is None

    def _judge_variable(self, name: str, base: Any, clock: bool) -> None:
        reads = [read for read in self._of_kind("environment") if read.what == name]
        mentioned = [text for read in reads for text in writes.strings_around(read.place) if text != name]
        for value in dict.fromkeys([*OTHER_VALUES, *mentioned[:MAX_LINES]]):
            difference = self._confirmed(base, Twin(clock=clock, variable=(name, value)))
            if difference is not None:
                words = f"with {name} {'not set' if value is None else f'set to {value!r}'}: {difference}"
                for read in reads:
                    self._frozen(read, words)
                return

    def _judge_files(self, base: Any, clock: bool) -> None:
        """A finding for the lines that read a file, or ask for it, where another answer changes the result."""
        reads = [*self._of_kind("file"), *self._of_kind("path")]
        for path in list(dict.fromkeys(read.path for read in reads))[:MAX_FILES]:
            here = [read for read in reads if read.path == path]
            mentioned = [text for read in here for text in writes.strings_around(read.place)][:MAX_LINES]
            with tempfile.TemporaryDirectory() as folder:
                for words, file in files.others(path, Path(folder), mentioned):
                    twin = Twin(clock=clock, file=file)
                    difference = self._confirmed(base, twin)
                    if difference is not None:
                        alone = [read for read in here if len(here) == 1 or self._matters(read.place, base, twin)]
                        reads_it = [read for read in here if read.kind == here[0].kind]
                        for read in (alone or reads_it)[:MAX_LINES]:
                            self._frozen(read, f"{words}: {difference}")
                        break

    def _matters(self, place: Place, base: Any, twin: Twin) -> bool:
        """Whether a twin's answers at this line alone make the eager model return something else."""
        return self.compare(base, self._under(dataclasses.replace(twin, only=place))) is not None

    def _judge_switch(self, switch: Switch, base: Any) -> None:
        """A finding for the lines that read it, where another answer changes what the eager model returns."""
        lines = switch.lines(self.lines)
        twin = Twin(clock=bool(self._of_kind("clock")))
        if lines and switch.steady is not NO_CHANGE:
            base = self._under(twin, change=switch.steady)
        for change in switch.changes if lines else ():
            self.ctx.stage(f"eager call {change.words}")
            difference = self._confirmed(base, twin, change, switch.steady)
            if difference is not None:
                for place in lines:
                    self._add("EXP303", switch.words, place, f"{change.words}: {difference}", switch.rewrite)
                return
        for place in lines if switch.told else ():
            if not is_installed(place.file):
                self.findings.append(
                    blame.finding("EXP303", switch.quiet.format(what=switch.what), place, outcome="fine")
                )

    def _judge_seed(self) -> None:
        """``torch.manual_seed`` in forward runs once, at the capture: the program draws by the caller's seed."""

        def reseeded(function: Callable[..., Any]) -> Any:
            inputs = self.ctx.example()
            seed_everything()
            torch.manual_seed(OTHER_SEEDS[0])
            with torch.no_grad():
                return function(*inputs[0], **inputs[1])

        expected = reseeded(self.build())
        with unchanged(self.program):
            difference = self.compare(expected, reseeded(self.module))
        if difference is not None:
            for read in self.reads:
                if read.what == "torch.manual_seed":
                    message = "torch.manual_seed runs while the model is captured and never in the program"
                    self._add("EXP303", message, read.place, f"after another seed: {difference}", "Seed in the caller.")

    def _frozen(self, read: Read, evidence: str) -> None:
        self.frozen.add(read.place)
        what = f"{_CALLED[read.kind]}{read.what}" if read.kind in _CALLED else f"`{read.what}`"
        message = f"state baked: {what} is read once, while the model is captured, and the program keeps the answer"
        rewrites = {
            "clock": "Pass the time in as a tensor.",
            **dict.fromkeys(_CALLED, "Read it in __init__, or pass it in."),
        }
        self._add(
            "EXP303", message, read.place, evidence, rewrites.get(read.kind, "Draw it with torch, or pass it in.")
        )

    def _inform(self) -> None:
        """Reads without an effect that was seen, in the project's own files."""
        told = {(f.file, f.line) for f in self.findings}
        opened = {(read.place, read.path) for read in self._of_kind("file")}
        reads = [read for read in self.reads if read.kind != "path" or (read.place, read.path) not in opened]
        quiet = [r for r in reads if r.kind != "seed" and not is_installed(r.place.file)]
        for read in quiet[: 2 * MAX_LINES]:
            message = f"{_CALLED.get(read.kind, '')}{read.what} is read when the model runs; {_TRIED[read.kind]}"
            found = blame.finding("EXP303", message, read.place, outcome="fine")
            if (found.file, found.line) not in told:
                self.findings.append(found)

    def _add(self, rule: str, message: str, place: Place | None, evidence: str, rewrite: str | None = None) -> None:
        found = blame.finding(rule, message, place, outcome="silent", rewrite=rewrite, evidence=evidence)
        if (found.rule, found.file, found.line) not in {(f.rule, f.file, f.line) for f in self.findings}:
            self.findings.append(found)


def run(ctx: Context) -> CheckResult:
    """Run the check."""
    try:
        inquiry = Inquiry(ctx, ctx.program())
        inquiry.run()
    except Exception as error:
        unavailable = uncaptured.result(NAME, error)
        if ctx.captured and not isinstance(error, ModelError):
            raise
        return unavailable
    findings = tuple(sorted(inquiry.findings, key=lambda finding: SEVERITIES.index(finding.severity)))
    red = [finding for finding in findings if finding.severity != "info"]
    return CheckResult(
        name=NAME,
        outcome="failed" if red else "not_checked" if inquiry.unjudged else "passed",
        reason=red[0].message if red else inquiry.unjudged,
        findings=findings,
        notes=tuple(inquiry.notes),
    )


def _without_data(result: Any) -> bool:
    return any(isinstance(leaf, torch.Tensor) and leaf.is_meta for leaf in pytree.tree_leaves(result))


def _group(slot: Slot) -> Group:
    return slot.kind, slot.name, slot.holder


def _kept(leaf: Any) -> Any:
    """A result that later calls cannot change."""
    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) and not leaf.is_sparse else leaf


def _scaled(inputs: Inputs) -> Inputs:
    """The same call with other floating-point values."""

    def other(leaf: Any) -> Any:
        plain = isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and not leaf.is_sparse
        return (leaf.detach() * SCALE).requires_grad_(leaf.requires_grad) if plain else leaf

    scaled: Inputs = pytree.tree_map(other, inputs)
    return scaled
