"""The run as SARIF 2.1.0, for code scanning: a result a finding, with the cases and checks that saw it."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Any

from exportlint.report.overview import overview
from exportlint.rules.sarif import LEVELS, log, of_rule, uri
from exportlint.text import clip, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.findings import Finding, Readiness
    from exportlint.report.overview import Entry, Overview

MOST_TEXT = 5000  # characters of one message


def render(readiness: Readiness) -> str:
    """The run as SARIF.

    Findings that were expected are suppressed, and advice is a note. A check that did not run, and one that is red
    without a finding, are notifications, as are TARGETs that could not be loaded.
    """
    view = overview(readiness)
    entries = [*view.problems, *(entry for advice in view.advice for entry in advice.entries)]
    marks: Counter[str] = Counter()
    results = [_result(entry, marks) for entry in entries]
    return log(results, list(_notes(view)), successful=not view.errors)


def _result(entry: Entry, marks: Counter[str]) -> dict[str, Any]:
    finding = entry.finding
    told = [finding.message, entry.rewrite, f"Seen by {entry.seen}."]
    found: dict[str, Any] = {
        **of_rule(finding.rule),
        "level": LEVELS[finding.severity if finding.counts else "info"],
        "message": {"text": clip("\n".join(filter(None, told)), MOST_TEXT)},
        "partialFingerprints": {"primaryLocationLineHash": _mark(finding, marks)},
        "properties": {"seenBy": entry.seen_by, "evidence": [clip(text, MOST_TEXT) for text in entry.evidence]},
    }
    if finding.file is not None:
        where: dict[str, Any] = {"artifactLocation": {"uri": uri(finding.file)}}
        if finding.line is not None:
            region: dict[str, Any] = {"startLine": finding.line}
            if finding.end_line is not None and finding.end_line >= finding.line:
                region["endLine"] = finding.end_line
            where["region"] = region
            if finding.source:
                where["contextRegion"] = {"startLine": finding.line, "snippet": {"text": finding.source}}
        found["locations"] = [{"physicalLocation": where}]
    if entry.expected is not None:
        found["suppressions"] = [{"kind": "external", "justification": entry.expected}]
    return found


def _mark(finding: Finding, marks: Counter[str]) -> str:
    """What the finding is known by in a later run, and which of equal ones it is."""
    data = "\0".join(finding.identity).encode("utf-8", "surrogateescape")
    mark = hashlib.blake2b(data, digest_size=8).hexdigest()
    marks[mark] += 1
    return f"{mark}:{marks[mark]}"


def _notes(view: Overview) -> Iterator[dict[str, Any]]:
    for error in view.errors:
        yield {"level": "error", "message": {"text": one_line(f"{error.target}: {error.message}")}}
    for row in view.rows:
        for cell in row.cells:
            if (cell.red and not cell.problems) or cell.word == "not checked":
                words = f"{row.name}, {cell.check}: {cell.word}" + (f": {cell.reason}" if cell.reason else "")
                yield {"level": "error" if cell.red else "note", "message": {"text": one_line(words)}}
