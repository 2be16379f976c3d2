"""The text of a failure and of a test's section, from results as checks return them."""

from __future__ import annotations

import dataclasses

import pytest
from pytest_exportlint import messages

from exportlint.findings import CaseResult, CheckResult, Finding

FINDING = Finding(
    rule="EXP101",
    severity="error",
    message="Python asks for the truth value of a tensor",
    file="models/gate.py",
    line=2,
    end_line=2,
    source="if x.sum() > 0:",
    rewrite="Use torch.where.",
    evidence="GuardOnDataDependentSymNode: Could not guard\n\nmore words",
)
CAPTURE = CheckResult(name="capture", outcome="failed", reason="Could not guard", findings=(FINDING,))


def case(*checks: CheckResult) -> CaseResult:
    return CaseResult(name="Gate", target="test_gate.py::test_gate", checks=checks)


def with_finding(check: CheckResult = CAPTURE, **changes) -> CheckResult:
    return dataclasses.replace(check, findings=(dataclasses.replace(FINDING, **changes),))


def test_a_finding_has_all_that_is_needed_to_act():
    assert messages.failure(case(CAPTURE)).splitlines() == [
        "Gate: capture failed: EXP101 at models/gate.py:2",
        "",
        "models/gate.py:2: EXP101 branch-on-tensor (error, seen by capture)",
        ">   if x.sum() > 0:",
        "  Python asks for the truth value of a tensor",
        "  why: Python control flow is decided by the value of a tensor",
        "  rewrite: Use torch.where.",
        "  evidence: GuardOnDataDependentSymNode: Could not guard",
        "    more words",
    ]


def test_the_excerpt_shows_the_whole_statement(tmp_path):
    file = tmp_path / "gate.py"
    file.write_text("def forward(self, x):\n    if (\n        x.sum() > 0\n    ):\n        return x\n")
    text = messages.failure(case(with_finding(file=str(file), end_line=4, source="if (")))
    assert text.count("\n>   ") == 3
    assert "\n>       if (\n>           x.sum() > 0\n>       ):\n" in text


def test_a_long_statement_is_cut(tmp_path):
    file = tmp_path / "gate.py"
    file.write_text("x = [\n" + "    0,\n" * 50 + "]\n")
    text = messages.failure(case(with_finding(file=str(file), line=1, end_line=52, source="x = [")))
    assert text.count("\n>   ") == messages.MOST_LINES


def test_a_file_that_changed_is_not_quoted(tmp_path):
    file = tmp_path / "gate.py"
    file.write_text("\nreturn x\n")
    text = messages.failure(case(with_finding(file=str(file))))
    assert "\n>   if x.sum() > 0:\n" in text
    assert "return x" not in text


def test_a_line_seen_by_two_checks_is_told_once():
    shapes = CheckResult(
        name="shapes", outcome="failed", findings=(dataclasses.replace(FINDING, evidence="for size 3"),)
    )
    text = messages.failure(case(CAPTURE, shapes))
    assert text.startswith("Gate: capture failed, shapes failed: EXP101 at models/gate.py:2\n")
    assert text.count("EXP101 branch-on-tensor (error, seen by capture, shapes)") == 1
    assert "  evidence: for size 3" in text


def test_a_warning_of_a_passed_check_fails_too():
    check = with_finding(dataclasses.replace(CAPTURE, outcome="passed", reason=None), severity="warning")
    assert messages.failure(case(check)).startswith("Gate: capture warns: EXP101 at models/gate.py:2\n")


def test_a_finding_without_a_line_and_a_rule_that_is_not_known():
    text = messages.failure(case(with_finding(rule="EXP999", file=None, line=None, source=None, rewrite=None)))
    assert "\nno line known: EXP999 (error, seen by capture)\n  Python asks" in text
    assert "why:" not in text
    assert "rewrite:" not in text


def test_a_red_check_without_findings_gives_its_reason():
    check = CheckResult(
        name="shapes", outcome="errored", reason="exportlint itself failed: KeyError: 1", notes=("a note",)
    )
    assert messages.failure(case(check)).splitlines() == [
        "Gate: shapes errored",
        "",
        "shapes errored: exportlint itself failed: KeyError: 1",
        "  a note",
    ]


def test_notes_of_a_red_check_are_shown_and_those_of_others_are_not():
    capture = dataclasses.replace(CAPTURE, notes=("these submodules do export by themselves: head",))
    passed = CheckResult(name="device", outcome="passed", notes=("not of interest",))
    text = messages.failure(case(capture, passed))
    assert text.endswith("\n\ncapture:\n  these submodules do export by themselves: head")
    assert "not of interest" not in text


def test_expected_failures_and_information_are_no_failure_but_a_remark():
    expected = dataclasses.replace(CAPTURE, expected="known since June")
    info = with_finding(CheckResult(name="device", outcome="passed"), severity="info", rule="EXP205")
    skipped = CheckResult(name="shapes", outcome="not_checked", reason="no dimension is dynamic")
    errored = CheckResult(name="reload", outcome="errored", reason="broken")
    result = case(expected, errored, info, skipped)
    assert "models/gate.py" not in messages.failure(result)
    assert messages.remarks(result, ["no limits: cuda is initialised"]).splitlines() == [
        "Gate: capture failed, as expected (known since June): Could not guard",
        "Gate: shapes not checked: no dimension is dynamic",
        "Gate: info EXP205 device-baked: Python asks for the truth value of a tensor (models/gate.py:2)",
        "no limits: cuda is initialised",
    ]


def test_a_plain_pass_needs_no_remark():
    assert messages.remarks(case(CheckResult(name="capture", outcome="passed")), []) == ""


@pytest.mark.parametrize("hostile", ["a\x1b[31mb", "a\u202eb", "a\ud800b", "a\x00b"])
def test_what_a_model_says_cannot_disturb_the_terminal(hostile):
    finding = with_finding(message=hostile, evidence=hostile, source=hostile, file=hostile)
    check = CheckResult(name="shapes", outcome="errored", reason=hostile, notes=(hostile,))
    result = dataclasses.replace(case(finding, check), name=hostile)
    text = messages.failure(result) + messages.remarks(result, [hostile])
    assert hostile not in text
    assert text.encode()
    assert "\x1b" not in text
