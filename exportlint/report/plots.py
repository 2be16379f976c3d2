"""Where the marks of a plot lie. The page draws them: a run gives numbers, and text that the page escapes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exportlint.text import counted, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from exportlint.findings import CaseResult, Measurement

WIDTH = 320  # of a drawing, in its own units
LEFT, RIGHT = 44.0, 312.0  # where the axis of errors begins, and where all axes end
TOP, BOTTOM = 10.0, 96.0  # the largest error, and the axis of sizes
EQUAL = 88.0  # where results that are equal stand, below all others
BARS = 166.0  # where the axis of times begins
ROW = 22.0  # height of one way to run the model
MOST_TICKS = 4
MOST_WAYS, MOST_POINTS = 12, 60


@dataclass(frozen=True, slots=True)
class Tick:
    """A place on an axis, and what stands there."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Errors:
    """A plot of errors over sizes, both in powers.

    Attributes:
        path: The points, as the path of a drawing; empty where all results are equal, which words say better.
        sizes: Marks of the axis of sizes.
        errors: Marks of the axis of errors.
        words: The plot in words.
    """

    path: str
    sizes: tuple[Tick, ...]
    errors: tuple[Tick, ...]
    words: str


@dataclass(frozen=True, slots=True)
class Bar:
    """One way to run the model: its name, its time, and where its quartiles and its middle lie."""

    name: str
    time: str
    y: float
    low: float
    middle: float
    high: float


@dataclass(frozen=True, slots=True)
class Times:
    """A plot of times beside eager's; `one` is where eager's lies, and `height` that of the drawing."""

    bars: tuple[Bar, ...]
    one: float
    height: float


@dataclass(frozen=True, slots=True)
class Plots:
    """The plots of a case, as far as there is something to plot."""

    case: str
    errors: Errors | None
    times: Times | None


def plots(cases: Iterable[CaseResult]) -> list[Plots]:
    """The plots of the cases of which something was measured."""
    found = []
    for case in cases:
        measured = [measurement for check in case.checks for measurement in check.measured]
        errors = _errors([m for m in measured if m.of == "error" and m.size > 0])
        times = _times([m for m in measured if m.of == "time"])
        if errors is not None or times is not None:
            found.append(Plots(one_line(case.name, 200), errors, times))
    return found


def _errors(points: Sequence[Measurement]) -> Errors | None:
    if not points:
        return None
    points = sorted(points, key=lambda point: point.size)[:MOST_POINTS]
    powers = [math.log10(point.value) for point in points if point.value > 0]
    if not powers:
        return Errors("", (), (), _errors_in_words(points))
    low_size, high_size = math.log2(points[0].size), math.log2(points[-1].size)
    low = math.floor(min(powers))
    high = max(math.ceil(max(powers)), low + 1)

    def x(size: float) -> float:
        return LEFT + 8 + (RIGHT - LEFT - 16) * _part(math.log2(size), low_size, high_size)

    def y(power: float) -> float:
        return TOP + (EQUAL - 14 - TOP) * (1 - _part(power, low, high))

    heights = [y(math.log10(point.value)) if point.value > 0 else EQUAL for point in points]

    step = math.ceil((high - low) / (MOST_TICKS - 1))
    decades = [Tick(y(n), f"1e{n}") for n in range(low, high + 1, step)]
    ends = dict.fromkeys((points[0].size, points[-1].size))
    return Errors(
        path="".join(f"M{x(p.size):.1f} {height:.1f}h0" for p, height in zip(points, heights, strict=True)),
        sizes=tuple(Tick(x(size), f"{size:,}") for size in ends),
        errors=(Tick(EQUAL, "equal"), *decades),
        words=_errors_in_words(points),
    )


def _errors_in_words(points: Sequence[Measurement]) -> str:
    worst = max(points, key=lambda point: point.value)
    sizes = f"calls of {counted(len(points), 'size')}, with up to {counted(points[-1].size, 'element')}"
    if worst.value <= 0:
        return f"{sizes}: program and eager model are equal in each"
    at = f", for {worst.label}" if worst.label else ""
    return f"{sizes}: the largest error is {worst.value:.2g} of the largest value{at}"


def _times(ways: Sequence[Measurement]) -> Times | None:
    if not ways:
        return None
    ways = ways[:MOST_WAYS]
    most = max(1.0, *(max(way.value, way.high) for way in ways))

    def x(value: float) -> float:
        return BARS + (RIGHT - 8 - BARS) * _part(value, 0.0, most)

    bars = tuple(
        Bar(
            one_line(way.label, 40), f"{way.value:.2f} ({way.low:.2f} to {way.high:.2f})",
            (number + 0.5) * ROW, x(way.low), x(way.value), x(way.high),
        )
        for number, way in enumerate(ways)
    )  # fmt: skip
    return Times(bars, x(1.0), len(ways) * ROW)


def _part(value: float, low: float, high: float) -> float:
    """Where a value lies between two others, from 0 to 1; in the middle where they are equal."""
    return min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 0.5
