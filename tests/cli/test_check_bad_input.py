"""``exportlint check`` on what nobody wants to have: huge, deep, unreadable and vanishing files, and rude ends."""

from __future__ import annotations

import importlib.util
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner
from commands import exportlint, wait_until

from exportlint.cli import main
from exportlint.cli.check import check
from exportlint.linting.linter import check_files, resolver_of
from exportlint.rules.examples import example
from exportlint.source import files

BRANCH = example("def forward(self, x):\n    return x if x.sum() > 0 else -x")
NET = """import torch
from torch import nn
class Net(nn.Module):
    def forward(self, x):
        {}
        return x
"""
ELIF = "if x.dim() == 0:\n            x = x\n" + "".join(
    f"        elif x.dim() == {i}:\n            x = x + {i}\n" for i in range(1, 500)
)
DEEP = {
    "parentheses": NET.format("x = " + "(" * 150 + "x" + ")" * 150),
    "brackets": NET.format("y = " + "[" * 90 + "1" + "]" * 90),
    "blocks": "".join(" " * i + "if True:\n" for i in range(90)) + " " * 90 + "x = 1\n",
    "functions": "".join(" " * i + "def f():\n" for i in range(90)) + " " * 90 + "x = 1\n",
    "sums": NET.format("x = " + " + ".join(["x"] * 1000)),
    "attributes": NET.format("y = x" + ".y" * 2000),
    "branches": NET.format(ELIF),
    "lambdas": "f = " + "lambda: " * 500 + "1\n",
    "negations": NET.format("y = " + "not " * 1000 + "x"),
    "strings": "y = (" + '"a"\n' * 20000 + ")\n",
}


def run(*arguments: str):
    return CliRunner().invoke(check, [*arguments, "--output-format", "concise", "--no-cache"])


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", DEEP)
def test_what_python_imports_is_no_invalid_syntax_however_deep(name: str) -> None:
    file = Path("deep.py")
    file.write_text(DEEP[name])
    assert importlib.util.spec_from_file_location("deep", file).loader.get_code("deep") is not None
    Path("other.py").write_text(BRANCH)
    result = run(".")
    assert result.exit_code == 1
    assert "EXP001" not in result.stdout
    assert "other.py:7:21: error: EXP101" in result.stdout
    known = {"", "deep.py: class Net was not analysed: its code is nested too deeply\n"}
    assert result.stderr in known


@pytest.mark.parametrize("head", ["", "class Table:\n", "def table(K):\n"])
def test_a_chain_of_many_branches_leaves_out_no_model_beside_it(head: str) -> None:
    blanks = "    " if head else ""
    arms = "".join(f"{blanks}elif K == {i}:\n{blanks}    V = {i}\n" for i in range(1500))
    file = Path("long.py")
    file.write_text(f"K = 3\n{head}{blanks}if K == -1:\n{blanks}    V = 0\n{arms}\n\n{BRANCH}")
    assert importlib.util.spec_from_file_location("long", file).loader.get_code("long") is not None
    result = run("long.py")
    assert (result.exit_code, result.stderr) == (1, "")
    assert "EXP101" in result.stdout


def test_what_is_too_deep_for_this_python_is_told_not_judged() -> None:
    Path("deep.py").write_text("x = " + " + ".join(["1"] * 50_000) + "\n")
    Path("uses.py").write_text(BRANCH.replace("import torch", "import torch\nfrom deep import x as y", 1))
    result = run(".")
    assert result.stderr == "deep.py: the file was not analysed: its code is nested too deeply\n"
    assert result.stdout.startswith("uses.py:8:21: error: EXP101")
    assert "\n2 files checked, 1 error, 1 not analysed\n" in result.stdout
    assert run("deep.py").exit_code == 0
    strict = run("deep.py", "--fail-unanalysed")
    assert (strict.exit_code, strict.stderr) == (1, result.stderr)
    assert run("deep.py", "--fail-unanalysed", "--exit-zero").exit_code == 0


