"""The session: hanging models, several workers, and what is left behind when it is interrupted."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time

import psutil
import pytest
import torch
from commands import wait_until
from plugin_runs import command, run, write
from pytest_exportlint.session import SharedCase

from exportlint import ModelCase
from exportlint.checks.runner import NamedCase

MIXED = """
def test_good(export_check):
    assert not export_check(Linear, X, checks=("capture",)).red

def test_bad(export_check):
    export_check(Gate, X, checks=("capture",))
"""

HANGING = """
class Spin(nn.Module):
    def forward(self, x):
        while torch.compiler.is_exporting():
            pass
        return x

def test_spin(export_check):
    export_check(Spin, X, checks=("capture",))

def test_next(export_check):
    assert not export_check(Linear, X, checks=("capture",)).red
"""

# The model starts a process of its own.
SLEEP = """
import pathlib, subprocess, time

class Sleep(nn.Module):
    def forward(self, x):
        sleeper = subprocess.Popen(["sleep", "600"])
        pathlib.Path("sleeper.pid").write_text(str(sleeper.pid))
        time.sleep(600)

def test_sleep(export_check):
    export_check(Sleep, X, checks=("capture",))

def test_never(export_check):
    raise RuntimeError
"""

# The second reload starts the worker server.
WITH_SERVER = """
def test_reload(export_check):
    for _ in range(2):
        export_check(Linear, X, checks=("reload",))
"""


@pytest.mark.slow
def test_workers_of_xdist(tmp_path):
    done = run(tmp_path, MIXED, "-n", "2")
    assert {name: said.outcome for name, said in done.tests.items()} == {"test_good": "passed", "test_bad": "failed"}
    assert "Gate: capture failed: EXP101 at test_models.py:" in done.tests["test_bad"].text


def test_without_isolation_the_outcomes_are_the_same(tmp_path):
    done = run(tmp_path, MIXED, "--export-isolation=none")
    assert {name: said.outcome for name, said in done.tests.items()} == {"test_good": "passed", "test_bad": "failed"}
    assert "Gate: capture failed: EXP101 at test_models.py:" in done.tests["test_bad"].text


@pytest.mark.slow
def test_a_model_that_hangs_is_a_failure_and_the_session_goes_on(tmp_path):
    done = run(tmp_path, HANGING, "--export-timeout=1")
    assert {name: said.outcome for name, said in done.tests.items()} == {"test_spin": "failed", "test_next": "passed"}
    text = done.tests["test_spin"].text
    assert text.startswith("Spin: capture timed out: EXP003 at test_models.py:")
    assert "the process used up its CPU time during the export" in text
    assert ">           while torch.compiler.is_exporting():" in text


@pytest.mark.slow
def test_ctrl_c_ends_the_session_and_every_process(tmp_path):
    began = time.monotonic()
    with sleeping_session(tmp_path, WITH_SERVER + SLEEP) as (session, family):
        commands = [" ".join(process.cmdline()) for process in family]
        assert sum("isolation.server" in command for command in commands) == 1
        assert "sleep 600" in commands
        interrupted = time.monotonic()
        session.send_signal(signal.SIGINT)
        out, _ = session.communicate(timeout=60)
        wait_until(lambda: not any(map(alive, family)), 10, f"some of these live on: {commands}")
        ended = time.monotonic()
    assert ended - interrupted < max(5.0, interrupted - began)  # seconds; longer where the start is slow as well
    assert session.returncode == pytest.ExitCode.INTERRUPTED
    assert "KeyboardInterrupt" in out
    assert "1 passed" in out


def test_what_a_case_does_not_ask_for_is_not_said_to_have_been_stopped(monkeypatch):
    def interrupted(shared, labels):
        raise KeyboardInterrupt

    monkeypatch.setattr(SharedCase, "_run", interrupted)
    plain = ModelCase(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    named = NamedCase("m.py", "plain", {}, asks=("capture",))
    for shared in (SharedCase(None, "id", plain), SharedCase(None, "id", named=named)):
        for label in ("capture", "steps", "training"):
            shared.want(label)
        with pytest.raises(KeyboardInterrupt):
            shared.result("capture")
        assert shared.result("capture").reason.startswith("the checks of this case were stopped: KeyboardInterrupt")
        assert {shared.result(label).reason for label in ("steps", "training")} == {"not asked for by this case"}


def test_children_die_with_a_session_that_is_killed(tmp_path):
    with sleeping_session(tmp_path, SLEEP) as (session, family):
        children = [process for process in family if process.name() != "sleep"]
        assert children
        session.kill()
        wait_until(lambda: not any(map(alive, children)), 10, "the forked child lives on")


@contextlib.contextmanager
def sleeping_session(folder, tests):
    """A pytest whose model sleeps, and all processes below it; they are killed at the end."""
    write(folder, tests)
    session = subprocess.Popen(command(), cwd=folder, stdout=subprocess.PIPE, text=True)
    family: list[psutil.Process] = []
    try:
        wait_until(lambda: file_says(folder / "sleeper.pid"), 240, "the model does not sleep")
        family = psutil.Process(session.pid).children(recursive=True)
        yield session, family
    finally:
        session.kill()
        session.wait()
        for process in filter(alive, family):
            process.kill()


def file_says(path) -> str:
    return path.read_text() if path.exists() else ""


def alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


@pytest.mark.parametrize("how", ["a file that breaks", "only collected"])
def test_a_session_that_breaks_off_takes_no_report_away(tmp_path, how):
    (tmp_path / "r.json").write_text("an earlier report")
    tests = "import torch\nraise RuntimeError" if how == "a file that breaks" else "def test_nothing(): pass"
    arguments = ("--collect-only",) if how == "only collected" else ()
    done = run(tmp_path, tests, "--export-report=r.json", "--export-report=new.json", *arguments)
    assert (tmp_path / "r.json").read_text() == "an earlier report"
    assert (tmp_path / "new.json").exists()
    assert "r.json is left as it was: no model was checked" in done.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('X, name="a\\nb"', "ValueError: name must be a non-empty string in one line"),
        ("inputs=X", "TypeError: a model case takes no 'inputs'; did you mean 'args'?"),
    ],
)
def test_what_is_wrong_with_a_case_is_told_at_the_line_that_makes_it(tmp_path, arguments, words):
    tests = f"from exportlint import export_case\n@export_case({arguments})\ndef net():\n    return Gate()"
    done = run(tmp_path, tests)
    assert f"E   {words}" in done.out
    assert "@export_case(" in done.out
    assert "case.py" not in done.out
    assert done.status == pytest.ExitCode.INTERRUPTED
