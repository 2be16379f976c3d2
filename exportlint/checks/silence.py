"""Findings that a comment in the source silences: the linter does not say them, and the checks do not count them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from exportlint.rules import catalogue
from exportlint.source.suppress import silences, suppressed_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exportlint.findings import CheckResult, Finding


class Silence:
    """Reads the comments of a file once, however many findings lie in it."""

    def __init__(self) -> None:
        self._lines: dict[str, Mapping[int, frozenset[str]]] = {}

    def apply(self, check: CheckResult) -> CheckResult:
        """The check with silenced findings as information; it passes where it failed for nothing else."""
        findings = tuple(
            dataclasses.replace(f, severity="info", evidence="silenced by a comment on the line")
            if f.counts and self._silenced(f)
            else f
            for f in check.findings
        )
        if findings == check.findings:
            return check
        if check.outcome != "failed" or any(f.counts for f in findings):
            return dataclasses.replace(check, findings=findings)
        return dataclasses.replace(check, outcome="passed", reason="but for what is silenced", findings=findings)

    def _silenced(self, finding: Finding) -> bool:
        rule = catalogue().get(finding.rule)
        if finding.file is None or finding.line is None or rule is None:
            return False
        if finding.file not in self._lines:
            self._lines[finding.file] = suppressed_lines(Path(finding.file))
        return silences(self._lines[finding.file], rule.code, rule.name, finding.line, finding.end_line)
