"""What the linter predicts about lines that did not run is shown, and makes no test fail."""

from __future__ import annotations

import pytest
from plugin_runs import run

TESTS = """
import threading
from exportlint import export_case
from nets import Two

@export_case(X)
def plain():
    return Two()

def test_fixture(export_check):
    export_check(Two(), X)

def test_observed():
    Two()(torch.ones(2, 3))

class Locked(nn.Module):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()

    def forward(self, x):
        return x

def test_that_nothing_can_be_observed_of():
    Locked()(torch.ones(2, 3))
"""
# Beside the cases, so that the linter does not know that they leave a branch out.
NETS = """
import torch
from torch import nn

class Two(nn.Module):
    def __init__(self, branch=False):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.branch = branch

    def forward(self, x):
        if self.branch:
            x = x + torch.zeros(3)
        return self.linear(x)
"""
CONFIGURATION = '[tool.exportlint.pytest]\nchecks = ["capture", "lint"]\n'


def test_what_did_not_run_is_shown_once_and_fails_nothing(tmp_path):
    (tmp_path / "pyproject.toml").write_text(CONFIGURATION)
    (tmp_path / "nets.py").write_text(NETS)
    done = run(tmp_path, TESTS, "--export-observe")
    assert done.status == pytest.ExitCode.OK
    assert {said.outcome for said in done.tests.values()} == {"passed"}
    line = NETS.splitlines().index("            x = x + torch.zeros(3)") + 1
    words = f"predicted on a line that did not run: EXP202 at nets.py:{line} ("
    assert done.out.count(words) == 1
    assert "info EXP202 factory-without-device" in done.tests["plain[lint]"].section
    assert "not observed: Locked: TypeError: cannot pickle '_thread.lock' object (1 call)" in done.out
    ran = run(tmp_path, TESTS.replace("Two(), X", "Two(True), X"), "--export-observe=Lockd", "-k", "fixture or nothing")
    assert {name: said.outcome for name, said in ran.tests.items() if name != "test_fixture"} == {
        "test_that_nothing_can_be_observed_of": "passed"
    }
    assert "--export-observe: no test called a module 'Lockd'; did you mean Locked?" in ran.out
    assert ran.tests["test_fixture"].outcome == "failed"
    assert "predicted on a line" not in ran.out


def test_that_no_model_was_called_is_said(tmp_path):
    done = run(tmp_path, "def test_nothing(): ...", "--export-observe")
    assert "--export-observe: no test called a module, other than torch's own" in done.out
    assert done.status == pytest.ExitCode.OK
