"""Runs the checks that prove rules which nothing but a run observes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from commands import exportlint

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cases import Case


def check(cases: Iterable[Case], folder: Path) -> dict[str, dict[str, list[str]]]:
    """What the check of each case's rule observed of the rule, by the case's id: the outcome, and the message.

    Each check is one report on a folder of its own, so that it meets all of its examples in one run.
    """
    found: dict[str, dict[str, list[str]]] = {}
    by_check: dict[str, list[Case]] = {}
    for case in cases:
        by_check.setdefault(case.check, []).append(case)
    for name, wanted in by_check.items():
        models = folder / name
        models.mkdir()
        files = {case.id: f"{re.sub('[^a-z0-9]', '_', case.id.lower())}.py" for case in wanted}
        for case in wanted:
            (models / files[case.id]).write_text(case.source, encoding="utf-8")
        output = folder / f"{name}.json"
        ran = exportlint("report", models, "--checks", name, "--output", output, cwd=folder, timeout=300)
        assert ran.status in (0, 1), ran.err
        data = json.loads(output.read_text(encoding="utf-8"))
        results = {entry["name"]: entry["checks"][0] for entry in data["cases"]}
        found |= {case.id: _seen(case, results[files[case.id].removesuffix(".py")]) for case in wanted}
    return found


def _seen(case: Case, result: dict[str, Any]) -> dict[str, list[str]]:
    """What the check says of the rule; how it ended where it says nothing and did not pass either."""
    findings = [finding for finding in result["findings"] if finding["rule"] == case.rule.code]
    if not findings and result["outcome"] != "passed":
        return {"check": [result["outcome"], result["reason"]]}
    return {mode: [word, f["message"]] for f in findings for mode, word in f["outcomes"].items()}
