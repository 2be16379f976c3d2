"""Findings with the lines that they are in, and marks under what is meant."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from exportlint.formats.wording import closing, coloured, place, plain, rule_of, shown_path
from exportlint.text import counted, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.formats import Results
    from exportlint.source.engine import Prediction

_BEFORE = 1  # lines shown above the first of a finding
_MOST = 6  # lines shown of one finding
_CALLS = 6  # calls shown that lead to a finding
_WIDEST = 160  # columns shown of a line


def render(results: Results) -> str:
    """A paragraph a finding, then how much was found."""
    return "\n".join([*(_paragraph(p, results) for p in results.shown), closing(results)]) + "\n"


def _paragraph(p: Prediction, results: Results) -> str:
    kind = coloured(p.severity, p.severity, results)
    head = f"{kind}: {rule_of(p, results, 'bold')}: {plain(p.message)}"
    numbers = len(str(min(p.range.end_line, p.range.line + _MOST - 1)))
    lines = [head, f"{' ' * numbers}{coloured('-->', 'place', results)} {place(p)}"]
    lines += _excerpt(p, results, numbers)
    lines += _origins(p, results)
    lines += _calls(p, results)
    lines += [f"{coloured('help', 'help', results)}: {plain(p.rewrite)}", ""]
    return "\n".join(lines)


def _origins(p: Prediction, results: Results) -> Iterator[str]:
    """Where what decides came from."""
    if p.origins:
        yield coloured("because", "help", results)
    for file, line, text in p.origins:
        yield f"  {coloured(f'{shown_path(file)}:{line}', 'place', results)}: {_shown(text)}"


def _calls(p: Prediction, results: Results) -> Iterator[str]:
    """The calls that lead to a finding, those in the middle left out where they are many."""
    if not p.calls:
        return
    yield f"{coloured('reached', 'help', results)} by"
    calls = list(p.calls)
    for file, line in calls[:_CALLS]:
        text = _shown(results.excerpts.line(file, line).strip())
        yield f"  {coloured(f'{shown_path(file)}:{line}', 'place', results)}: {text}".rstrip(": ")
    if len(calls) > _CALLS:
        yield f"  ... and {counted(len(calls) - _CALLS, 'more call')}"


def _excerpt(p: Prediction, results: Results, width: int) -> Iterator[str]:
    """The lines of a finding, and the one above, with a gutter; nothing where the file cannot be read any more."""
    source = results.excerpts.source(p.path)
    if source is None or not source.line(p.range.line).strip():
        return
    bar = coloured("|", "place", results)
    yield f"{' ' * width} {bar}"
    first, last = max(p.range.line - _BEFORE, 1), min(p.range.end_line, p.range.line + _MOST - 1)
    for number in range(first, last + 1):
        text = source.line(number)
        start = p.range.column - 1 if number == p.range.line else len(text) - len(text.lstrip())
        end = p.range.end_column - 1 if number == p.range.end_line else len(text.rstrip())
        yield f"{coloured(f'{number:>{width}}', 'place', results)} {bar} {_shown(text)}".rstrip()
        if number >= p.range.line:
            marks = " " * _columns(text[:start]) + "^" * max(_columns(text[start:end]), 1)
            yield f"{' ' * width} {bar} {coloured(marks[:_WIDEST], p.severity, results)}"
    if last < p.range.end_line:
        yield f"{' ' * width} {bar} ... up to line {p.range.end_line}"
    yield f"{' ' * width} {bar}"


def _shown(text: str) -> str:
    safe = visible(text.replace("\t", "    "))
    return safe if len(safe) <= _WIDEST else f"{safe[:_WIDEST]} ..."


def _columns(text: str) -> int:
    """How many columns a terminal needs for the text."""
    safe = visible(text.replace("\t", "    "))
    if safe.isascii():
        return len(safe)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in safe)
