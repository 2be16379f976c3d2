"""Variants that are asked for on the command line, for each way in."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

FILE = """
import torch
from exportlint import export_case

X = (torch.ones(2, 4),)

@export_case(X)
def net():
    return torch.nn.Linear(4, 4)

def test_net(export_check):
    result = export_check(lambda: torch.nn.Linear(4, 4), X, name="net", variants=("float16",), checks=("capture",))
    assert [check.name for check in result.checks] == ["capture", "[float16].capture", "[bfloat16].capture"]
"""


@pytest.mark.slow
def test_items_and_the_fixture_have_them(pytester):
    pytester.makepyfile(test_nets=FILE)
    ran = pytester.runpytest_subprocess("-v", "--export-variants=bfloat16", "--export-checks=capture", "-p", "no:xdist")
    ran.assert_outcomes(passed=3)
    shown = ran.stdout.str()
    assert "::net[capture]" in shown
    assert "::net[bfloat16][capture]" in shown


@pytest.mark.slow
def test_models_of_the_command_line_have_them(pytester):
    pytester.makepyfile(nets=FILE)
    arguments = ("--export-model=nets.py:net", "--export-variants=autocast", "--export-checks=capture")
    ran = pytester.runpytest_subprocess("-v", *arguments, "-p", "no:xdist")
    ran.assert_outcomes(passed=2)
