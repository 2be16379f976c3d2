"""Paths of the command line that a shell left empty."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from exportlint.cli import main
from exportlint.zoo.__main__ import check_models


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", ""],
        ["check", "model.py", ""],
        ["check", "--config", ""],
        ["check", "--output-file", ""],
        ["check", "--baseline", ""],
        ["check", "--cache-dir", ""],
        ["check", "-", "--stdin-filename", ""],
        ["config", ""],
        ["config", "--config", ""],
        ["report", "model.py", "--output", ""],
    ],
)
def test_an_empty_path_is_a_usage_error_and_never_the_working_directory(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text("x = 1\n")
    assert_refused(CliRunner().invoke(main, arguments))


@pytest.mark.parametrize("command", ["check", "report"])
def test_a_folder_for_what_is_kept_that_is_a_file_is_a_usage_error(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text("x = 1\n")
    result = CliRunner().invoke(main, [command, "model.py", "--cache-dir", "model.py"])
    assert result.exit_code == 2
    assert result.stderr.startswith("error: Invalid value for '--cache-dir': 'model.py' is no folder")
    assert len(result.stderr.splitlines()) == 1
    assert (tmp_path / "model.py").read_text() == "x = 1\n"


def test_an_empty_list_of_models_is_one_too():
    assert_refused(CliRunner().invoke(check_models, ["--list", "", "--output", "lines.jsonl"]))


def assert_refused(result):
    assert result.exit_code == 2
    assert "an empty path names no" in result.stderr
    assert result.stderr.lower().count("error: invalid value for ") == 1
    assert result.stdout == ""


def test_an_empty_target_is_one_line_and_status_2(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["report", ""])
    assert result.exit_code == 2
    assert "'' is no target" in result.stdout
