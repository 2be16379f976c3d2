"""Annotations for GitHub Actions: workflow commands that GitHub shows beside the lines of a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.places import display_path
from exportlint.report.overview import overview
from exportlint.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.findings import Readiness

_OF_SEVERITY = {"error": "error", "warning": "warning", "info": "notice"}


def commands(readiness: Readiness) -> Iterator[str]:
    """One line for each finding that counts and is not expected, and for each red check without one."""
    view = overview(readiness)
    explained = set()
    for entry in view.problems:
        explained |= {(case, check) for case, checks in entry.seen_by.items() for check in checks}
        if entry.expected is not None:
            continue
        finding = entry.finding
        place = {"file": finding.file, "line": finding.line, "endLine": finding.end_line}
        words = f"{finding.message}. {entry.rewrite}".strip()
        yield _command(_OF_SEVERITY[finding.severity], {**place, "title": entry.title}, words)
    for row in view.rows:
        file = row.origin if row.origin.endswith(".py") else None
        for cell in row.cells:
            if cell.red and (row.name, cell.check) not in explained:
                title = f"{row.name}: {cell.check} {cell.word}"
                yield _command("error", {"file": file, "title": title}, cell.reason or cell.word)


def complaint(words: str, file: str | None = None) -> str:
    """One line for what is wrong with the run itself, at the file that says so, where there is one."""
    return _command("error", {"file": display_path(file) if file else None, "title": "exportlint"}, words)


def _command(kind: str, properties: dict[str, object], words: str) -> str:
    """``::error file=a.py,line=1,title=EXP101 ...::words``, escaped as GitHub wants it."""
    given = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items() if value is not None)
    return f"::{kind} {given}::{_data(one_line(words, 1000))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
