"""SARIF 2.1.0, for code scanning: rules with their pages, ranges, and marks that survive shifted lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exportlint.formats.wording import as_line, path_of, words
from exportlint.linting.fingerprints import fingerprints
from exportlint.places import display_path
from exportlint.rules.sarif import LEVELS, log, of_rule, uri

if TYPE_CHECKING:
    from pathlib import Path

    from exportlint.formats import Results
    from exportlint.source.engine import Prediction


def render(results: Results) -> str:
    """One run; paths are relative to the working directory, which should be the repository."""
    marks = fingerprints(results.shown, results.excerpts)
    notes = [
        {"level": "error" if left_out.is_unread else "warning", "message": {"text": as_line(left_out)}}
        for left_out in results.unanalysed
    ]
    found = [_result(p, mark, results) for p, mark in zip(results.shown, marks, strict=True)]
    return log(found, notes, successful=not any(left_out.is_unread for left_out in results.unanalysed))


def _result(p: Prediction, mark: str, results: Results) -> dict[str, Any]:
    place = p.range
    region: dict[str, Any] = {
        "startLine": place.line,
        "startColumn": place.column,
        "endLine": place.end_line,
        "endColumn": place.end_column,
    }
    where: dict[str, Any] = {"artifactLocation": {"uri": uri(path_of(p))}, "region": region}
    line = results.excerpts.line(p.path, place.line)
    if line:
        text = line.encode("utf-8", "backslashreplace").decode()
        where["contextRegion"] = {"startLine": place.line, "endLine": place.line, "snippet": {"text": text}}
    found: dict[str, Any] = {
        **of_rule(p.rule.code),
        "level": LEVELS[p.severity],
        "message": {"text": words(p)},
        "locations": [{"physicalLocation": where}],
        "partialFingerprints": {"primaryLocationLineHash": mark},
        "properties": {"outcomes": dict(p.outcomes), "variant": p.variant},
    }
    flows = [
        [_call(file, line, results) for file, line in p.calls],
        [_step(file, line, text) for file, line, text in p.origins],
    ]
    here = {"location": {"physicalLocation": where}}
    if any(flows):
        found["codeFlows"] = [{"threadFlows": [{"locations": [*steps, here]}]} for steps in flows if steps]
    return found


def _call(file: Path, line: int, results: Results) -> dict[str, Any]:
    return _step(file, line, results.excerpts.line(file, line).strip())


def _step(file: Path, line: int, words: str) -> dict[str, Any]:
    text = words.encode("utf-8", "backslashreplace").decode()
    place = {"artifactLocation": {"uri": uri(display_path(str(file)))}, "region": {"startLine": line}}
    return {"location": {"physicalLocation": place, "message": {"text": text or "a call"}}}
