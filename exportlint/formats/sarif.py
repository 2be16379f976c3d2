"""SARIF 2.1.0, for code scanning: rules with their pages, ranges, and marks that survive shifted lines."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from exportlint._version import __version__
from exportlint.findings import severity
from exportlint.formats.wording import as_line, path_of, words
from exportlint.linting.fingerprints import fingerprints
from exportlint.places import display_path
from exportlint.rules import catalogue

if TYPE_CHECKING:
    from pathlib import Path

    from exportlint.formats import Results
    from exportlint.rules.base import Rule
    from exportlint.source.engine import Prediction

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "info": "note", None: "note"}


def render(results: Results) -> str:
    """One run; paths are relative to the working directory, which should be the repository."""
    rules = list(catalogue().values())
    numbers = {rule.code: i for i, rule in enumerate(rules)}
    marks = fingerprints(results.shown, results.excerpts)
    notes = [
        {"level": "error" if left_out.is_unread else "warning", "message": {"text": as_line(left_out)}}
        for left_out in results.unanalysed
    ]
    successful = not any(left_out.is_unread for left_out in results.unanalysed)
    run = {
        "tool": {
            "driver": {
                "name": "exportlint",
                "version": __version__,
                "rules": [_rule(rule) for rule in rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": successful, "toolExecutionNotifications": notes}],
        "results": [
            _result(p, numbers[p.rule.code], mark, results) for p, mark in zip(results.shown, marks, strict=True)
        ],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": f"{rule.summary}."},
        "fullDescription": {"text": f"{rule.summary}. {rule.rewrite}"},
        "help": {"text": rule.page.strip(), "markdown": rule.page.strip()},
        "defaultConfiguration": {"level": _LEVELS[severity(rule.outcomes, ["export"])]},
    }


def _result(p: Prediction, number: int, mark: str, results: Results) -> dict[str, Any]:
    place = p.range
    region: dict[str, Any] = {
        "startLine": place.line,
        "startColumn": place.column,
        "endLine": place.end_line,
        "endColumn": place.end_column,
    }
    where: dict[str, Any] = {"artifactLocation": {"uri": _uri(path_of(p))}, "region": region}
    line = results.excerpts.line(p.path, place.line)
    if line:
        text = line.encode("utf-8", "backslashreplace").decode()
        where["contextRegion"] = {"startLine": place.line, "endLine": place.line, "snippet": {"text": text}}
    found: dict[str, Any] = {
        "ruleId": p.rule.code,
        "ruleIndex": number,
        "level": _LEVELS[p.severity],
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
    place = {"artifactLocation": {"uri": _uri(display_path(str(file)))}, "region": {"startLine": line}}
    return {"location": {"physicalLocation": place, "message": {"text": text or "a call"}}}


def _uri(path: str) -> str:
    """The path as a reference: relative inside of the working directory, else with its scheme."""
    return f"{'file://' if path.startswith('/') else ''}{quote(os.fsencode(path))}"
