from __future__ import annotations

from dataclasses import replace

from readiness_samples import BRANCH, ENVIRONMENT, LITERAL

from exportlint.findings import CaseResult, CheckResult, Readiness
from exportlint.report.overview import overview


def causes(*findings_of_cases, expected=None):
    cases = tuple(
        CaseResult(
            name=name,
            target=f"{name}.py",
            checks=(CheckResult(name="device", outcome="failed", findings=found, expected=expected),),
        )
        for name, found in zip("abcdef", findings_of_cases, strict=False)
    )
    return [(c.place, c.titles, c.cases) for c in overview(Readiness(environment=ENVIRONMENT, cases=cases)).causes]


def test_lines_are_ranked_by_the_cases_that_they_block():
    assert causes((LITERAL, BRANCH), (BRANCH,), (BRANCH, LITERAL), (LITERAL,), (LITERAL,)) == [
        ("models/mask.py:7", ("EXP201 device-literal",), ("a", "c", "d", "e")),
        ("models/decoder.py:21", ("EXP101 branch-on-tensor",), ("a", "b", "c")),
    ]


def test_two_rules_at_one_line_are_one_cause():
    other = replace(LITERAL, rule="EXP202")
    assert [(place, cases) for place, _, cases in causes((LITERAL,), (other,))] == [("models/mask.py:7", ("a", "b"))]


def test_one_case_advice_places_without_line_and_expected_failures_are_none():
    assert causes((LITERAL,)) == []
    advice = replace(LITERAL, severity="info")
    assert causes((advice,), (advice,)) == []
    nowhere = replace(LITERAL, line=None)
    assert causes((nowhere,), (nowhere,)) == []
    assert causes((LITERAL,), (LITERAL,), expected="known") == []
