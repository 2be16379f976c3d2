"""GitLab's code quality report."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from exportlint.formats.wording import path_of, words
from exportlint.linting.fingerprints import fingerprints

if TYPE_CHECKING:
    from exportlint.formats import Results

_SEVERITIES = {"error": "major", "warning": "minor", "info": "info"}


def render(results: Results) -> str:
    """A list of findings; paths are relative to the working directory, which should be the repository."""
    marks = fingerprints(results.shown, results.excerpts)
    found = [
        {
            "description": f"{p.rule.code} {p.rule.name}: {words(p)}",
            "check_name": p.rule.code,
            "fingerprint": mark,
            "severity": _SEVERITIES[p.severity],
            "location": {"path": path_of(p), "lines": {"begin": p.range.line, "end": p.range.end_line}},
        }
        for p, mark in zip(results.shown, marks, strict=True)
    ]
    return json.dumps(found, indent=2) + "\n"
