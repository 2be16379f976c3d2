from __future__ import annotations

import json
import subprocess
import sys

import pytest
from commands import ROOT

from exportlint.checks.runner import Options
from exportlint.zoo import run as zoo_run
from exportlint.zoo.run import Lines, Record, alone, versions

SETTINGS = {"checks": ["capture"], "devices": ["second"], "timeout": 120.0}


def record(model, **changes):
    return Record(model, 1.0, SETTINGS, versions(), "d", case={"name": model, "target": model, "checks": []}, **changes)


def zoo(*arguments, cwd):
    command = [sys.executable, "-m", "exportlint.zoo", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=300)


def test_what_was_written_is_done_for_the_same_settings_and_versions_only(tmp_path):
    lines = Lines(tmp_path / "r.jsonl")
    lines.add(record("hf:bert"))
    again = Lines(tmp_path / "r.jsonl")
    assert again.done(SETTINGS, versions()) == {"hf:bert"}
    assert again.done({**SETTINGS, "checks": ["device"]}, versions()) == set()
    assert again.done(SETTINGS, {**versions(), "torch": "0"}) == set()


def test_a_model_that_could_not_be_checked_is_tried_again(tmp_path):
    lines = Lines(tmp_path / "r.jsonl")
    lines.add(Record("hf:bert", 1.0, SETTINGS, versions(), "d", error="the worker server could not be started"))
    assert Lines(tmp_path / "r.jsonl").done(SETTINGS, versions()) == set()


def test_an_error_is_written_once(tmp_path):
    path = tmp_path / "r.jsonl"
    for error in ("there is no model 'x'", "there is no model 'x'", "the worker server could not be started"):
        for date in ("d", "e"):
            Lines(path).add(Record("hf:x", 1.0, SETTINGS, versions(), date, error=error))
    lines = Lines(path)
    lines.add(Record("hf:y", 1.0, SETTINGS, versions(), "d", error="there is no model 'x'"))
    lines.add(Record("hf:y", 2.0, SETTINGS, versions(), "d", error="there is no model 'x'"))
    assert [(r["model"], r["error"]) for r in Lines(path).records] == [
        ("hf:x", "there is no model 'x'"),
        ("hf:x", "the worker server could not be started"),
        ("hf:y", "there is no model 'x'"),
    ]


def test_a_line_that_a_killed_run_left_unfinished_is_dropped(tmp_path):
    path = tmp_path / "r.jsonl"
    Lines(path).add(record("hf:bert"))
    with path.open("a") as file:
        file.write('{"model": "hf:vi')
    assert [r["model"] for r in Lines(path).records] == ["hf:bert"]
    Lines(path).add(record("hf:vit"))
    assert [json.loads(line)["model"] for line in path.read_text().splitlines()] == ["hf:bert", "hf:vit"]


@pytest.mark.parametrize("text", ["nothing\n", "[1]\n", '{"no": "model"}\n'])
def test_a_file_that_holds_something_else_is_refused_and_kept(tmp_path, text):
    path = tmp_path / "r.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"r\.jsonl:1 is no result of the zoo"):
        Lines(path)
    assert path.read_text() == text


def test_models_that_are_done_are_skipped(tmp_path, monkeypatch):
    checked = []
    monkeypatch.setattr(zoo_run, "_check", lambda _, model, *__: checked.append(model) or record(model))
    options = Options(checks=("capture",), timeout=120.0)
    said = []
    for _ in range(2):
        zoo_run.run(["hf:bert", "hf:vit"], options, Lines(tmp_path / "r.jsonl"), said.append)
    assert checked == ["hf:bert", "hf:vit"]
    assert [words for words in said if "to check" in words] == [
        "2 models to check, 0 done",
        "0 models to check, 2 done",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no model is named"),
        (["bert"], "'bert' is no model: write one of hf:NAME, timm:NAME, torchvision:NAME"),
        (["--list", "missing.txt"], "error: missing.txt: No such file or directory"),
        (["--list", "folder"], "error: folder: Is a directory"),
        (["--list", "latin.txt"], "error: latin.txt:2 is not UTF-8"),
        (["--list", "bad.txt"], "error: bad.txt:3: 'bert' is no model: write one of hf:NAME"),
        (["--list", "none.txt"], "error: none.txt:2: transformers has no model that matches 'zzz*'"),
        (["hf:bert", "-o", "missing/z.jsonl"], "error: missing/z.jsonl: there is no folder missing"),
        (["hf:bert", "-o", "y.pdf"], "error: y.pdf: the suffix must be one of .jsonl"),
        (["hf:bert", "-o", "folder.jsonl"], "error: folder.jsonl is a folder"),
        (["--lits", "bad.txt"], "error: No such option '--lits'"),
        (["hf:bert", "--jobs", "none"], "error: Invalid value for '--jobs' / '-j': 'none' is not a valid integer"),
        (["hf:bert", "--checks", "none"], "error: Invalid value for '--checks'"),
    ],
)
def test_bad_input_is_one_line_and_status_2(tmp_path, arguments, words):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "latin.txt").write_bytes(b"hf:bert\nhf:\xe9\n")
    (tmp_path / "bad.txt").write_text("# models\nhf:bert\nbert  # no source\n")
    (tmp_path / "none.txt").write_text("hf:bert\nhf:zzz*\n")
    ran = zoo("run", "--output", "r.jsonl", *arguments, cwd=tmp_path)
    assert ran.returncode == 2
    assert words in ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "r.jsonl").exists()


