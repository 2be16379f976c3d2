"""Findings as JSON, with the field names of Ruff."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from exportlint.fixes.shown import ShownFixes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from exportlint.fixes.shown import ShownFix
    from exportlint.formats import Results
    from exportlint.source.engine import Prediction


def render(results: Results) -> str:
    """A list of findings."""
    return json.dumps(list(as_json(results)), indent=2) + "\n"


def as_json(results: Results) -> Iterator[dict[str, Any]]:
    """The findings with the names of Ruff's JSON, and `severity`, `rule`, `rewrite`, `outcomes` and `path` besides."""
    fixes = ShownFixes()
    for p in results.shown:
        yield _finding(p, fixes.of(p.path, results.excerpts.source(p.path), p.fix) if p.fix is not None else None)


def _fix(fix: ShownFix) -> dict[str, Any]:
    edits = [
        {
            "content": content,
            "location": {"row": place.line, "column": place.column},
            "end_location": {"row": place.end_line, "column": place.end_column},
        }
        for place, content in fix.edits
    ]
    return {"applicability": fix.applicability, "message": fix.title, "edits": edits}


def _absolute(path: Path) -> str:
    return os.path.abspath(path)  # noqa: PTH100  links stay as they are


def _finding(prediction: Prediction, fix: ShownFix | None) -> dict[str, Any]:
    place = prediction.range
    return {
        "code": prediction.rule.code,
        "rule": prediction.rule.name,
        "message": prediction.message,
        "rewrite": prediction.rewrite,
        "severity": prediction.severity,
        "outcomes": dict(prediction.outcomes),
        "filename": _absolute(prediction.path),
        "location": {"row": place.line, "column": place.column},
        "end_location": {"row": place.end_line, "column": place.end_column},
        "path": [{"filename": _absolute(file), "row": line, "text": text} for file, line, text in prediction.origins],
        "fix": None if fix is None else _fix(fix),
        "url": None,
        "noqa_row": place.line,
    }
