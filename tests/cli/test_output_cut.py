"""Output that is cut short, that cannot be written, or that was closed: a status that says so, and no traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from exportlint.cli import CUT, main
from exportlint.rules.examples import example

FULL = Path("/dev/full")
COMMANDS = [
    ["--help"], ["--version"], ["check", "--help"], ["check", "model.py"], ["check", "--diff", "model.py"],
    ["check", "model.py", "--output-format", "json"], ["check", "--show-files"], ["config"], ["rules"],
    ["rule", "EXP101"],
]  # fmt: skip


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(example("def forward(self, x):\n    return x * torch.arange(x.size(1))"))


def start(arguments, shell=""):
    command = [sys.executable, "-m", "exportlint", *arguments]
    if shell:
        command = ["sh", "-c", f'exec "$@" {shell}', "sh", *command]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def unread(arguments, status=CUT):
    """Run a command whose output nobody reads."""
    process = start(arguments)
    process.stdout.close()
    assert process.stderr.read() in ("", "1 finding would be fixed in 1 file\n")
    assert process.wait(60) == status


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_reader_that_goes_away_is_no_finding_and_no_traceback(arguments):
    unread(arguments)


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_full_disk_is_one_line_and_status_2(arguments):
    _, told = (process := start(arguments, "> /dev/full")).communicate(timeout=60)
    assert told.splitlines()[-1] == "error: standard output: No space left on device"
    assert "Traceback" not in told
    assert process.returncode == 2


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
def test_an_error_that_cannot_be_told_keeps_its_status():
    for arguments in (["bogus"], ["check", "gone.py"], ["check", ""]):
        process = start(arguments, "2> /dev/full")
        process.communicate(timeout=60)
        assert process.returncode == 2


def test_closed_streams_change_no_status():
    for arguments, status in ((["check", "model.py"], 1), (["rules"], 0), (["check", "gone.py"], 2)):
        process = start(arguments, ">&- 2>&-")
        assert process.communicate(timeout=60) == ("", "")
        assert process.returncode == status


def test_a_report_is_in_its_file_though_nobody_reads_the_table():
    unread(["report", "model.py", "--checks", "capture", "--output", "r.json"])
    assert [case["name"] for case in json.loads(Path("r.json").read_text())["cases"]] == ["model"]


def test_a_broken_pipe_that_is_not_the_output_is_an_internal_error(monkeypatch):
    def broken(*_: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("exportlint.cli.rule.predicted", broken)
    result = CliRunner().invoke(main, ["rules"])
    assert "exportlint itself failed: BrokenPipeError" in result.stderr
    assert result.exit_code == 2
