"""Results as they travel with pytest's reports, from a worker of xdist too: plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from exportlint.findings import CaseResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ATTRIBUTE = "exportlint_cases"


def plain(cases: Iterable[CaseResult]) -> list[Any]:
    """The results as plain values."""
    return [msgspec.to_builtins(case) for case in cases]


def attach(report: Any, cases: Iterable[CaseResult]) -> None:
    """Send results with a report."""
    setattr(report, ATTRIBUTE, plain(cases))


def cases_of(report: Any) -> Iterator[CaseResult]:
    """The results that came with a report."""
    yield from parsed(getattr(report, ATTRIBUTE, ()))


def parsed(values: Iterable[Any]) -> Iterator[CaseResult]:
    """Results from plain values."""
    for value in values:
        yield msgspec.convert(value, CaseResult)
