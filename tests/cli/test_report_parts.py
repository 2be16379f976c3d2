"""`exportlint report` over several machines, after a stop, and beside an earlier run."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from commands import Ran, exportlint, wait_until

if TYPE_CHECKING:
    from pathlib import Path

CASES = """
import torch
from exportlint import ModelCase

class Branch(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x

def linear(name):
    return ModelCase(lambda: torch.nn.Linear(2, 2), (torch.ones(2, 2),), name=name)

first, last = linear("first"), linear("last")
branch = ModelCase(Branch, (torch.ones(2, 2),), name="branch")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("parts")
    (path / "cases.py").write_text(CASES)
    return path


def report(folder: Path, *arguments: str, name: str = "r.json") -> tuple[Ran, dict[str, Any]]:
    ran = exportlint("report", "cases.py", "--checks", "capture", "--output", name, *arguments, cwd=folder)
    return ran, json.loads((folder / name).read_text()) if (folder / name).is_file() else {}


def plain(data: dict[str, Any]) -> list[Any]:
    """The cases without what no two runs have in common."""
    return [
        (case["name"], case["target"], [{**c, "seconds": 0, "cached": False, "stack": None} for c in case["checks"]])
        for case in data["cases"]
    ]


@pytest.fixture(scope="module")
def whole(folder) -> dict[str, Any]:
    ran, data = report(folder, name="whole.json")
    assert ran.status == 1
    return data


def test_the_parts_put_together_are_the_whole(folder, whole):
    for part in ("1/2", "2/2"):
        _, data = report(folder, "--shard", part, name=f"part{part[0]}.json")
        assert data["environment"]["shard"] == part
    ran = exportlint("report", "merge", "part2.json", "part1.json", "-o", "all.json", "-o", "all.md", cwd=folder)
    assert ran.status == 1
    assert "wrote all.json" in ran.out
    assert plain(json.loads((folder / "all.json").read_text())) == plain(whole)
    assert "| branch |" in (folder / "all.md").read_text()
    alone = exportlint("report", "merge", "part1.json", "-o", "alone.json", cwd=folder)
    assert (alone.status, alone.err) == (2, "error: part 2/2 is missing\n")
    assert not (folder / "alone.json").exists()


def test_what_changed_between_two_runs(folder, whole):
    better = json.loads(json.dumps(whole))
    for case in better["cases"]:
        case["checks"] = [{**check, "outcome": "passed", "findings": [], "reason": None} for check in case["checks"]]
    (folder / "better.json").write_text(json.dumps(better))
    worse = exportlint("report", "diff", "better.json", "whole.json", cwd=folder)
    assert worse.status == 1
    assert worse.out.splitlines()[:2] == ["regressions", "  branch  capture  failed: EXP101 at cases.py:7"]
    mended = exportlint("report", "diff", "whole.json", "better.json", "--output-format", "json", cwd=folder)
    assert mended.status == 0
    assert [change["case"] for change in json.loads(mended.out)["mended"]] == ["branch"]
    markdown = exportlint("report", "diff", "whole.json", "whole.json", "--output-format", "markdown", cwd=folder)
    assert (markdown.status, markdown.out) == (0, "# Export readiness: what changed\n\n✅ nothing changed\n")


def test_with_a_baseline_only_what_got_worse_fails(folder, whole):
    known, _ = report(folder, "--baseline", "whole.json")
    assert (known.status, known.err) == (0, "")
    assert known.out.splitlines()[-2] == "since the run before: nothing changed"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file or directory"),
        ("{", "not JSON: "),
        ("[]", "not a readiness file"),
        ('{"schema_version": 99}', "schema version 99 is not the one that can be read"),
    ],
)
@pytest.mark.parametrize("command", ["baseline", "merge", "diff"])
def test_files_that_hold_no_run(folder, whole, content, words, command):
    file = folder / f"bad-{command}.json"
    file.unlink(missing_ok=True)
    if content is not None:
        file.write_text(content)
    arguments = {
        "baseline": ("cases.py", "--baseline", file.name),
        "merge": ("merge", "whole.json", file.name, "-o", "never.json"),
        "diff": ("diff", "whole.json", file.name),
    }[command]
    ran = exportlint("report", *arguments, cwd=folder)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {file.name}: {words}")
    assert ran.err.count("\n") == 1
    assert not (folder / "never.json").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--shard", "3/2"), "'3/2' is no part of a run: write 1/3"),
        (("--fail-on", "regression"), "--fail-on regression needs --baseline"),
        (("--executor", "dask"), "'dask' is no executor: write ray, or ray:ADDRESS"),
        (("--executor", "ray", "--jobs", "2"), "--jobs does not go with --executor"),
        (("--case-cpus", "2"), "--case-cpus goes with --executor only"),
        (("--case-memory", "1.5"), "--case-memory goes with --executor only"),
        (("--executor", "ray", "--isolation", "fork"), "--isolation fork does not go with --executor"),
        (("--resume", "--no-cache"), "--resume needs what --no-cache does not keep"),
    ],
)
def test_options_that_do_not_fit(folder, arguments, words):
    ran, _ = report(folder, *arguments, name="unfit.json")
    assert ran.status == 2
    assert words in ran.err
    assert not (folder / "unfit.json").exists()


