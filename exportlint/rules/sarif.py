"""What the SARIF of the linter and that of reports have in common: catalogue, levels, and the log around results."""

from __future__ import annotations

import json
import os
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from exportlint._version import __version__
from exportlint.findings import severity
from exportlint.rules import catalogue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from exportlint.findings import Severity
    from exportlint.rules.base import Rule

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS: Mapping[Severity | None, str] = MappingProxyType(
    {"error": "error", "warning": "warning", "info": "note", None: "note"}
)


def log(results: Sequence[Mapping[str, Any]], notes: Sequence[Mapping[str, Any]], *, successful: bool) -> str:
    """A log of one run.

    Args:
        results: Its results.
        notes: What could not be looked at.
        successful: Whether everything could be read.
    """
    run = {
        "tool": {
            "driver": {
                "name": "exportlint",
                "version": __version__,
                "rules": [_rule(rule) for rule in catalogue().values()],
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": successful, "toolExecutionNotifications": notes}],
        "results": results,
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def of_rule(code: str) -> dict[str, Any]:
    """Which rule a result is of; by its place in the log too, where the catalogue has it."""
    codes = list(catalogue())
    return {"ruleId": code, **({"ruleIndex": codes.index(code)} if code in codes else {})}


def uri(path: str) -> str:
    """The path as a reference: relative inside of the working directory, else with its scheme."""
    return f"{'file://' if path.startswith('/') else ''}{quote(os.fsencode(path))}"


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": f"{rule.summary}."},
        "fullDescription": {"text": f"{rule.summary}. {rule.rewrite}"},
        "help": {"text": rule.page.strip(), "markdown": rule.page.strip()},
        "defaultConfiguration": {"level": LEVELS[severity(rule.outcomes, ["export"])]},
    }
