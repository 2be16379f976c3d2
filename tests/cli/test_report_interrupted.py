"""What is left, and what is reported, when `exportlint report` is stopped from outside."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil
import pytest
from commands import gone, wait_until
from rich.console import Console

from exportlint.checks.runner import NamedCase, Options
from exportlint.cli.report_session import Session
from exportlint.findings import DEFAULT_CHECKS

if TYPE_CHECKING:
    from pathlib import Path

CASES = """
    import subprocess, time
    from pathlib import Path
    import torch
    from exportlint import ModelCase

    class Hanging(torch.nn.Linear):
        def forward(self, x):
            started = subprocess.Popen(["sleep", "600"], stdout=-3, stderr=-3)  # DEVNULL
            Path("{pids}").write_text(str(started.pid))
            time.sleep(600)

    first = ModelCase(lambda: torch.nn.Linear(2, 2), (torch.ones(2, 2),), name="first")
    hangs = ModelCase(lambda: Hanging(2, 2), (torch.ones(2, 2),), name="hangs")
    last = ModelCase(lambda: torch.nn.Linear(2, 2), (torch.ones(2, 2),), name="last")
"""


@dataclass
class Running:
    """`exportlint report` on a case that hangs, with all processes that belong to it."""

    process: subprocess.Popen[str]
    file: Path
    started: int
    tree: list[psutil.Process]


@pytest.fixture
def hanging(source, tmp_path):
    """Start the command and wait until the model hangs and has started a process of its own."""
    running: list[Running] = []

    def start(*arguments: str) -> Running:
        pids = tmp_path / "pid"
        file = source(CASES.format(pids=pids))
        command = [sys.executable, "-m", "exportlint", "report", str(file), *arguments, "--output", "r.json"]
        command += ["--checks", "capture"]
        process = subprocess.Popen(
            command, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        wait_until(lambda: process.poll() is not None or (pids.is_file() and pids.read_text()), 60, "no model runs")
        assert process.poll() is None, process.communicate()
        tree = psutil.Process(process.pid).children(recursive=True)
        running.append(Running(process, tmp_path / "r.json", int(pids.read_text()), tree))
        assert running[0].started in {p.pid for p in tree}
        return running[0]

    yield start
    for run in running:
        run.process.kill()
        for process in run.tree:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        run.process.communicate()


def assert_nothing_is_left(tree: list[psutil.Process]) -> None:
    wait_until(lambda: not [p for p in tree if not gone(p.pid)], 10, f"still there: {tree}")


@pytest.mark.parametrize("isolation", ["server", "fork", "none"])
def test_on_ctrl_c_the_report_is_written_and_no_process_stays(hanging, isolation):
    run = hanging("--isolation", isolation)
    run.process.send_signal(signal.SIGINT)
    out, err = run.process.communicate(timeout=20)
    assert run.process.returncode == 130, out + err
    assert "Traceback" not in out + err
    assert "interrupted" in out
    said = {case["name"]: case["checks"][0] for case in json.loads(run.file.read_text())["cases"]}
    assert [said[name]["outcome"] for name in ("first", "hangs", "last")] == ["passed", "not_checked", "not_checked"]
    assert said["hangs"]["reason"] == said["last"]["reason"] == "interrupted"
    if isolation != "none":  # there the model's own process is the caller's
        assert_nothing_is_left(run.tree)


def test_only_the_checks_that_were_to_run_are_not_checked():
    session = Session(Console())
    plain = tuple(check for check in DEFAULT_CHECKS if check not in ("steps", "methods", "training"))
    session.cases = [NamedCase("m.py", "plain", {}, asks=plain), NamedCase("m.py", "all", {})]

    def listed(options: Options) -> list[tuple[str, ...]]:
        return [tuple(check.name for check in case.checks) for case in session.results(options)]

    assert listed(Options()) == [plain, DEFAULT_CHECKS]
    assert listed(Options(checks=("capture", "steps"))) == [("capture",), ("capture", "steps")]


def test_ctrl_c_with_several_jobs(hanging):
    run = hanging("--jobs", "2")
    run.process.send_signal(signal.SIGINT)
    out, err = run.process.communicate(timeout=20)
    assert run.process.returncode == 130
    assert "Traceback" not in out + err
    said = {case["name"]: case["checks"][0]["outcome"] for case in json.loads(run.file.read_text())["cases"]}
    assert said["first"] in ("passed", "not_checked")
    assert (said["hangs"], said["last"]) == ("not_checked", "not_checked")
    assert_nothing_is_left(run.tree)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_command_leaves_no_process(hanging, number):
    run = hanging()
    run.process.send_signal(number)
    run.process.wait(timeout=10)
    assert_nothing_is_left(run.tree)


def test_a_killed_command_leaves_no_fork(hanging):
    """What a model has itself started outlives the command here: nobody is left who knows of it."""
    run = hanging("--isolation", "fork")
    run.process.kill()
    run.process.wait(timeout=10)
    assert_nothing_is_left([p for p in run.tree if p.pid != run.started])


def test_ctrl_c_while_cases_are_listed(source, tmp_path):
    started = tmp_path / "started"
    file = source(f"""
        from pathlib import Path
        Path({str(started)!r}).write_text("yes")
        import time; time.sleep(600)
    """)
    command = [sys.executable, "-m", "exportlint", "report", str(file), "--output", "r.json"]
    process = subprocess.Popen(
        command, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        wait_until(started.is_file, 60, "the file is not imported")
        tree = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in out + err
    assert json.loads((tmp_path / "r.json").read_text())["cases"] == []
    assert_nothing_is_left(tree)


def test_ctrl_c_while_the_server_starts(source, tmp_path):
    file = source("x = 1")
    command = [sys.executable, "-m", "exportlint", "report", str(file)]
    process = subprocess.Popen(
        command, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        wait_until(lambda: psutil.Process(process.pid).children(), 30, "no server is started")
        tree = psutil.Process(process.pid).children()
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in out + err
    assert_nothing_is_left(tree)
