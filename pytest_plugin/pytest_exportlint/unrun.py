"""Predictions about lines that the checked model did not run: they are shown, and make no test fail.

A test checks a model in one configuration; another branch of its code is for the linter.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from exportlint.joining import DID_NOT_RUN
from exportlint.joining import NAME as LINT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from exportlint.findings import CaseResult, CheckResult, Finding

ONLY_SHOWN = f"{DID_NOT_RUN} here, so that it makes no test fail"
MOST_PLACES = 20


def only_shown(checks: Iterable[CheckResult]) -> tuple[CheckResult, ...]:
    """The checks; in ``lint``, what is predicted about lines that did not run is information."""
    return tuple(_only_shown(check) if check.name == LINT else check for check in checks)


def _only_shown(check: CheckResult) -> CheckResult:
    findings = tuple(map(_as_information, check.findings))
    outcome = "passed" if check.outcome == "failed" and not any(f.counts for f in findings) else check.outcome
    return dataclasses.replace(check, findings=findings, outcome=outcome)


def _as_information(finding: Finding) -> Finding:
    if finding.counts and finding.verdict == "not_exercised" and finding.evidence == DID_NOT_RUN:
        return dataclasses.replace(finding, severity="info", evidence=ONLY_SHOWN)
    return finding


def is_only_shown(finding: Finding) -> bool:
    """Whether a finding would count if its line had run."""
    return finding.evidence == ONLY_SHOWN


def lines(cases: Iterable[CaseResult]) -> Iterator[str]:
    """A line for each rule and place of what is only shown, with its cases."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    ran = set[tuple[str, str]]()
    for case in cases:
        for finding in (f for check in case.checks for f in check.findings):
            where = finding.rule, finding.place
            if is_only_shown(finding):
                found.setdefault(where, {})[case.name] = None
            elif finding.counts:
                ran.add(where)
    told = [(where, names) for where, names in found.items() if where not in ran]
    for (rule, place), names in told[:MOST_PLACES]:
        yield f"predicted on a line that did not run: {rule} at {place} ({', '.join(list(names)[:3])})"
    if len(told) > MOST_PLACES:
        yield f"predicted on lines that did not run: {len(told) - MOST_PLACES} more"
