"""The check ``speed``: what each way to run the model takes, beside eager, in its own dtype and in bfloat16.

All ways are made first. Then they are called in turns, so that what else the machine does concerns all alike; each time
is divided by eager's of the same round. Nothing here is a finding: a way that is slower is told.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import math
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from exportlint import blame
from exportlint.checks import aoti, inductor, uncaptured, variants
from exportlint.checks.context import Context, ModelError, call
from exportlint.findings import CheckResult, Measurement
from exportlint.text import counted, size

if TYPE_CHECKING:
    from collections.abc import Callable

    from exportlint.checks.case import ModelCase

    Run = Callable[..., Any]

NAME = "speed"
OTHER_DTYPE = "bfloat16"
EAGER, EXPORTED, COMPILED, PACKAGED = "eager", "exported", "exported and compiled", "AOTInductor"
WARM_CALLS = 3
ROUNDS, FEWEST_ROUNDS = 30, 5
MOST_SECONDS = 20.0  # for the rounds of one dtype
SHORTEST = 1e-3  # seconds of one timing: shorter calls are repeated within it
LEAST_BYTES = 2**20  # the kernel counts memory in no smaller steps than some hundred KiB


def _eager(ctx: Context) -> Run:
    model: Run = ctx.build()
    return model


def _exported(ctx: Context) -> Run:
    return ctx.export(ctx.dynamic_shapes).module()


def _compiled(ctx: Context) -> Run:
    made: Run = torch.compile(ctx.export(ctx.dynamic_shapes).module(), options=inductor.OPTIONS)
    return made


def _packaged(ctx: Context) -> Run:
    path = ctx.path("speed.pt2")
    aoti.package(ctx.export(ctx.dynamic_shapes), path)
    made: Run = torch._inductor.aoti_load_package(str(path))
    return made


WAYS: dict[str, Callable[[Context], Run]] = {
    EAGER: _eager,
    EXPORTED: _exported,
    COMPILED: _compiled,
    PACKAGED: _packaged,
}


class Spread(NamedTuple):
    """The quartiles of several measurements."""

    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> Spread:
        """The quartiles of at least two values."""
        return cls(*statistics.quantiles(values, n=4, method="inclusive"))

    def __str__(self) -> str:
        return f"{self.middle:.2f} ({self.low:.2f} to {self.high:.2f})"


@dataclass
class Way:
    """One way to run the model.

    Attributes:
        name: What it is called.
        run: Runs it, where it could be made.
        ready: Seconds from the eager model to the first result.
        why_not: Why it could not be made.
        peak: Bytes that a warm call takes beyond what the process holds; ``None`` where that cannot be told.
        times: Seconds of one call, one value a round.
    """

    name: str
    run: Run | None = None
    ready: float = 0.0
    why_not: str = ""
    peak: int | None = None
    times: list[float] = field(default_factory=list)

    def beside(self, other: Way) -> Spread:
        """The times, each divided by the other's of the same round."""
        return Spread.of([mine / theirs for mine, theirs in zip(self.times, other.times, strict=True)])


def run(ctx: Context) -> CheckResult:
    """Run the check."""
    try:
        ctx.expected()
        ctx.program()
    except Exception as error:
        return uncaptured.result(NAME, error)
    own = _measured(ctx)
    threads = f"torch computes with {counted(torch.get_num_threads(), 'thread')}"
    notes = [f"{threads}; what the cache of TorchInductor holds from before is not compiled anew", *_told(own, "")]
    other = _in_other_dtype(ctx.case)
    measured = _measurements(own, "")
    if other is not None:
        told, more = _of_other_dtype(Context(other, ctx.settings, ctx.announce), own[EAGER])
        notes, measured = [*notes, *told], [*measured, *more]
    others = [way for way in own.values() if way.times and way.name != EAGER]
    if not others:
        return CheckResult(name=NAME, outcome="not_checked", reason="no other way could be made", notes=tuple(notes))
    ratios = ", ".join(f"{way.name} {way.beside(own[EAGER]).middle:.2f}" for way in others)
    reason = f"of eager's time: {ratios}"
    return CheckResult(name=NAME, outcome="passed", reason=reason, notes=tuple(notes), measured=tuple(measured))


def _measurements(ways: dict[str, Way], prefix: str) -> list[Measurement]:
    """The times of the ways that were measured, beside eager's in the same dtype."""
    spreads = {w.name: w.beside(ways[EAGER]) for w in ways.values() if w.times and w.name != EAGER}
    return [
        Measurement.rounded("time", spread.middle, spread.low, spread.high, label=prefix + name)
        for name, spread in spreads.items()
    ]


