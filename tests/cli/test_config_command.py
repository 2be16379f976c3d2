"""``exportlint config``: the settings of a path, and where each was set."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from exportlint.cli.config import config

if TYPE_CHECKING:
    from pathlib import Path


def test_every_setting_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "exportlint.toml").write_text('select = ["EXP1"]\nmodes = ["compile"]\n')
    (tmp_path / "model.py").write_text("")
    result = CliRunner().invoke(config, ["model.py", "--ignore", "EXP101", "--show-info"])
    lines = {line.partition(" = ")[0]: " ".join(line.split()) for line in result.output.splitlines()}
    assert lines["select"] == 'select = ["EXP1"] # exportlint.toml:1'
    assert lines["ignore"] == 'ignore = ["EXP101"] # command line'
    assert lines["modes"] == 'modes = ["compile"] # exportlint.toml:2'
    assert lines["show-info"] == "show-info = true # command line"
    assert lines["fail-level"] == 'fail-level = "warning" # default'
    assert lines["rules"].startswith('rules = ["EXP001", "EXP102", "EXP103"] # ')
    found = json.loads(CliRunner().invoke(config, ["--output-format", "json"]).output)
    assert found["modes"] == {"value": ["compile"], "from": "exportlint.toml:2"}
    assert found["torch-version"] == {"value": None, "from": "default"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--config", "gone.toml"], "--config gone.toml: no such file"),
        (["--config", "."], "--config .: is a folder"),
        (
            ["--config", "x.toml", "--isolated"],
            "--config x.toml: --isolated reads no configuration; leave one of them out",
        ),
        (["gone"], "gone: no such file or folder"),
        (["--select", "EXPO"], "'EXPO' is no rule, family of rules or beginning of a code; exportlint rules"),
        (["--torch-version", "new"], "torch-version is wrong: 'new' is no release of torch such as '2.13'"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(config, arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {words}")
    assert result.stderr.count("\n") == 1
