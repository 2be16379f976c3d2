"""``exportlint rule`` and ``exportlint rules``."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from exportlint.cli.rule import rule, rules
from exportlint.rules import catalogue


@pytest.mark.parametrize("name", ["EXP101", "exp101", "branch-on-tensor"])
def test_a_rule_is_found_by_code_and_by_name(name: str) -> None:
    result = CliRunner().invoke(rule, [name])
    assert result.exit_code == 0
    assert result.output.startswith("# branch-on-tensor (EXP101)")
    assert "| assert | breaks | fine | fine |" in result.output
    assert "```python\nimport torch" in result.output


def test_a_rule_that_only_checks_observe_has_no_outcomes() -> None:
    result = CliRunner().invoke(rule, ["EXP002"])
    assert result.exit_code == 0
    assert "## Outcomes" not in result.output


def test_an_unknown_rule_is_one_clear_line() -> None:
    result = CliRunner().invoke(rule, ["EXP999"])
    assert result.exit_code == 2
    assert result.output == "error: EXP999: no such rule; exportlint rules lists them all\n"


def test_all_rules_are_listed() -> None:
    lines = CliRunner().invoke(rules, []).output.splitlines()
    assert [line.split()[0] for line in lines] == list(catalogue())


def test_all_rules_as_json() -> None:
    found = json.loads(CliRunner().invoke(rules, ["--output-format", "json"]).output)
    assert [r["code"] for r in found] == list(catalogue())
    by_code = {r["code"]: r for r in found}
    assert by_code["EXP102"]["variants"]["conversion"]["export"] == "breaks"
    assert by_code["EXP101"]["predicted"] is True
    assert by_code["EXP003"]["predicted"] is False
    assert by_code["EXP202"]["observed_by"] == ["device"]