def _of_other_dtype(ctx: Context, own: Way) -> tuple[list[str], list[Measurement]]:
    """The notes on the case in a smaller dtype, beside eager in its own, and what was measured."""
    try:
        ctx.expected()
    except ModelError as error:
        return [f"{OTHER_DTYPE}: the model does not run in it: {blame.words(error.__cause__ or error)}"], []
    found = _measured(ctx)
    ratio = statistics.median(found[EAGER].times) / statistics.median(own.times)
    prefix = f"{OTHER_DTYPE}, "
    told = [*_told(found, prefix), f"{prefix}eager: {ratio:.2f} of eager's time in its own dtype"]
    return told, _measurements(found, prefix)


def _in_other_dtype(case: ModelCase) -> ModelCase | None:
    """The case in `OTHER_DTYPE`; ``None`` for one that is a variant already."""
    if case.plain is not None:
        return None
    whole = case.whole or case
    parts = variants.of_case(whole, OTHER_DTYPE).expand()
    return next((p for p in parts if variants.without(p.name, (OTHER_DTYPE,)) == case.name), None)


def _measured(ctx: Context) -> dict[str, Way]:
    """All ways, called in turns."""
    torch.compiler.reset()
    try:
        ways = {name: _made(ctx, name) for name in WAYS}
        ctx.stage("timing")
        running = [way for way in ways.values() if way.run is not None]
        for way in running:
            way.peak = _peak(ctx, way)
        once = {way.name: min(_seconds(ctx, way, 1) for _ in range(WARM_CALLS)) for way in running}
        repeats = {name: max(1, math.ceil(SHORTEST / seconds)) for name, seconds in once.items()}
        spent = sum(once[name] * repeats[name] for name in once)
        for number in range(max(FEWEST_ROUNDS, min(ROUNDS, int(MOST_SECONDS / spent)))):
            for way in running if number % 2 else reversed(running):  # the machine may slow down in a round
                way.times.append(_seconds(ctx, way, repeats[way.name]))
        return ways
    finally:
        torch.compiler.reset()


def _made(ctx: Context, name: str) -> Way:
    """One way, and what it takes until its first result."""
    way, inputs = Way(name), ctx.example()
    ctx.stage(f"{name}: first call")
    began = time.perf_counter()
    try:
        made = WAYS[name](ctx)
        call(made, inputs)
    except Exception as error:
        if name == EAGER or blame.is_out_of_memory(error):
            raise
        way.why_not = inductor.lacks(error) or blame.words(error)
        return way
    way.run, way.ready = made, time.perf_counter() - began
    return way


def _seconds(ctx: Context, way: Way, repeats: int) -> float:
    """Seconds of one call; arguments are copied before the clock starts."""
    assert way.run is not None
    calls = [ctx.example() for _ in range(repeats)]
    with torch.no_grad():
        began = time.perf_counter()
        for args, kwargs in calls:
            way.run(*args, **kwargs)
        return (time.perf_counter() - began) / repeats


def _peak(ctx: Context, way: Way) -> int | None:
    """Bytes that a call takes beyond what the process holds, by the kernel's high-water mark."""
    inputs = ctx.example()
    try:
        _give_back()
        Path("/proc/self/clear_refs").write_text("5")  # the mark starts anew
        before = _status("VmRSS")
        call(way.run, inputs)  # type: ignore[arg-type]
        return _status("VmHWM") - before
    except (OSError, StopIteration):
        return None


def _give_back() -> None:
    """Give freed memory back to the kernel, so that using it again is seen."""
    name = ctypes.util.find_library("c")
    trim = getattr(ctypes.CDLL(name), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:")) * 1024


def _told(ways: dict[str, Way], prefix: str) -> list[str]:
    """What was measured, one line a way."""
    eager = ways[EAGER]
    times = Spread.of([1e3 * seconds for seconds in eager.times])
    notes = [f"{prefix}eager: {times} ms; first result after {eager.ready:.2f} s{_memory(eager, eager)}"]
    for way in ways.values():
        if way.run is None:
            notes.append(f"{prefix}{way.name}: not measured: {way.why_not}")
        elif way is not eager:
            words = f"{way.beside(eager)} of eager's time; first result after {way.ready:.2f} s{_memory(way, eager)}"
            notes.append(f"{prefix}{way.name}: {words}")
    program, compiled = ways[EXPORTED], ways[COMPILED]
    if program.times and compiled.times and compiled.beside(program).low > 1:
        notes.append(f"{prefix}compiling the program made it slower: {compiled.beside(program)} of the program's time")
    return notes


def _memory(way: Way, eager: Way) -> str:
    if way.peak is None:
        return ""
    if way.peak < LEAST_BYTES:
        return f"; a call takes less than {size(LEAST_BYTES)} of memory"
    beside = eager.peak if way is not eager and eager.peak is not None and eager.peak >= LEAST_BYTES else None
    ratio = f", {way.peak / beside:.2f} of eager's" if beside else ""
    return f"; a call takes {size(way.peak)} of memory{ratio}"
