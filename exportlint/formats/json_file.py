"""Findings as JSON, with the field names of Ruff."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from exportlint.formats import Results
    from exportlint.source.engine import Prediction


def render(results: Results) -> str:
    """A list of findings."""
    return json.dumps([as_json(p) for p in results.shown], indent=2) + "\n"


def as_json(prediction: Prediction) -> dict[str, Any]:
    """The finding with the field names of Ruff's JSON, and `severity`, `rule`, `rewrite` and `outcomes` besides."""
    place = prediction.range
    return {
        "code": prediction.rule.code,
        "rule": prediction.rule.name,
        "message": prediction.message,
        "rewrite": prediction.rewrite,
        "severity": prediction.severity,
        "outcomes": dict(prediction.outcomes),
        "filename": str(prediction.path.absolute()),
        "location": {"row": place.line, "column": place.column},
        "end_location": {"row": place.end_line, "column": place.end_column},
        "fix": None,
        "url": None,
        "noqa_row": place.line,
    }
