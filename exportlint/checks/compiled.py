"""The check ``compile``: does ``torch.compile`` capture the model as one graph, and is what it compiles right?

1. With a backend that runs the graph as it is: where the graph breaks, each break is a finding at its line, with
   PyTorch's number of it.
2. The same call again, and the second call: what is compiled anew each time is a finding, what is compiled once more is
   told. Results, arguments and buffers are those of an eager model that is called alike.
3. The same with the default backend, TorchInductor.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch

from exportlint import blame, places
from exportlint.checks import compiled_breaks, inductor, uncaptured
from exportlint.checks.compiled_breaks import HERE
from exportlint.checks.context import call, fresh
from exportlint.findings import CheckResult
from exportlint.parity.compare import compare
from exportlint.parity.observed import inputs_differ, observe, written_differ
from exportlint.text import said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.checks.case import Inputs
    from exportlint.checks.context import Context
    from exportlint.findings import Finding
    from exportlint.parity.compare import Difference
    from exportlint.parity.observed import Observed
    from exportlint.places import Place

NAME: Literal["compile"] = "compile"
CAPTURED, DEFAULT = "eager", "inductor"  # backends
SAME_CALLS = 3
MOST_CALLS = 12  # torch gives up after eight times by default
RECOMPILED = "Detected recompile"
REASON = re.compile(r"^\s*- (?:\d+/\d+: )?(.+)$", re.MULTILINE)


class Step(NamedTuple):
    """A call in the sequence that both models get: what it is, and its arguments."""

    what: str
    inputs: Inputs


def run(ctx: Context) -> CheckResult:
    """Run the check."""
    try:
        ctx.expected()
        second = ctx.second_example()
        if second is not None:
            ctx.call_second(second)
    except Exception as error:
        return uncaptured.result(NAME, error)
    steps = [Step("the example", ctx.example())]
    steps += [Step("the same call again", ctx.example()) for _ in range(SAME_CALLS - 1)]
    if second is not None:
        steps += [Step("the second call", second), Step("the example after the second call", ctx.example())]
    with _clean():
        captured = _Compiled(ctx, CAPTURED)
        try:
            found = captured.compare(steps)
        except Exception as error:
            blame.pass_on_memory_error(error)
            return _broken(ctx, error)
    if found:
        return _failed(found, captured.notes)
    return _by_default(ctx, [steps[0], *steps[SAME_CALLS:]], captured.notes)


@contextmanager
def _clean() -> Iterator[None]:
    """Nothing that was compiled before, and nothing left behind."""
    torch.compiler.reset()
    try:
        yield
    finally:
        torch.compiler.reset()


def _failed(found: list[Finding], notes: list[str]) -> CheckResult:
    return CheckResult(name=NAME, outcome="failed", reason=found[0].message, findings=tuple(found), notes=tuple(notes))


def _broken(ctx: Context, error: Exception) -> CheckResult:
    """All places where the graph breaks, the one that ended the capture first."""
    ctx.last_error = error
    first = compiled_breaks.of_error(error)
    ctx.provisional(_failed([first.finding(ctx)], []))
    torch.compiler.reset()
    graphs, others, unknown = compiled_breaks.further(ctx)
    found = [one.finding(ctx) for one in compiled_breaks.distinct([first, *others])]
    notes = [f"with graph breaks allowed there are {graphs} graphs"] if graphs > 1 else []
    return _failed(found, [*notes, unknown] if unknown else notes)


class _Compiled:
    """A model compiled as one graph, beside an eager one that gets the same calls."""

    def __init__(self, ctx: Context, backend: str) -> None:
        self.ctx, self.backend = ctx, backend
        self.notes: list[str] = []
        self.model, self.eager = ctx.build(), ctx.build()
        options = inductor.OPTIONS if backend == DEFAULT else None
        self.model.compile(fullgraph=True, backend=backend, options=options)
        self._why: list[BaseException] = []  # for each call that was compiled anew

    def _call(self, inputs: Inputs) -> Observed:
        self.ctx.stage(f"torch.compile with the backend {self.backend}")
        return observe(self.model, fresh(inputs), call)

    def compare(self, steps: list[Step]) -> list[Finding]:
        """What is wrong with the calls of this sequence.

        Raises:
            Exception: What the first call raises, in which the model is compiled, or any for want of a compiler.
        """
        for place, step in enumerate(steps):
            expected = observe(self.eager, fresh(step.inputs), call)
            try:
                actual = self._called(step, place)
            except Exception as error:
                if place == 0 or blame.is_out_of_memory(error) or inductor.lacks(error) is not None:
                    raise
                return [self.raised(step, error)]
            words = self._differs(expected, actual, [s.inputs for s in steps[: place + 1]])
            if words is not None:
                return [self._wrong(step, words)]
            if len(self._why) == place == SAME_CALLS - 1:
                return [self._every_call(step)]
        return []

    def _called(self, step: Step, place: int) -> Observed:
        """Call the compiled model, and note where it is compiled anew."""
        if place == 0 or self.backend == DEFAULT:
            return self._call(step.inputs)
        try:
            with torch.compiler.set_stance("fail_on_recompile"):
                return self._call(step.inputs)
        except RuntimeError as error:
            if RECOMPILED not in said(error):
                raise
            self._why.append(error)
            self.notes.append(f"compiled anew for {step.what}: {_reason(error)}")
        return self._call(step.inputs)

    def _every_call(self, step: Step) -> Finding:
        """The model is compiled anew each time that it is called; whether torch gives up is tried out."""
        why, gave_up, calls = self._why[-1], None, SAME_CALLS
        while gave_up is None and calls < MOST_CALLS:
            try:
                self._call(step.inputs)
            except Exception as error:
                gave_up = error
            calls += 1
        words = f"{_reason(why)}; in {calls} calls torch did not give up"
        if gave_up is not None:
            words = f"{_reason(why)}; torch gives up in call {calls}: {blame.words(gave_up)}"
        return blame.finding(
            "EXP501",
            "each call compiles the model anew, since it remembers what decides what is compiled",
            _place(why) or self.ctx.head(),
            outcome="specialises" if gave_up is None else "breaks",
            evidence=words,
            mode=NAME,
        )

    def _differs(self, expected: Observed, actual: Observed, calls: list[Inputs]) -> str | None:
        """How a call differs from eager's, in words: in the result, in arguments or in buffers."""
        ctx = self.ctx
        reference = ctx.reference(*calls)
        difference = ctx.compare(expected.result, actual.result, reference=reference)
        if difference is not None:
            return str(difference).replace("in the program", "compiled")

        def close(a: Any, b: Any, name: str) -> Difference | None:
            return compare(a, b, reference=reference.of_left(name), **ctx.tolerance)

        return inputs_differ(expected, actual, close) or written_differ(expected, actual, close)

    def _wrong(self, step: Step, words: str) -> Finding:
        message = f"torch.compile with the backend {self.backend} computes something else than eager in {step.what}"
        return blame.finding("EXP004", message, self.ctx.head(), outcome="silent", evidence=words, mode=NAME)

    def raised(self, step: Step, error: Exception) -> Finding:
        """The finding for a call that eager takes."""
        self.ctx.last_error = error
        found = compiled_breaks.of_error(error)
        message = f"torch.compile with the backend {self.backend} cannot run {step.what}"
        place = found.place or self.ctx.head()
        words = blame.words(error)
        return blame.finding(found.rule, message, place, outcome="breaks", evidence=words, mode=NAME)


def _reason(error: BaseException) -> str:
    """The guard that failed, in one line."""
    found = REASON.search(said(error))
    return " ".join(found[1].split("#")[0].split()) if found else blame.words(error)


def _place(error: BaseException) -> Place | None:
    """The line that a failed guard is about."""
    return places.of_frames((file, int(line)) for file, line in reversed(HERE.findall(said(error))))


def _by_default(ctx: Context, steps: list[Step], notes: list[str]) -> CheckResult:
    """The rest of the check, with TorchInductor."""
    with _clean():
        compiled = _Compiled(ctx, DEFAULT)
        try:
            found = compiled.compare(steps)
        except Exception as error:
            blame.pass_on_memory_error(error)
            missing = inductor.lacks(error)
            if missing is not None:
                reason = f"it is one graph, and right as it is; with the default backend: {missing}"
                return CheckResult(name=NAME, outcome="not_checked", reason=reason, notes=(*notes, *ctx.judged))
            found = [compiled.raised(steps[0], error)]
    if found:
        return _failed(found, [*notes, *ctx.judged])
    return CheckResult(name=NAME, outcome="passed", reason="one graph", notes=(*notes, *ctx.judged))
