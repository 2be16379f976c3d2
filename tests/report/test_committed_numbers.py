"""The numbers of the README that come from committed reports."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest
from readiness_samples import measured, sample, shared

from exportlint.report import read

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        yield importlib.import_module("score_card")
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


def test_the_readme_says_what_the_committed_reports_say(script):
    text = script.README.read_text(encoding="utf-8")
    zoo = read(script.ZOO) if script.ZOO.is_file() else None
    assert script.in_place(text, script.block(read(script.KEPT), zoo)) == text


def test_the_committed_cases_are_cases_of_the_fixtures(script):
    labels = [json.loads(file.read_text()) for file in (ROOT / "fixtures" / "cases").glob("*/labels.json")]
    files = {label["file"] for found in labels for label in found}
    checked = {Path(case.target.partition(":")[0]).name for case in read(script.KEPT).cases}
    assert checked
    assert checked <= files


def test_the_block_counts_lines_and_models(script):
    text = script.block(shared(), sample())
    assert "| 1 | 0 | 0 | 0 | 100 % | 100 % |" in text
    assert "[The zoo](docs/zoo/readiness.md): 4 models of libraries" in text
    assert "| `capture` | 1 | 2 | 0 |" in text  # an expected failure is neither red nor not checked
    assert "The zoo" not in script.block(shared(), None)


def test_marks_that_are_missing_are_told(script):
    with pytest.raises(SystemExit, match="lacks the marks"):
        script.in_place("no marks", "x")


def test_a_run_is_kept_without_paths_of_the_machine(script, tmp_path):
    found = importlib.import_module("portable_report")
    run = found.portable(measured())
    assert found.write(run, tmp_path / "r.json.gz") == (tmp_path / "r.json.gz").stat().st_size
    assert read(tmp_path / "r.json.gz") == run
