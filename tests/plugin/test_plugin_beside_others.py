"""Beside other plugins, and what happens to a session whose models crash, hang or take all memory."""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
import subprocess

import pytest
from plugin_runs import command, run, write

TESTS = """
from exportlint import export_case

@export_case(X)
class Fine(Linear):
    pass

@export_case(X)
class Hungry(nn.Module):
    def forward(self, x):
        if torch.compiler.is_exporting():
            return x + bytearray(2**33)[0]
        return x

@export_case(X)
class Waiting(nn.Module):
    def forward(self, x):
        while torch.compiler.is_exporting():
            pass
        return x

@export_case(X)
class Dying(nn.Module):
    def forward(self, x):
        if torch.compiler.is_exporting():
            os.write(2, b"the disk is on fire\\n")
            os.abort()
        return x

def test_after():
    assert True
"""


@pytest.mark.slow
def test_a_crash_a_hang_and_too_much_memory_are_outcomes_of_their_items(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.exportlint.pytest]\nmemory = 2\ntimeout = 3\n")
    done = run(tmp_path, TESTS, "--export-checks=capture", "-vv")
    assert {name: said.outcome for name, said in done.tests.items()} == {
        "Fine[capture]": "passed",
        "Hungry[capture]": "failed",
        "Waiting[capture]": "failed",
        "Dying[capture]": "failed",
        "test_after": "passed",
    }
    assert done.tests["Hungry[capture]"].text.startswith("Hungry: capture crashed: EXP003 at test_models.py:")
    assert done.tests["Waiting[capture]"].text.startswith("Waiting: capture timed out: EXP003 at test_models.py:")
    dying = done.tests["Dying[capture]"].text
    assert dying.startswith("Dying: capture crashed: EXP003 at test_models.py:")
    assert "  evidence: the disk is on fire" in dying
    assert "Fatal Python error: Aborted" in dying  # the stack, with -vv


SMALL = """
from exportlint import export_case

@export_case(X)
class Fine(Linear):
    pass

@export_case(X)
class Slow(Linear):
    def __init__(self):
        super().__init__()
        import time
        while os.environ.get("MODEL_SLEEPS"):
            time.sleep(0.1)

def test_other():
    assert Linear()(*X).shape == (2, 4)
"""


@pytest.mark.slow
def test_beside_randomly_and_cov(tmp_path):
    assert importlib.util.find_spec("pytest_randomly")
    assert importlib.util.find_spec("pytest_cov")
    write(tmp_path, SMALL)
    arguments = [
        argument.replace("no:randomly", "no:doctest") for argument in command("-v", "--export-checks=capture,state")
    ]
    done = subprocess.run(
        [*arguments, "--cov=."], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
    assert "Using --randomly-seed=" in done.stdout
    assert "test_models.py" in done.stdout[done.stdout.index("coverage:") :]
    order = re.findall(r"^test_models\.py::(\w+)\S* PASSED", done.stdout, re.MULTILINE)
    assert sorted(order) == ["Fine", "Fine", "Slow", "Slow", "test_other"]
    assert [a for a, b in itertools.pairwise(order) if a == b] in (["Fine", "Slow"], ["Slow", "Fine"])


@pytest.mark.slow
def test_a_limit_of_pytest_timeout_fails_its_item_and_no_process_is_left(tmp_path):
    assert importlib.util.find_spec("pytest_timeout")
    write(tmp_path, SMALL)
    done = subprocess.run(
        command("-v", "--export-checks=capture,state", "--timeout=30", "-k", "Slow or other"),
        cwd=tmp_path, env={**os.environ, "MODEL_SLEEPS": "1"}, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert "Slow[capture] FAILED" in done.stdout
    assert "Slow[state] SKIPPED" in done.stdout
    assert "test_other PASSED" in done.stdout
    assert "Timeout" in done.stdout
    left = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True, check=False).stdout.split()
    assert left == []
