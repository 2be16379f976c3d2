"""The check ``shapes``: is the program the model for every shape that it should accept?

The contract is what the case declares, or what varies between its two example calls. A dimension that was asked to be
dynamic and became a constant is a finding. Then hypothesis draws calls inside the contract, the second example first:
where the eager model accepts a call, the program must accept it too and return the same. Calls that the eager model
refuses are no examples. A failure shrinks to the smallest shape, and is blamed on the guard that it violates, else on
the line where the eager calls part, else on the node that fails.
"""

from __future__ import annotations

import contextlib
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import reject
from hypothesis.errors import Unsatisfiable
from torch.utils import _pytree as pytree

from exportlint import blame, places
from exportlint.checks import divergence, failing_node
from exportlint.checks.context import ModelError, NotCapturedError, call, fresh, mutates, unchanged
from exportlint.findings import CheckResult, Finding
from exportlint.parity.compare import Difference, compare
from exportlint.shapes import contract as contracts
from exportlint.shapes import narrowing, strategies
from exportlint.torch_hooks import guards as guard_hooks
from exportlint.torch_hooks.guards import GuardLog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hypothesis.strategies import SearchStrategy
    from torch.export import ExportedProgram

    from exportlint.checks.case import Inputs
    from exportlint.checks.context import Context
    from exportlint.findings import Result
    from exportlint.places import Place
    from exportlint.shapes.contract import Contract, Granted
    from exportlint.shapes.strategies import Drawn
    from exportlint.torch_hooks.guards import Guard

NAME = "shapes"
FAULTS_OF_THE_CASE = {
    "inputs2": "the arguments of the second call cannot be made",
    "second call": "the eager model fails in the second call of the case",
    "value_ranges": "the case gives a range of values for an input that there is not",
}
MAX_FAULTS = 3  # different places that are looked for before the check stops
SECONDS = 60.0  # what drawing may take; the examples that were run by then count


class RefusedError(Exception):
    """The eager model itself refuses the call, so it is no example."""