def stopped(folder: Path, moment: float | None) -> None:
    """Start the run and kill it: after some seconds, or once a first result is kept."""
    command = [sys.executable, "-m", "exportlint", "report", "cases.py", "--checks", "capture", "-o", "r.json"]
    process = subprocess.Popen(
        [*command, "--resume"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    kept = folder / ".exportlint_cache" / "unfinished"
    try:
        if moment is None:
            wait_until(lambda: any(file.stat().st_size for file in kept.glob("*.jsonl")), 60, "nothing is kept")
        else:
            time.sleep(moment)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_killed_run_goes_on_where_it_was(whole, tmp_path):
    (tmp_path / "cases.py").write_text(CASES)
    stopped(tmp_path, None)
    assert not (tmp_path / "r.json").exists()
    ran, data = report(tmp_path, "--resume")
    assert ran.status == 1
    assert plain(data) == plain(whole)
    assert list((tmp_path / ".exportlint_cache" / "unfinished").iterdir()) == []


@pytest.mark.slow
def test_a_run_that_is_killed_at_any_moment_ends_with_the_same_report(whole, tmp_path):
    (tmp_path / "cases.py").write_text(CASES)
    moments = random.Random(0)
    for _ in range(10):
        stopped(tmp_path, moments.uniform(0.2, 8))
    ran, data = report(tmp_path, "--resume")
    assert ran.status == 1
    assert plain(data) == plain(whole)


@pytest.mark.slow
def test_a_run_that_was_stopped_is_told_of(tmp_path):
    (tmp_path / "cases.py").write_text(CASES)
    stopped(tmp_path, None)
    ran, _ = report(tmp_path)
    assert "this run was stopped earlier, after 1 case: --resume would go on there" in ran.err


def test_verdicts_are_kept_between_runs(folder, whole):
    again, data = report(folder, name="again.json")
    assert "; 3 verdicts kept from an earlier run" in again.out
    assert all(check["cached"] for case in data["cases"] for check in case["checks"])
    assert plain(data) == plain(whole)


@pytest.mark.slow
def test_verdicts_are_not_kept_where_nobody_wants_that_and_not_of_another_source(folder, whole, tmp_path):
    without, _ = report(folder, "--no-cache")
    assert "kept from an earlier run" not in without.out
    (tmp_path / "cases.py").write_text(CASES)
    report(tmp_path)
    (tmp_path / "cases.py").write_text(CASES.replace("> 0", "> 1"))
    changed, _ = report(tmp_path)
    assert "kept from an earlier run" not in changed.out
