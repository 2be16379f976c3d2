"""Workflow commands of GitHub Actions, shown beside the lines of a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.formats.wording import as_line, file_of, words

if TYPE_CHECKING:
    from exportlint.formats import Results
    from exportlint.source.engine import Prediction

_KINDS = {"error": "error", "warning": "warning", "info": "notice"}


def render(results: Results) -> str:
    """``::error title=...,file=...,line=...::message`` for each finding, and what was not analysed."""
    lines = [_command(p) for p in results.shown]
    for left_out in results.unanalysed:
        kind = "error" if left_out.is_unread else "notice"
        lines.append(f"::{kind} title=exportlint::{_data(as_line(left_out))}")
    return "".join(f"{line}\n" for line in lines)


def _command(p: Prediction) -> str:
    given: dict[str, object] = {
        "title": f"exportlint ({p.rule.code} {p.rule.name})",
        "file": file_of(p),
        "line": p.range.line,
        "endLine": p.range.end_line,
    }
    if p.range.line == p.range.end_line:  # GitHub takes columns of one line only
        given |= {"col": p.range.column, "endColumn": p.range.end_column}
    properties = ",".join(f"{key}={_property(str(value))}" for key, value in given.items())
    return f"::{_KINDS[p.severity]} {properties}::{_data(f'{file_of(p)}:{p.range.line}: {p.rule.code} {words(p)}')}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
