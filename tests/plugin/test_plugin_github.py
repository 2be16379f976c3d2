"""Annotations for GitHub, from results as checks return them."""

from __future__ import annotations

from pytest_exportlint import github

from exportlint.findings import CaseResult, CheckResult, Environment, Finding, Readiness

FINDING = Finding(
    rule="EXP201", severity="warning", message="50% of `a,b`\nstay on the cpu", rewrite="Use device=x.device.",
    file="models/a,b.py", line=3, end_line=4,
)  # fmt: skip


def readiness(*checks: CheckResult) -> Readiness:
    environment = Environment(exportlint="", python="", torch=None, platform="", date="", isolation="")
    return Readiness(environment=environment, cases=(CaseResult(name="net", target="a.py::net", checks=checks),))


def test_a_finding_is_a_command_with_its_place():
    check = CheckResult(name="device", outcome="failed", findings=(FINDING,))
    (command,) = github.commands(readiness(check))
    place, _, words = command.removeprefix("::").partition("::")
    assert place == "warning file=models/a%2Cb.py,line=3,endLine=4,title=EXP201 device-literal"
    assert words == "50%25 of `a,b` stay on the cpu. Use device=x.device."


def test_a_red_check_without_a_finding_is_one_too():
    check = CheckResult(name="capture", outcome="crashed", reason="killed by SIGABRT")
    assert list(github.commands(readiness(check))) == [
        "::error file=a.py,title=net%3A capture crashed::killed by SIGABRT"
    ]


def test_what_is_wrong_with_the_run_is_one_at_the_file_that_says_so():
    assert github.complaint("expected-failures: a.py::net is no case", "pyproject.toml") == (
        "::error file=pyproject.toml,title=exportlint::expected-failures: a.py::net is no case"
    )
    assert github.complaint("r.json cannot be written: no space") == (
        "::error title=exportlint::r.json cannot be written: no space"
    )


def test_what_is_expected_or_passed_or_advice_is_none():
    expected = CheckResult(name="device", outcome="failed", findings=(FINDING,), expected="known")
    passed = CheckResult(name="capture", outcome="passed")
    assert list(github.commands(readiness(expected, passed))) == []
