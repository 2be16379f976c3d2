from __future__ import annotations

from dataclasses import replace

from readiness_samples import ENVIRONMENT, LITERAL, shared

from exportlint.findings import CaseResult, CheckResult, Readiness
from exportlint.report.score_card import Score, percent, score_card


def card(*checks):
    return score_card(Readiness(environment=ENVIRONMENT, cases=(CaseResult(name="m", target="m.py", checks=checks),)))


def at(line, verdict, rule="EXP201", severity="warning"):
    return replace(LITERAL, rule=rule, line=line, verdict=verdict, severity=severity)


def test_lines_are_counted_once_by_rule():
    scores = card(
        CheckResult(name="device", outcome="failed", findings=(at(1, "confirmed"), at(2, "missed"), at(2, "missed"))),
        CheckResult(name="shapes", outcome="failed", findings=(at(5, "missed", "EXP301"),)),
        CheckResult(
            name="lint",
            outcome="failed",
            findings=(at(1, "confirmed"), at(3, "refuted"), at(4, "not_exercised"), at(9, "refuted", severity="info")),
        ),
    )
    assert scores == (
        Score("EXP201", confirmed=1, refuted=1, missed=1, not_exercised=1),
        Score("EXP301", missed=1),
        Score("all", confirmed=1, refuted=1, missed=2, not_exercised=1),
    )
    assert [(percent(s.precision), percent(s.recall)) for s in scores] == [
        ("50 %", "50 %"),
        ("-", "0 %"),
        ("50 %", "33 %"),
    ]


def test_a_line_that_one_case_confirms_is_confirmed():
    run = shared()
    refuting = CheckResult(name="lint", outcome="failed", findings=(at(7, "refuted"),))
    other = CaseResult(name="c", target="c.py", checks=(refuting,))
    assert score_card(replace(run, cases=(*run.cases, other)))[-1] == Score("all", confirmed=1)


def test_a_line_that_a_check_saw_in_one_case_is_not_refuted_by_another():
    missing = CheckResult(name="device", outcome="failed", findings=(at(7, "missed"),))
    refuting = CheckResult(name="lint", outcome="failed", findings=(at(7, "refuted"), at(8, "refuted")))
    assert card(missing, refuting)[-1] == Score("all", missed=1, refuted=1)


def test_a_run_without_predictions_has_no_card():
    assert card(CheckResult(name="device", outcome="failed", findings=(LITERAL,))) == ()
