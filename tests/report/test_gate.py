from __future__ import annotations

from dataclasses import replace

import pytest
from readiness_samples import BRANCH, ENVIRONMENT, LITERAL, passing, sample

from exportlint.findings import CaseResult, CheckResult, Readiness
from exportlint.report.comparing import compare
from exportlint.report.gate import FAIL_ON, status


def run(*checks):
    return Readiness(environment=ENVIRONMENT, cases=(CaseResult(name="m", target="m.py", checks=checks),))


WARNED = run(CheckResult(name="device", outcome="failed", findings=(LITERAL,)))
BROKEN = run(CheckResult(name="capture", outcome="failed", findings=(BRANCH,)))
CRASHED = run(CheckResult(name="capture", outcome="crashed"))
UNFOUNDED = run(CheckResult(name="capture", outcome="failed", reason="passes although it is expected to fail"))
EXPECTED = run(CheckResult(name="capture", outcome="failed", findings=(BRANCH,), expected="known"))


@pytest.mark.parametrize(
    ("readiness", "error", "warning"),
    [(passing(), 0, 0), (WARNED, 0, 1), (BROKEN, 1, 1), (CRASHED, 1, 1), (UNFOUNDED, 1, 1), (EXPECTED, 0, 0)],
)
def test_from_what_on_a_run_fails(readiness, error, warning):
    assert status(readiness, "error") == error
    assert status(readiness, "warning") == warning == readiness.status
    assert status(readiness, "none") == 0
    assert status(readiness, "regression", compare(readiness, readiness)) == 0
    assert status(readiness, "regression", compare(passing(), readiness)) == warning


@pytest.mark.parametrize("fail_on", FAIL_ON)
def test_a_target_that_cannot_be_loaded_always_fails(fail_on):
    assert status(sample(), fail_on, compare(sample(), sample())) == 2


def test_what_was_not_checked_fails_where_that_is_asked_for():
    readiness = run(CheckResult(name="device", outcome="not_checked"))
    assert status(readiness, "warning") == 0
    assert status(readiness, "none", unchecked_fails=True) == 1
    assert status(passing(), "warning", unchecked_fails=True) == 0
    known = replace(readiness.cases[0], checks=(replace(readiness.cases[0].checks[0], expected="no device here"),))
    assert status(replace(readiness, cases=(known,)), "warning", unchecked_fails=True) == 0


def test_regressions_need_an_earlier_run():
    with pytest.raises(ValueError, match="told by an earlier run"):
        status(passing(), "regression")