def test_a_generated_file_of_50000_lines_is_linted_in_time() -> None:
    table = "".join(f"    'key{i}': ({i}, 'text', [1, 2, {i}]),\n" for i in range(40_000))
    functions = "".join(f"def f{i}(x):\n    y = x + {i}\n    return y\n\n\n" for i in range(2_000))
    Path("generated.py").write_text(BRANCH + f"\n\nTABLE = {{\n{table}}}\n\n\n{functions}")
    assert len(Path("generated.py").read_bytes().splitlines()) > 50_000
    begun = time.process_time()
    result = run("generated.py")
    assert "EXP101" in result.stdout
    assert result.stderr == ""
    assert time.process_time() - begun < 60  # a few seconds, unless something is quadratic


def test_a_class_of_thousands_of_lines_is_linted_in_time() -> None:
    body = "\n        ".join(f"x = x * {i} + 1" for i in range(5_000))
    Path("long.py").write_text(NET.format(body + "\n        x = x if x.sum() > 0 else -x"))
    begun = time.process_time()
    result = run("long.py")
    assert "EXP101" in result.stdout
    assert time.process_time() - begun < 60


def test_a_file_that_cannot_be_read_is_status_2_and_the_others_are_linted(monkeypatch: pytest.MonkeyPatch) -> None:
    real = files.content

    def refusing(path: str | Path) -> bytes:
        if Path(path).name == "secret.py":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(files, "content", refusing)
    for name in ("secret.py", "open.py"):
        Path(name).write_text(BRANCH)
    result = run(".")
    assert result.exit_code == 2
    assert "open.py:7:21: error: EXP101" in result.stdout
    assert result.stderr == "secret.py: the file was not analysed: it cannot be read: Permission denied\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_rights_is_status_2() -> None:
    Path("secret.py").write_text(BRANCH)
    Path("secret.py").chmod(0)
    assert run("secret.py").exit_code == 2


def test_a_file_that_vanishes_after_it_was_found() -> None:
    Path("gone.py").write_text(BRANCH)
    gone, resolver = Path("gone.py"), resolver_of()
    gone.unlink()
    checked = check_files([gone], resolver)
    assert checked.predictions == ()
    (told,) = checked.unanalysed
    assert told.is_unread
    assert "No such file or directory" in told.reason


def test_a_file_that_changes_while_it_is_read_is_one_or_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    real = files.content

    def changing(path: str | Path) -> bytes:
        data = real(path)
        Path(path).write_text("x = 1\n")
        return data

    Path("model.py").write_text(BRANCH)
    monkeypatch.setattr(files, "content", changing)
    for name in ("full", "sarif", "gitlab", "json"):
        Path("model.py").write_text(BRANCH)
        result = CliRunner().invoke(check, ["model.py", "--output-format", name, "--no-cache"])
        assert result.exit_code in (0, 1)
        assert result.stderr == ""


def test_a_fault_of_the_linter_is_told_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("nobody foresaw this")

    Path("model.py").write_text(BRANCH)
    monkeypatch.setattr("exportlint.linting.linter.check_files", broken)
    result = CliRunner().invoke(main, ["check", "model.py"])
    assert result.exit_code == 2
    assert result.stderr.startswith("error: exportlint itself failed: ValueError: nobody foresaw this (set ")


