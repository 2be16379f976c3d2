"""The committed report of the zoo, and the script that writes it from the rows of a run."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from exportlint.report import markdown, read

ROOT = Path(__file__).parent.parent.parent
COMMITTED = ROOT / "docs" / "zoo" / "readiness.json.gz"
SITE = "/home/someone/venv/lib/python3.11/site-packages"
VERSIONS = {"exportlint": "0.1.0", "python": "3.11.7", "torch": "2.14.1", "timm": "1.0.31"}
BRANCH = {
    "rule": "EXP101",
    "severity": "error",
    "message": "Python asks for the truth value of a tensor",
    "file": f"{SITE}/timm/models/a.py",
    "line": 7,
    "end_line": 7,
    "source": "if x.sum():",
    "rewrite": None,
    "evidence": f'File "{SITE}/torch/x.py", in a; {ROOT}/exportlint/checks/jobs.py; /tmp/exportlint-ab12/m.pt2',
    "verdict": None,
}


def row(model, outcome="passed", *, findings=(), torch="2.14.1", stack=None, notes=(), error=None):
    check = {"name": "capture", "outcome": outcome, "seconds": 61.0, "findings": list(findings), "notes": list(notes)}
    case = None if error else {"name": model, "target": model, "checks": [{**check, "stack": stack}]}
    settings = {"checks": ["capture"], "devices": ["second"], "timeout": 100.0}
    versions = {**VERSIONS, "torch": torch}
    date = "2026-01-02T03:04:05+00:00"
    return {
        "model": model, "seconds": 70.0, "settings": settings, "versions": versions, "date": date,
        "case": case, "error": error,
    }  # fmt: skip


def write(folder, *rows, arguments=()):
    (folder / "rows.jsonl").write_text("".join(json.dumps(found) + "\n" for found in rows))
    command = [sys.executable, ROOT / "benchmarks" / "zoo_readiness.py", "rows.jsonl", "--folder", ".", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_rows_become_a_report_of_one_torch_without_paths_of_the_machine(tmp_path):
    ran = write(
        tmp_path,
        row("timm:b", "failed"),
        row("timm:old", torch="2.13.0"),
        row("timm:a", "failed", findings=[BRANCH], stack=f"{SITE}/x.py"),
        row("timm:b"),
        row("timm:c", error="timm has no model 'c'"),
    )
    assert ran.returncode == 0, ran.stderr
    assert "1 of 5 results are of another torch than 2.14.1: left out" in ran.stdout
    run = read(tmp_path / "readiness.json.gz")
    assert [(case.name, case.checks[0].outcome) for case in run.cases] == [("timm:a", "failed"), ("timm:b", "passed")]
    assert (run.environment.torch, run.environment.packages) == ("2.14.1", ("timm 1.0.31",))
    assert run.errors[0].target == "timm:c"
    (found,) = run.cases[0].checks[0].findings
    assert found.file == "site-packages/timm/models/a.py"
    assert found.evidence == 'File "site-packages/torch/x.py", in a; exportlint/checks/jobs.py; FOLDER/m.pt2'
    text = (tmp_path / "readiness.md").read_text()
    assert text == markdown.render(run)
    assert "| timm:b | ✅ passed | 1 min 1 s |" in text
    assert SITE not in gzip.decompress((tmp_path / "readiness.json.gz").read_bytes()).decode() + text


def test_the_same_rows_give_the_same_bytes(tmp_path):
    rows = row("timm:a"), row("timm:b")
    write(tmp_path, *rows)
    first = (tmp_path / "readiness.json.gz").read_bytes()
    write(tmp_path, *reversed(rows))
    assert (tmp_path / "readiness.json.gz").read_bytes() == first


@pytest.mark.parametrize("path", ["/home/someone/models/x.py", "at /tmp/abc", "(/root/y)", "[/usr/share/z"])
def test_where_a_path_is_left_nothing_is_written(tmp_path, path):
    ran = write(tmp_path, row("timm:a", notes=[path]))
    assert ran.returncode == 1
    assert "paths of this machine are left, such as /" in ran.stderr
    assert not list(tmp_path.glob("readiness*"))


def test_another_torch_may_be_asked_for(tmp_path):
    rows = row("timm:a", torch="2.13.0"), row("timm:b")
    assert write(tmp_path, *rows, arguments=["--torch", "2.13.0"]).returncode == 0
    assert [case.name for case in read(tmp_path / "readiness.json.gz").cases] == ["timm:a"]
    assert write(tmp_path, *rows, arguments=["--torch", "any"]).returncode == 0
    found = read(tmp_path / "readiness.json.gz").environment
    assert (found.torch, found.isolation) == (
        "2.13.0, 2.14.1",
        "server; 1 model with torch 2.13.0; 1 model with torch 2.14.1",
    )
    ran = write(tmp_path, *rows, arguments=["--torch", "2.12"])
    assert (ran.returncode, ran.stderr.strip()) == (1, "no result is of torch 2.12")


@pytest.mark.skipif(not COMMITTED.is_file(), reason="the report of the zoo is not committed yet")
def test_the_committed_page_is_that_of_the_committed_data():
    assert COMMITTED.with_name("readiness.md").read_text(encoding="utf-8") == markdown.render(read(COMMITTED))