def test_a_command_that_there_is_not_is_one_line_too(tmp_path):
    ran = zoo("rnu", cwd=tmp_path)
    assert (ran.returncode, len(ran.stderr.strip().splitlines())) == (2, 1)
    assert ran.stderr.startswith("error: No such command 'rnu'")


def test_a_second_run_into_one_file_is_refused(tmp_path):
    path = tmp_path / "r.jsonl"
    Lines(path).add(record("hf:bert"))
    with alone(path):
        ran = zoo("run", "hf:bert", "-o", "r.jsonl", cwd=tmp_path)
        assert (ran.returncode, ran.stderr) == (2, "error: r.jsonl: another run of the same is writing it\n")
        assert len(Lines(path).records) == 1
    with alone(path):
        assert path.exists()


def test_a_run_that_found_nothing_leaves_no_file(tmp_path):
    with pytest.raises(ZeroDivisionError), alone(tmp_path / "r.jsonl"):
        raise ZeroDivisionError
    assert not (tmp_path / "r.jsonl").exists()


@pytest.mark.slow
def test_a_run_writes_a_line_a_model_and_the_table_shows_them(tmp_path):
    (tmp_path / "models.txt").write_text("# a comment\nhf:gpt2  # small\nhf:led\nhf:bret\n")
    ran = zoo("run", "--list", "models.txt", "--checks", "capture", "-o", "r.jsonl", cwd=tmp_path)
    assert ran.returncode == 2, ran.stderr  # one of the names stands for nothing
    records = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert [r["model"] for r in records] == ["hf:gpt2", "hf:led", "hf:bret"]
    assert [r["case"]["checks"][0]["outcome"] for r in records[:2]] == ["passed", "failed"]
    assert records[2]["error"].startswith("transformers has no model 'bret'")
    command = [sys.executable, ROOT / "benchmarks" / "zoo.py", "r.jsonl", "--output", "zoo.md"]
    subprocess.run(command, cwd=tmp_path, check=True)
    table = (tmp_path / "zoo.md").read_text()
    assert "Built and run in eager: 2 of 3 (hf: 2 of 3)." in table
    assert "| EXP101 | transformers/models/led/modeling_led.py:" in table
    assert "[led_branch_on_tensor.py](../../fixtures/found/led_branch_on_tensor.py)" in table
    assert "| hf:bret | transformers has no model 'bret'" in table


@pytest.mark.parametrize(("given", "memory"), [((), 10.0), (("--memory", "6", "--jobs", "2"), 3.0)])
def test_memory_is_shared_by_the_models_checked_at_once(tmp_path, monkeypatch, given, memory):
    from click.testing import CliRunner

    from exportlint.zoo.__main__ import main

    asked = []
    monkeypatch.setattr("exportlint.zoo.run.run", lambda targets, options, *_: asked.append(options.memory) or 0)
    result = CliRunner().invoke(main, ["run", "hf:bert", "--output", str(tmp_path / "rows.jsonl"), *given])
    assert (result.exit_code, asked) == (0, [memory])


@pytest.mark.parametrize("amount", ["nan", "inf", "0"])
def test_an_amount_of_memory_that_is_none_is_an_error(tmp_path, amount):
    from click.testing import CliRunner

    from exportlint.zoo.__main__ import main

    result = CliRunner().invoke(main, ["run", "hf:bert", "--output", str(tmp_path / "rows.jsonl"), "--memory", amount])
    assert result.exit_code == 2
    assert "is not in the range" in result.output