def _hears_interrupts() -> None:
    """A shell's jobs in the background ignore them, and so do those that they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupt_is_one_line_and_status_130(jobs: str) -> None:
    for i in range(150):
        body = "\n        ".join(f"x = x * {i} + {j}" for j in range(2_000))
        Path(f"long{i}.py").write_text(NET.format(body))
    command = [sys.executable, "-m", "exportlint", "check", "--no-cache", "--jobs", jobs]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=_hears_interrupts,  # noqa: PLW1509 - one thread
    )  # fmt: skip
    process = psutil.Process(running.pid)

    def spent() -> float:
        return sum(each.cpu_times().user for each in (process, *process.children(recursive=True)))

    wait_until(lambda: spent() > 1.2, 60, "the work did not begin")  # to begin takes half a second
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: every process of the run hears it
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, "")
    assert err == "exportlint: interrupted\n"


def test_two_runs_at_once_find_what_one_finds() -> None:
    for i in range(12):
        Path(f"model{i}.py").write_text(BRANCH)
    command = [sys.executable, "-m", "exportlint", "check", "--output-format", "concise"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    ended = [(*process.communicate(timeout=100), process.returncode) for process in running]
    assert len(set(ended)) == 1
    assert ended[0][0].count("EXP101") == 12
    assert (ended[0][1], ended[0][2]) == ("", 1)
    assert exportlint("check", "--output-format", "concise").out == ended[0][0]


def test_two_runs_that_write_comments_at_once_leave_whole_files() -> None:
    for i in range(12):
        Path(f"model{i}.py").write_text(BRANCH)
    command = [sys.executable, "-m", "exportlint", "check", "--add-ignores", "--no-cache"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    assert all(process.communicate(timeout=100)[1] == b"" for process in running)
    wanted = BRANCH.replace("else -x", "else -x  # exportlint: ignore[EXP101]")
    assert {file.read_text() for file in Path().glob("model*.py")} == {wanted}
    assert not list(Path().glob(".exportlint-*.tmp"))


def _fills_the_disk() -> None:
    """No file may grow; what the limit refuses is an error of the write, since Python ignores the signal."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def on_full_disk(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "exportlint", "check", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=100, preexec_fn=_fills_the_disk, check=False
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "written"),
    [
        (("--output-file", "out.json", "--output-format", "json"), "out.json"),
        (("--baseline", "known.json", "--update-baseline"), "known.json"),
        (("--fix", "--unsafe-fixes"), "model.py"),
        (("--add-ignores",), "model.py"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_full_disk_costs_no_file_and_is_one_line(options: tuple[str, ...], written: str) -> None:
    Path("model.py").write_text(BRANCH)
    Path("out.json").write_text("before")
    before = {file: file.read_text() for file in Path().iterdir()}
    ran = on_full_disk("model.py", "--no-cache", *options)
    assert (ran.returncode, "Traceback" in ran.stderr) == (2, False)
    assert [line for line in ran.stderr.splitlines() if line.startswith("error: ")] == [
        f"error: {written}: File too large"
    ]
    assert {file: file.read_text() for file in Path().iterdir()} == before


def test_a_cache_on_a_full_disk_changes_nothing_that_is_found() -> None:
    Path("model.py").write_text(BRANCH)
    options = ("--output-format", "concise", "--cache-dir", "cache")
    cold = on_full_disk("model.py", *options)
    assert (cold.returncode, cold.stderr) == (1, "")
    assert "EXP101" in cold.stdout
    assert [file for file in Path("cache").rglob("*") if file.is_file()] == []
    exportlint("check", "model.py", *options)
    kept = {file: file.read_bytes() for file in Path("cache").rglob("*.msgpack")}
    assert len(kept) == 2
    Path("model.py").write_text("\n" + BRANCH)
    after = on_full_disk("model.py", *options)
    assert (after.stdout, after.stderr) == (cold.stdout.replace("model.py:7:", "model.py:8:"), "")
    assert {file: file.read_bytes() for file in Path("cache").rglob("*") if file.suffix != ""} == kept


def test_links_that_lead_in_a_circle_are_no_files() -> None:
    Path("a.py").symlink_to("b.py")
    Path("b.py").symlink_to("a.py")
    Path("model.py").write_text(BRANCH)
    named = run("a.py")
    assert (named.exit_code, named.stderr) == (2, "error: a.py: no such file or folder\n")
    below = run(".")
    assert below.stdout.endswith("\n1 file checked, 1 error\n[!] 1 fixable with --fix --unsafe-fixes\n")


def test_a_folder_that_cannot_be_listed_is_status_2_and_the_others_are_linted(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir

    def refusing(path: str) -> object:
        if Path(path).name == "secret":
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    for folder in ("open", "secret", "empty"):
        Path(folder).mkdir()
        Path(folder, "model.py").write_text(BRANCH)
    Path("empty/model.py").unlink()
    monkeypatch.setattr(os, "scandir", refusing)
    for paths in ((".",), ("open", "secret")):
        result = run(*paths)
        assert (result.exit_code, "open/model.py:7:21: error: EXP101" in result.stdout) == (2, True)
        assert result.stderr == "secret: its files were not analysed: it cannot be read: Permission denied\n"
        assert "1 file checked, 1 error, 1 not analysed" in result.stdout
