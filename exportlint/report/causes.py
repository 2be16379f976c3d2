"""Root causes: the lines of source that several cases break at, those that block most cases first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exportlint.report.overview import Entry

FEWEST = 2  # cases; what breaks one case alone is told with it


@dataclass(frozen=True, slots=True)
class Cause:
    """A line with what was found there in all cases.

    Attributes:
        place: ``file:line``.
        source: The text of the line; may be empty.
        titles: Codes and names of the rules.
        cases: Names of the cases.
    """

    place: str
    source: str
    titles: tuple[str, ...]
    cases: tuple[str, ...]


def causes(entries: Iterable[Entry]) -> tuple[Cause, ...]:
    """The causes among findings that count; those that were expected are none."""
    by_line: dict[tuple[str, int], list[Entry]] = {}
    for entry in entries:
        finding = entry.finding
        if finding.file is not None and finding.line is not None and entry.expected is None:
            by_line.setdefault((finding.file, finding.line), []).append(entry)
    found = (_cause(group) for group in by_line.values())
    return tuple(sorted((c for c in found if len(c.cases) >= FEWEST), key=lambda c: (-len(c.cases), c.place)))


def _cause(entries: list[Entry]) -> Cause:
    first = entries[0].finding
    return Cause(
        place=first.place,
        source=first.source or "",
        titles=tuple(dict.fromkeys(entry.title for entry in entries)),
        cases=tuple(dict.fromkeys(case for entry in entries for case in entry.seen_by)),
    )
