from __future__ import annotations

from dataclasses import replace

import pytest
from readiness_samples import BRANCH, ENVIRONMENT, LITERAL, passing, sample

from exportlint.findings import IN_TRAINING, CaseResult, CheckResult, Readiness
from exportlint.report.overview import overview


def run(*checks):
    return Readiness(environment=ENVIRONMENT, cases=(CaseResult(name="m", target="m.py", checks=checks),))


def test_worst_case_first_and_columns_in_order_of_the_run():
    view = overview(sample())
    assert [row.name for row in view.rows] == ["unlucky", "decoder", "known", "encoder"]
    assert view.checks == ("capture", "reload", "device", "shapes")
    assert [cell.word for cell in view.rows[3].cells] == ["passed", "", "passed", ""]


def test_what_breaks_comes_before_what_is_only_warned_of_more_often():
    warned = tuple(CheckResult(name=name, outcome="failed", findings=(LITERAL,)) for name in ("device", "shapes"))
    broken = (CheckResult(name="capture", outcome="failed", findings=(BRANCH,)),)
    cases = tuple(CaseResult(name=name, target=name, checks=c) for name, c in (("warned", warned), ("broken", broken)))
    view = overview(Readiness(environment=ENVIRONMENT, cases=cases))
    assert [row.name for row in view.rows] == ["broken", "warned"]


def test_a_check_that_was_not_planned_has_a_column():
    view = overview(run(CheckResult(name="lint", outcome="passed")))
    assert view.checks == ("lint",)


def test_passed_with_a_warning_is_red():
    view = overview(run(CheckResult(name="device", outcome="passed", findings=(LITERAL,))))
    assert view.rows[0].cells[0].tone == "bad"
    assert view.rows[0].cells[0].count == "1 finding"
    assert view.tone == "bad"


def test_not_checked_is_never_green():
    view = overview(run(CheckResult(name="device", outcome="not_checked", reason="no second device")))
    assert view.rows[0].cells[0].tone == "mute"
    assert view.rows[0].cells[0].reason == "no second device"
    assert view.tone == "warn"


@pytest.mark.parametrize(("outcome", "word"), [("failed", "failed, expected"), ("passed", "passed, failure expected")])
def test_expected_failure(outcome, word):
    view = overview(run(CheckResult(name="device", outcome=outcome, reason="why", expected="known")))
    cell = view.rows[0].cells[0]
    assert (cell.word, cell.tone, cell.reason, cell.red) == (word, "warn", "why (expected: known)", False)
    assert view.tone == "warn"


def test_the_same_finding_is_shown_once_with_all_that_saw_it():
    other = replace(BRANCH, evidence="other evidence")
    view = overview(
        run(
            CheckResult(name="capture", outcome="failed", findings=(BRANCH, BRANCH)),
            CheckResult(name="device", outcome="failed", findings=(other,)),
        )
    )
    (entry,) = view.problems
    assert entry.seen == "m (capture, device)"
    assert entry.evidence == [BRANCH.evidence, "other evidence"]


@pytest.mark.parametrize("verdict", ["refuted", "not_exercised"])
def test_what_one_case_confirms_is_not_told_of_those_that_do_not(verdict):
    def case(name, seen, predicted):
        evidence = f"{predicted} in {name}"
        lint = CheckResult(
            name="lint", outcome="passed", findings=(replace(LITERAL, verdict=predicted, evidence=evidence),)
        )
        found = (replace(LITERAL, verdict=predicted),) if seen else ()
        device = CheckResult(name="device", outcome="failed" if seen else "passed", findings=found)
        return CaseResult(name=name, target=name, checks=(device, lint))

    alone = case("alone", False, verdict)
    both = (alone, case("seen", True, "confirmed"))
    view = overview(Readiness(environment=ENVIRONMENT, cases=both))
    (entry,) = view.problems
    assert not view.advice
    assert entry.seen == "seen (device, lint): as predicted"
    assert not any("alone" in words for words in entry.evidence)
    assert overview(Readiness(environment=ENVIRONMENT, cases=(alone, alone))).summary.endswith(
        "1 note" if verdict == "refuted" else "1 warning"
    )


def test_what_another_case_is_warned_of_is_not_told_again_as_information():
    def case(name, severity):
        found = (replace(LITERAL, verdict="not_exercised", severity=severity),)
        return CaseResult(name=name, target=name, checks=(CheckResult(name="lint", outcome="passed", findings=found),))

    view = overview(Readiness(environment=ENVIRONMENT, cases=(case("idle", "info"), case("running", "warning"))))
    assert [entry.seen for entry in view.problems] == ["running (lint): predicted, not exercised by the checks"]
    assert not view.advice


def test_the_note_on_training_mode_is_told_to_everybody():
    note = f"{IN_TRAINING}, which matters to Dropout: call eval() first"
    view = overview(run(CheckResult(name="capture", outcome="passed", notes=(note, "another"))))
    assert view.rows[0].cells[0].told == (note,)


def test_causes_without_a_line_are_kept_apart():
    lineless = replace(BRANCH, line=None, end_line=None, source=None)
    found = [CheckResult(name="capture", outcome="errored", findings=(replace(lineless, evidence=e),)) for e in "aba"]
    cases = tuple(CaseResult(name=f"m{n}", target="m.py", checks=(check,)) for n, check in enumerate(found))
    view = overview(Readiness(environment=ENVIRONMENT, cases=cases))
    assert [(entry.evidence, entry.seen) for entry in view.problems] == [
        (["a"], "m0 (capture), m2 (capture)"),
        (["b"], "m1 (capture)"),
    ]


def test_an_expected_finding_comes_last_and_apart():
    view = overview(sample())
    assert [(e.finding.rule, e.expected) for e in view.problems] == [
        ("EXP101", None),
        ("EXP201", None),
        ("EXP101", "waits for a fix"),
    ]


def test_an_unknown_rule_keeps_its_code():
    view = overview(run(CheckResult(name="x", outcome="failed", findings=(replace(BRANCH, rule="EXP999"),))))
    assert view.problems[0].title == "EXP999"


def test_nothing_to_show():
    view = overview(Readiness(environment=ENVIRONMENT))
    assert view.summary == "0 cases, 0 checks"
    assert view.tone == "warn"
    assert overview(passing()).tone == "good"
