"""Failures that are told of the line of the hazard that they come from."""

from __future__ import annotations

import textwrap

import pytest

from exportlint.checks.runner import Options, Runner
from exportlint.checks.upstream import explained
from exportlint.findings import CheckResult, Finding

FAILS = "torch.export cannot capture this line"


def result(file, line: int, rule: str = "EXP003") -> CheckResult:
    finding = Finding(rule=rule, severity="error", message=FAILS, file=str(file), line=line, end_line=line)
    return CheckResult(name="capture", outcome="failed", findings=(finding,))


def hazard(file, line: int, severity: str = "error") -> Finding:
    return Finding(
        rule="EXP402",
        severity=severity,
        message="a copy",
        file=str(file),
        line=line,
        end_line=line,
        rewrite="Clone it.",
    )


def told(source, body: str, made: int, used: int, *, severity: str = "error", rule: str = "EXP003") -> tuple[str, int]:
    file = source("def forward(x):\n" + textwrap.indent(textwrap.dedent(body).strip(), "    ") + "\n")
    (check,) = explained([result(file, used, rule)], [hazard(file, made, severity)])
    (finding,) = check.findings
    return finding.rule, finding.line


@pytest.mark.parametrize(
    ("body", "used", "line"),
    [
        ("y = copy(x)\nreturn x + y", 3, 2),
        ("y = copy(x)\nz = x + 1\nreturn (\n    z +\n    y)", 6, 2),
        ("y, n = copy(x), 1\nif n:\n    return y + 1", 4, 2),
        ("y = copy(x)\nreturn x + 1", 3, 3),
        ("y = copy(x)\ny = x + 1\nreturn y", 4, 4),
        ("y = copy(x)\ndef inner(x):\n    return x + 1\nreturn inner(x)", 4, 4),
        ("x.copy = copy(x)\nreturn y", 3, 3),
    ],
)
def test_the_hazard_whose_result_the_line_uses_is_the_cause(source, body, used, line):
    assert told(source, body, 2, used) == ("EXP402" if line == 2 else "EXP003", line)


def test_only_what_no_rule_explains_and_only_by_what_is_no_advice(source):
    body = "y = copy(x)\nreturn x + y"
    assert told(source, body, 2, 3, severity="info") == ("EXP003", 3)
    assert told(source, body, 2, 3, rule="EXP101") == ("EXP101", 3)


def test_a_copy_that_fails_where_it_is_used_is_told_once(source):
    file = source("""
        import copy

        import torch
        from torch import nn


        class Net(nn.Module):
            def forward(self, x):
                kept = copy.copy(x)
                x = torch.relu(x)
                return x + kept


        def build():
            return Net()


        def inputs():
            return (torch.ones(2),)
    """)
    with Runner(Options(checks=("capture", "lint"))) as runner:
        (case,) = runner.list_cases(str(file))
        capture, lint = runner.check_named(case).checks
    (finding,) = capture.findings
    assert (finding.rule, finding.line, finding.verdict) == ("EXP402", 9, "confirmed")
    assert finding.message.endswith("copies a tensor as a Python object, and what comes of it fails at line 11")
    (predicted,) = lint.findings
    assert (predicted.line, predicted.verdict) == (9, "confirmed")
