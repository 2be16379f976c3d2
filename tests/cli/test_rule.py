"""``exportlint rule`` and ``exportlint rules``."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from exportlint.cli.rule import rule, rules
from exportlint.findings import RESULTS
from exportlint.rules import catalogue


@pytest.mark.parametrize("name", ["EXP101", "exp101", "branch-on-tensor"])
def test_a_rule_is_found_by_code_and_by_name(name: str) -> None:
    result = CliRunner().invoke(rule, [name])
    assert result.exit_code == 0
    assert result.output.startswith("# branch-on-tensor (EXP101)")
    assert "| assert | breaks | fine | fine |" in result.output
    assert "```python\nimport torch" in result.output


def test_a_rule_that_only_checks_observe_has_outcomes_in_their_mode() -> None:
    result = CliRunner().invoke(rule, ["EXP002"])
    assert result.exit_code == 0
    assert "| main | breaks | - | - |" in result.output


def test_a_page_marks_advice() -> None:
    one, other = (CliRunner().invoke(rule, [code]).output for code in ("EXP501", "EXP205"))
    assert "| unread counter (advice) | fine | fine | fine |" in one
    assert "| main | silent | silent | fine |" in one
    assert "| main (advice) | fine | - | - |" in other


def test_an_unknown_rule_is_one_clear_line() -> None:
    result = CliRunner().invoke(rule, ["EXP999"])
    assert result.exit_code == 2
    assert result.output == "error: EXP999: no such rule; exportlint rules lists them all\n"


@pytest.mark.parametrize(("name", "meant"), [("EXP1O1", "EXP101"), ("Branch-On-Tenser", "branch-on-tensor")])
def test_a_misspelt_rule_gets_a_suggestion(name: str, meant: str) -> None:
    result = CliRunner().invoke(rule, [name])
    assert (result.exit_code, result.output) == (2, f"error: {name}: no such rule; did you mean {meant!r}?\n")


def test_fixed_is_shown_only_where_it_is_not_the_good_example() -> None:
    same, other = (CliRunner().invoke(rule, [code]).output for code in ("EXP603", "EXP201"))
    assert "## Fixed" not in same
    assert "## Good\nThe bad example, rewritten." in same
    assert "## Good\nClose to the bad example, and portable." in other
    assert "## Fixed\nThe bad example, rewritten." in other


def test_a_page_says_what_its_words_mean() -> None:
    page = CliRunner().invoke(rule, ["EXP101"]).output
    assert all(f"*{word}*: " in page for word in RESULTS)
    assert "`main` is the form in the bad example" in page


def test_all_rules_are_listed() -> None:
    head, *lines = CliRunner().invoke(rules, []).output.split("\n\n")[0].splitlines()
    assert head.split()[:4] == ["code", "name", "severity", "check"]
    assert [line.split()[0] for line in lines] == list(catalogue())


@pytest.mark.parametrize(
    ("code", "severity", "check"),
    [
        ("EXP001", "error", "predicts"),  # what the linter cannot read
        ("EXP003", "error", "-"),
        ("EXP101", "error", "predicts"),
        ("EXP201", "warning, error", "predicts"),  # a literal cpu, a literal cuda
        ("EXP204", "warning, info", "predicts"),
        ("EXP205", "info", "-"),
        ("EXP501", "error, info", "predicts"),  # a counter that nothing reads
        ("EXP403", "error (compile)", "predicts"),  # fine for torch.export.export as it is by default
    ],
)
def test_the_list_says_how_bad_a_rule_is_and_who_reports_it(code: str, severity: str, check: str) -> None:
    line = next(line for line in CliRunner().invoke(rules, []).output.splitlines() if line.startswith(code))
    assert re.split(" {2,}", line)[2:4] == [severity, check]


def test_all_rules_as_json() -> None:
    found = json.loads(CliRunner().invoke(rules, ["--output-format", "json"]).output)
    assert [r["code"] for r in found] == list(catalogue())
    by_code = {r["code"]: r for r in found}
    assert by_code["EXP102"]["variants"]["conversion"] == {
        "outcomes": {"export": "breaks", "export-strict": "fine", "compile": "fine"},
        "advice": False,
    }
    assert by_code["EXP501"]["variants"]["unread counter"]["advice"] is True
    assert (by_code["EXP501"]["advice"], by_code["EXP501"]["severity"]) == (False, "error")
    assert (by_code["EXP205"]["advice"], by_code["EXP205"]["severity"]) == (True, "info")
    assert by_code["EXP403"]["severity"] == "error"
    assert by_code["EXP101"]["predicted"] is True
    assert by_code["EXP001"]["predicted"] is True
    assert by_code["EXP003"]["predicted"] is False
    assert by_code["EXP202"]["observed_by"] == ["device"]
