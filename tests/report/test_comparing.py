from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from readiness_samples import BRANCH, ENVIRONMENT, LITERAL, passing, readinesses

from exportlint.findings import CaseResult, CheckResult, Readiness, TargetError
from exportlint.report.comparing import compare


def run(*checks, name="m", errors=(), **environment):
    case = CaseResult(name=name, target=f"{name}.py", checks=checks)
    return Readiness(environment=replace(ENVIRONMENT, **environment), cases=(case,), errors=errors)


PASSED = CheckResult(name="device", outcome="passed")
FAILED = CheckResult(name="device", outcome="failed", reason="why", findings=(LITERAL,))
ABSENT = CheckResult(name="device", outcome="not_checked", reason="no such device")


@settings(max_examples=60, deadline=None)
@given(readinesses)
def test_nothing_changes_from_a_run_to_itself(readiness):
    comparison = compare(readiness, readiness)
    assert [found for _, found in (*comparison.changes, *comparison.cases)] == [()] * 5
    assert comparison.surroundings == ()
    assert comparison.summary == "nothing changed"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (PASSED, FAILED, "failed: EXP201 at models/mask.py:7"),
        (ABSENT, FAILED, "failed: EXP201 at models/mask.py:7"),
        (PASSED, replace(FAILED, findings=()), "failed: why"),
        (PASSED, replace(PASSED, findings=(LITERAL,)), "passed with findings: EXP201 at models/mask.py:7"),
        (FAILED, replace(FAILED, findings=(LITERAL, BRANCH)), "failed: EXP101 at models/decoder.py:21"),
        (FAILED, replace(FAILED, findings=(LITERAL, LITERAL)), "failed: EXP201 at models/mask.py:7"),
        (FAILED, CheckResult(name="device", outcome="crashed", reason="signal 6"), None),
        (replace(FAILED, expected="known"), FAILED, "failed: EXP201 at models/mask.py:7"),
        (FAILED, replace(FAILED, findings=(replace(LITERAL, line=90),)), None),
        (FAILED, replace(FAILED, expected="known"), None),
        (FAILED, PASSED, None),
        (PASSED, replace(PASSED, findings=(replace(LITERAL, severity="info"),)), None),
    ],
)
def test_what_is_a_regression(old, new, words):
    found = compare(run(old), run(new)).regressions
    assert [change.words for change in found] == ([] if words is None else [words])


def test_a_red_check_of_a_new_case_is_a_regression():
    comparison = compare(run(PASSED), run(FAILED, name="other"))
    assert [change.case for change in comparison.regressions] == ["other"]
    assert (comparison.new, comparison.gone) == (("other (other.py)",), ("m (m.py)",))


def test_a_target_that_cannot_be_loaded_any_more_is_a_regression():
    error = TargetError(target="gone.py", message="no such file")
    assert [c.words for c in compare(run(PASSED), run(PASSED, errors=(error,))).regressions] == ["no such file"]
    assert not compare(run(PASSED, errors=(error,)), run(PASSED, errors=(error,))).regressions


def test_mended_and_no_longer_checked_are_told_apart():
    assert [c.words for c in compare(run(FAILED), run(PASSED)).mended] == ["was failed, passed now"]
    comparison = compare(run(FAILED), run(ABSENT))
    assert not comparison.mended
    assert [c.words for c in comparison.unchecked] == ["was failed, not checked now: no such device"]
    assert [c.words for c in compare(run(PASSED), run()).unchecked] == ["was passed, was not asked for now"]


def test_another_torch_is_said():
    assert compare(passing(), replace(passing(), environment=replace(ENVIRONMENT, torch="2.14"))).surroundings == (
        "torch: 2.13.0+cpu before, 2.14 now",
    )


def test_the_summary_counts():
    one = compare(run(FAILED), run(PASSED))
    assert one.summary == "1 mended check"
    both = compare(
        run(PASSED, replace(PASSED, name="shapes")), run(FAILED, replace(FAILED, name="shapes", outcome="crashed"))
    )
    assert both.summary == "2 regressions"
