"""What a rule is: one kind of portability hazard, with the words that explain it."""

from __future__ import annotations

from dataclasses import dataclass

from exportlint.findings import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One kind of portability hazard.

    Attributes:
        code: ``EXP`` and three digits; the first digit is the family.
        name: Kebab-case name, as stable as the code.
        summary: What the hazard is, in one sentence without a final full stop.
        rewrite: The rewrite to show where a finding has no better one of its own.
        severity: Severity of a finding that a check observed, where the check does not say otherwise.
        page: The explanation, Markdown; the docstring of the rule's file.
    """

    code: str
    name: str
    summary: str
    rewrite: str
    severity: Severity
    page: str