class FaultError(Exception):
    """A call that the eager model accepts and on which the program fails or differs."""

    def __init__(self, rule: str, message: str, place: Place | None, evidence: str, outcome: Result) -> None:
        super().__init__(message)
        self.rule, self.message, self.place, self.evidence, self.outcome = rule, message, place, evidence, outcome

    @property
    def key(self) -> tuple[str, Place | None]:
        """What makes it one fault with others."""
        return self.rule, self.place

    def finding(self) -> Finding:
        """The finding for it."""
        return blame.finding(self.rule, self.message, self.place, outcome=self.outcome, evidence=self.evidence)


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
    """

    ctx: Context
    contract: Contract
    granted: Granted
    program: ExportedProgram
    guards: list[Guard]
    example: Inputs
    faults: dict[tuple[str, Place | None], FaultError] = field(default_factory=dict)
    known: frozenset[tuple[str, Place | None]] = frozenset()
    ran: int = 0
    refused: int = 0
    other_structure: bool = False

    def __post_init__(self) -> None:
        self.model = self.ctx.build()
        self.module = self.program.module()
        self.keeps_state = mutates(self.program)

    def attempt(self, inputs: Inputs, words: tuple[str, ...], sizes: Mapping[str, int]) -> None:
        """Call both with the same inputs.

        Raises:
            RefusedError: When the eager model refuses them.
            FaultError: When the program fails or differs, and the fault is not a known one.
        """
        model = self.ctx.build() if self.keeps_state else self.model
        try:
            expected = call(model, fresh(inputs))
        except Exception as error:
            self.refused += 1
            raise RefusedError from error
        self.ran += 1
        fault = self._fault(inputs, expected, words, sizes)
        if fault is not None:
            if fault.key in self.known:
                return
            self.faults[fault.key] = fault
            raise fault

    def _fault(
        self, inputs: Inputs, expected: Any, words: tuple[str, ...], sizes: Mapping[str, int]
    ) -> FaultError | None:
        said = ", ".join(words)
        try:
            with unchanged(self.program):
                actual = call(self.module, fresh(inputs))
        except Exception as error:
            return self._failure(error, inputs, said, sizes)
        difference = self._compare(expected, actual)
        if difference is None:
            return None
        again = call(self.ctx.build(), fresh(inputs))
        if self._compare(again, actual) is None or compare(expected, again, rtol=0.0, atol=0.0) is not None:
            return None  # the eager model keeps state from call to call, or never returns the same
        return self._difference(difference, inputs, said, sizes)

    def _compare(self, expected: Any, actual: Any) -> Difference | None:
        return compare(expected, actual, **self.ctx.tolerance)

    def _failure(self, error: Exception, inputs: Inputs, said: str, sizes: Mapping[str, int]) -> FaultError | None:
        """The program refuses a call, or fails in it."""
        if blame.is_out_of_memory(error):
            raise RefusedError from error
        guard = violated(self.guards, sizes)
        if guard is None and 1 in {sizes[source] for source in self._asked_sources()}:
            return None  # torch treats a size of 1 apart, and says so: the call is refused, not answered wrongly
        if guard is not None:
            place = guard.place
            message = f"the program refuses a call that the eager model accepts; it holds only while {guard.text}"
        else:
            place = self._part(inputs) or failing_node.place(self.program, fresh(inputs)) or self.ctx.head()
            message = "the program fails in a call that the eager model accepts"
        return FaultError(blame.size_rule(place), message, place, f"{said}: {blame.words(error)}", "specialises")

    def _difference(self, difference: Difference, inputs: Inputs, said: str, sizes: Mapping[str, int]) -> FaultError:
        """The program answers, and wrongly."""
        guard = violated(self.guards, sizes)
        place = guard.place if guard is not None else self._part(inputs)
        rule = blame.size_rule(place) if place is not None else "EXP004"
        message = "the program returns something else than the eager model for another call"
        return FaultError(rule, message, place or self.ctx.head(), f"{said}: {difference}", "silent")

    def _part(self, inputs: Inputs) -> Place | None:
        """Where the eager call parts from that of the example."""
        one, two = self.ctx.build(), self.ctx.build()
        return divergence.place(lambda: call(one, fresh(self.example)), lambda: call(two, fresh(inputs)))

    def _asked_sources(self) -> list[str]:
        return [f"{leaf.source}.size()[{d}]" for leaf in self.contract.leaves for d in leaf.asked]


def violated(guards: list[Guard], sizes: Mapping[str, int]) -> Guard | None:
    """The first guard with a known line that does not hold for these sizes."""
    for guard in guards:
        symbols = {str(symbol): symbol for symbol in getattr(guard.expression, "free_symbols", ())}
        values = {symbols[name]: sizes[source] for name, source in guard.sources.items() if source in sizes}
        if len(values) != len(symbols) or guard.place is None:
            continue
        try:
            holds = guard.expression.subs(values)
        except Exception:  # sympy cannot decide it
            continue
        if holds == False:  # noqa: E712 - sympy's own false
            return guard
    return None


def run(ctx: Context) -> CheckResult:
    """Run the check."""
    log = GuardLog()
    guards = log.guards
    try:
        contract, inferred = ctx.contract()
        second = ctx.second_example()
        if second is not None:
            ctx.call_second(second)
        elif not contract.dynamic:
            why = "names no input" if ctx.dynamic_shapes else "and inputs2 are missing"
            return _not_checked(f"no dimension is dynamic: dynamic_shapes {why}")
        if inferred and contract.dynamic:
            with log:
                program, example = _export(ctx, contract)
        else:
            program, example, guards = ctx.program(), ctx.example(), ctx.guards
    except ModelError as error:
        if error.stage in FAULTS_OF_THE_CASE:
            return _fault_of_the_case(error)
        return _not_checked(f"the model does not run: the {error.stage} fails")
    except NotCapturedError:
        return _not_checked("the model is not captured")
    except Exception as error:
        if blame.is_out_of_memory(error):
            raise MemoryError from error
        return _refused(ctx, error, log.guards, inferred=inferred and contract.dynamic)
    subject = Subject(ctx, contract, contracts.granted(program), program, guards, example)
    findings = [*_pinned(subject), *_drawn(subject)]
    return _result(subject, findings)


def _fault_of_the_case(error: ModelError) -> CheckResult:
    cause = error.__cause__ or error
    message = FAULTS_OF_THE_CASE[error.stage]
    found = blame.finding("EXP002", message, blame.place_of(cause), outcome="breaks", evidence=blame.words(cause))
    return CheckResult(name=NAME, outcome="errored", reason=f"{message}: {blame.words(cause)}", findings=(found,))


def _not_checked(reason: str) -> CheckResult:
    return CheckResult(name=NAME, outcome="not_checked", reason=reason)


def _export(ctx: Context, contract: Contract) -> tuple[ExportedProgram, Inputs]:
    """Capture with the inferred dimensions dynamic; the program and the call that it was captured from."""
    try:
        ctx.program()
    except Exception as error:  # the check capture says what is wrong
        raise NotCapturedError from error
    example, second = ctx.example(), ctx.second_example()
    if second is not None and _small_sizes(contract, example) > _small_sizes(contract, second):
        example = second  # a size of 0 or 1 is a constant for torch whatever is asked
    return ctx.export(_auto(contract, example), example), example


def _small_sizes(contract: Contract, example: Inputs) -> int:
    flat = pytree.tree_leaves(example)
    return sum(flat[leaf.index].shape[d] < 2 for leaf in contract.leaves for d in leaf.asked)


def _auto(contract: Contract, example: Inputs) -> Any:
    """``dynamic_shapes`` in which each asked dimension is `Dim.AUTO`."""
    from torch.export import Dim, ShapesCollection

    flat = pytree.tree_leaves(example)
    shapes: Any = ShapesCollection()  # type: ignore[no-untyped-call]
    for leaf in contract.leaves:
        if leaf.asked:
            shapes[flat[leaf.index]] = dict.fromkeys(leaf.asked, Dim.AUTO)
    return shapes


def _refused(ctx: Context, error: Exception, guards: list[Guard], *, inferred: bool) -> CheckResult:
    """The result for a case whose export with these dynamic shapes fails."""
    if not inferred:
        return _not_checked("the model is not captured")
    findings = narrowing.of_refusal(guards, error, "specialises") or (
        blame.of_failure(error, ctx.head(), "specialises"),
    )
    reason = f"with the sizes that differ between inputs and inputs2 dynamic, the export fails: {blame.words(error)}"
    return CheckResult(name=NAME, outcome="failed", reason=reason, findings=findings)


def _pinned(subject: Subject) -> list[Finding]:
    """Dimensions that were asked to be dynamic and are constants in the program."""
    findings: dict[tuple[str | None, int | None, str], Finding] = {}
    for leaf in subject.contract.leaves:
        sizes = subject.granted.sizes.get(leaf.index, leaf.shape)
        for d in leaf.asked:
            if d < len(sizes) and not getattr(sizes[d], "free_symbols", None):
                found = _pin(subject, f"{leaf.words}.shape[{d}]", f"{leaf.source}.size()[{d}]", int(sizes[d]))
                findings.setdefault((found.file, found.line, found.message), found)
    return list(findings.values())


def _pin(subject: Subject, words: str, source: str, size: int) -> Finding:
    kinds = {id(g): narrowing.kind_of(g) for g in subject.guards}
    about = [g for g in subject.guards if source in g.sources.values() and g.place is not None]
    pins = [g for g in about if kinds[id(g)] == "pinned"] or [g for g in about if kinds[id(g)] in ("bound", "equal")]
    place = pins[0].place if pins else subject.ctx.head()
    message = f"{words} should be dynamic and became the constant {size}"
    if not pins and size < 2:
        message += ", since torch takes a size of 0 or 1 in the example for a constant"
    return blame.finding(
        blame.size_rule(place), message, place, outcome="specialises", evidence=pins[0].text if pins else None
    )


def _drawn(subject: Subject) -> list[Finding]:
    """Try the second example, then what hypothesis draws; each fault once, with its smallest call."""
    ctx = subject.ctx
    ctx.stage("second example")
    second = ctx.second_example()
    if second is not None and not _same_kind(second, subject.example):
        subject.other_structure = True
    elif second is not None:
        with contextlib.suppress(FaultError, RefusedError):
            subject.attempt(second, _words(subject.contract, second), _sizes(subject.contract, second))
    ctx.stage("drawn examples")
    if ctx.settings.examples and not _all_pinned(subject):
        search(subject)
    return [fault.finding() for fault in subject.faults.values()]


def _same_kind(second: Inputs, example: Inputs) -> bool:
    return bool(pytree.tree_structure(second) == pytree.tree_structure(example))


def _words(contract: Contract, inputs: Inputs) -> tuple[str, ...]:
    flat = pytree.tree_leaves(inputs)
    return tuple(f"{leaf.words} of shape {list(flat[leaf.index].shape)} (inputs2)" for leaf in contract.leaves)


def _sizes(contract: Contract, inputs: Inputs) -> dict[str, int]:
    flat = pytree.tree_leaves(inputs)
    return {
        f"{leaf.source}.size()[{d}]": int(size)
        for leaf in contract.leaves
        for d, size in enumerate(flat[leaf.index].shape)
    }


def _all_pinned(subject: Subject) -> bool:
    """Whether every asked dimension is a constant, so that there is nothing to draw."""
    asked = [(leaf, d) for leaf in subject.contract.leaves for d in leaf.asked]
    free = [
        d for leaf, d in asked if getattr(subject.granted.sizes.get(leaf.index, leaf.shape)[d], "free_symbols", None)
    ]
    return bool(asked) and not free


def search(subject: Subject) -> None:
    """Go through the sizes, then draw; after each fault found and shrunk, look for others, up to `MAX_FAULTS`."""
    ctx = subject.ctx
    examples = tuple(e for e in (subject.example, ctx.second_example()) if e is not None)
    examples = tuple(e for e in examples if _same_kind(e, subject.example))
    domains = strategies.domains(ctx.build(), subject.contract, fresh(examples), ctx.case.value_ranges)
    space = strategies.Space(subject.example, subject.contract, subject.granted, domains)
    deadline = time.monotonic() + SECONDS
    swept = 0
    for drawn in space.sweep(ctx.settings.examples // 2):
        swept += 1
        with contextlib.suppress(FaultError, RefusedError):
            subject.attempt(drawn.inputs, drawn.words, drawn.sizes)
    test = _drawing(subject, space.drawn(), ctx.settings.examples - swept, deadline)
    for _ in range(MAX_FAULTS):  # the first round finds again, and shrinks, what the sweep found
        with contextlib.suppress(FaultError, Unsatisfiable):
            test()
        if subject.known == subject.faults.keys():
            return  # nothing new
        subject.known = frozenset(subject.faults)


def _drawing(subject: Subject, strategy: SearchStrategy[Drawn], examples: int, deadline: float) -> Callable[[], None]:
    """A test by hypothesis; it raises the first fault that is not a known one, with its smallest call."""
    from hypothesis import HealthCheck, Phase, given, settings

    @settings(
        max_examples=max(1, examples),
        deadline=None,
        database=None,
        derandomize=True,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(drawn=strategy)
    def test(drawn: Drawn) -> None:
        if time.monotonic() > deadline:
            return
        try:
            subject.attempt(drawn.inputs, drawn.words, drawn.sizes)
        except RefusedError:
            reject()

    return test


def _result(subject: Subject, findings: list[Finding]) -> CheckResult:
    unique = {(f.rule, f.file, f.line): f for f in reversed(findings)}
    kept = tuple(reversed(unique.values()))
    notes = []
    if subject.refused and subject.refused >= subject.ran:
        notes.append(f"the eager model refused {subject.refused} of {subject.refused + subject.ran} drawn calls")
    lines = guard_hooks.why_not()
    if lines:
        notes.append(f"the lines of guards are not known: {lines}")
    if kept:
        return CheckResult(name=NAME, outcome="failed", reason=kept[0].message, findings=kept, notes=tuple(notes))
    if subject.other_structure:
        reason = "inputs2 has another structure than inputs, and a program holds for one"
        return CheckResult(name=NAME, outcome="not_checked", reason=reason, notes=tuple(notes))
    if not subject.ran:
        untried = "no call was tried: there is no inputs2, and no example was to be drawn"
        reason = "the eager model refused every call" if subject.refused else untried
        return CheckResult(name=NAME, outcome="not_checked", reason=reason, notes=tuple(notes))
    reason = f"{subject.ran} calls"
    return CheckResult(name=NAME, outcome="passed", reason=reason, notes=tuple(notes))
