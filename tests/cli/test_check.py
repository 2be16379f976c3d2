"""``exportlint check``: options, formats and exit statuses."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from exportlint.cli.check import check
from exportlint.findings import MODES
from exportlint.rules import catalogue
from exportlint.rules.examples import example

if TYPE_CHECKING:
    from pathlib import Path

NET = """import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
{body}


def build():
    return Net()


def inputs():
    return (torch.ones(2, 4),)
"""
BRANCH = NET.format(body="        return x if x.sum() > 0 else -x")
DEVICE = NET.format(body="        return x + torch.arange(4)")
COUNTER = example("def forward(self, x):\n    self.calls += 1\n    return x * 2", init="self.calls = 0")
CLEAN = NET.format(body="        return x.relu()")


@pytest.fixture
def run(tmp_path: Path):
    def call(text: str, *options: str) -> Result:
        file = tmp_path / "model.py"
        file.write_text(text, encoding="utf-8")
        return CliRunner().invoke(check, [str(file), *options], catch_exceptions=False)

    return call


def test_text_shows_place_severity_code_and_name(run) -> None:
    result = run(BRANCH)
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert lines[0].startswith("error: EXP101 [!] branch-on-tensor: ")
    assert lines[1].endswith("model.py:7:21")
    assert lines[-4].startswith("help: Use torch.where")
    assert lines[-2:] == ["1 file checked, 1 error", "[!] 1 fixable with --fix --unsafe-fixes"]


def test_json_has_the_field_names_of_ruff_and_the_outcomes(run, tmp_path: Path) -> None:
    (found,) = json.loads(run(BRANCH, "--output-format", "json").output)
    assert found["code"] == "EXP101"
    assert found["rule"] == "branch-on-tensor"
    assert found["severity"] == "error"
    assert found["filename"] == str(tmp_path / "model.py")
    assert found["location"] == {"row": 7, "column": 21}
    assert found["end_location"] == {"row": 7, "column": 32}
    assert found["noqa_row"] == 7
    assert found["fix"]["applicability"] == "unsafe"
    (edit,) = found["fix"]["edits"]
    assert edit["content"] == "torch.where(x.sum() > 0, x, -x)"
    assert (edit["location"], edit["end_location"]) == ({"row": 7, "column": 16}, {"row": 7, "column": 40})
    assert found["url"] is None
    assert found["rewrite"].startswith("Use torch.where")
    assert list(found["outcomes"]) == list(MODES)
    assert "x.sum() > 0" in found["message"]


def test_a_clean_file_ends_with_status_0(run) -> None:
    result = run(CLEAN)
    assert (result.exit_code, result.output) == (0, "1 file checked, no findings\n")
    assert json.loads(run(CLEAN, "--output-format", "json").output) == []


@pytest.mark.parametrize(
    ("options", "status"),
    [((), 1), (("--fail-level", "error"), 0), (("--fail-level", "info"), 1), (("--mode", "compile"), 0)],
)
def test_the_status_depends_on_level_and_mode(run, options: tuple[str, ...], status: int) -> None:
    assert run(DEVICE, *options).exit_code == status


def test_severity_is_the_worst_of_the_modes(run) -> None:
    text = NET.format(body="        return x * int(x.sum())")
    assert run(text, "--mode", "compile", "--mode", "export-strict").exit_code == 0
    both = json.loads(run(text, "--mode", "compile", "--mode", "export", "--output-format", "json").output)
    assert [f["severity"] for f in both] == ["error"]


def test_bad_input_is_one_clear_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(check, [str(tmp_path / "missing")])
    assert result.exit_code == 2
    assert result.output == f"error: {tmp_path / 'missing'}: no such file or folder\n"
    assert CliRunner().invoke(check, [str(tmp_path), "--mode", "trace"]).exit_code == 2


def test_an_empty_folder_is_clean(tmp_path: Path) -> None:
    result = CliRunner().invoke(check, [str(tmp_path)])
    assert result.exit_code == 0
    assert result.stdout == "0 files checked, no findings\n"
    assert result.stderr == f"no Python files in {tmp_path}\n"


def test_each_folder_without_python_files_is_named(tmp_path: Path) -> None:
    for name in ("empty", "full"):
        (tmp_path / name).mkdir()
    for name in ("a.py", "b.py"):
        (tmp_path / "full" / name).write_text(CLEAN, encoding="utf-8")
    result = CliRunner().invoke(check, [str(tmp_path / "full"), str(tmp_path / "empty"), "--output-format", "json"])
    assert result.stderr == f"no Python files in {tmp_path / 'empty'}\n"
    assert json.loads(result.stdout) == []
    result = CliRunner().invoke(check, [str(tmp_path / "full"), str(tmp_path / "full" / "a.py")])
    assert (result.stdout, result.stderr) == ("2 files checked, no findings\n", "")


def test_advice_is_hidden_unless_asked_for_and_counts_from_level_info_on(run) -> None:
    hidden = run(COUNTER)
    assert (hidden.exit_code, hidden.output) == (0, "1 file checked, no findings (1 info hidden, see --show-info)\n")
    assert json.loads(run(COUNTER, "--output-format", "json").output) == []
    shown = run(COUNTER, "--show-info")
    assert shown.exit_code == 0
    assert shown.output.startswith("info: EXP501 python-state: `self.calls` counts calls")
    assert shown.output.endswith("1 file checked, 1 info\n")
    assert run(COUNTER, "--fail-level", "info").exit_code == 1
    assert run(COUNTER, "--fail-level", "info", "--mode", "compile").exit_code == 1


def test_advice_that_is_selected_by_name_is_shown(run) -> None:
    assert "info: EXP501" in run(COUNTER, "--select", "EXP501").output
    assert "info: EXP501" in run(COUNTER, "--extend-select", "python-state").output
    hidden = "1 file checked, no findings (1 info hidden, see --show-info)\n"
    assert run(COUNTER, "--select", "EXP5,state").output == hidden


def test_the_help_says_the_default_mode_and_what_compile_means() -> None:
    text = " ".join(CliRunner().invoke(check, ["--help"]).output.split())
    assert "compile: torch.compile(fullgraph=True). [default: export]" in text
    assert "Turn on rules that are not stable yet." in text


def test_a_syntax_error_is_a_finding_of_one_line(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("x = (\n", encoding="utf-8")
    result = CliRunner().invoke(check, [str(file)])
    assert result.exit_code == 1
    assert result.output.startswith("error: EXP001 invalid-syntax: ")
    assert "broken.py:1:5\n" in result.output
    assert f"Python {sys.version_info[0]}.{sys.version_info[1]} read it; code for a later one needs" in result.output


def test_a_module_base_can_be_given(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("from torch.hub import T\nclass N(T):\n    def forward(self, x):\n        assert x.relu().any()\n")
    assert CliRunner().invoke(check, [str(file)]).exit_code == 0
    assert CliRunner().invoke(check, [str(file), "--module-base", "torch.hub.T"]).exit_code == 1


def test_a_class_that_was_not_analysed_is_a_line_on_stderr(run, tmp_path: Path) -> None:
    text = "from torch import nn\nclass Deep(nn.Module):\n    def forward(self, x):\n        return "
    result = run(text + " if x.dim() else ".join(["x"] * 1000) + "\n", "--output-format", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == []
    line = f"{tmp_path / 'model.py'}: class Deep was not analysed: its code is nested too deeply\n"
    assert result.stderr == line


def test_rules_are_selected_and_misspelt_ones_get_a_suggestion(run) -> None:
    assert run(DEVICE, "--select", "EXP1").exit_code == 0
    assert run(DEVICE, "--select", "EXP1,devices").exit_code == 1
    assert run(DEVICE, "--ignore", "factory-without-device").exit_code == 0
    result = run(DEVICE, "--extend-select", "branch-on-tenser")
    assert result.exit_code == 2
    assert result.stderr == (
        "error: 'branch-on-tenser' is no rule, family of rules or beginning of a code; "
        "did you mean 'branch-on-tensor'?\n"
    )


def test_the_configuration_is_read_and_can_be_left_out(run, tmp_path: Path) -> None:
    (tmp_path / "exportlint.toml").write_text('fail-level = "error"\n')
    assert run(DEVICE).exit_code == 0
    assert run(DEVICE, "--isolated").exit_code == 1
    (tmp_path / "exportlint.toml").write_text("fail-level = 1\n")
    result = run(DEVICE)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"error: {tmp_path / 'exportlint.toml'}:1: fail-level must be a string, not 1\n"


def test_without_paths_the_working_directory_is_linted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.py").write_text(BRANCH)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(check, [])
    assert "--> model.py:7:21\n" in result.output
    assert CliRunner().invoke(check, ["--show-files"]).output == "model.py\n"


def test_exit_zero(run, tmp_path: Path) -> None:
    result = run(BRANCH, "--exit-zero")
    assert (result.exit_code, "EXP101" in result.output) == (0, True)
    assert CliRunner().invoke(check, [str(tmp_path / "gone"), "--exit-zero"]).exit_code == 2


def test_settings_have_options(run) -> None:
    text = NET.format(body="        return 1 if x else 0").replace("forward(self, x)", "encode(self, x: Image)")
    text = text.replace("class Net", "class Image: ...\n\n\nclass Net")
    assert run(text).exit_code == 0
    assert run(text, "--entry-point", "model.Net.encode").exit_code == 0
    assert run(text, "--entry-point", "*.encode", "--tensor-type", "model.Image").exit_code == 1
    power = NET.format(body="        return pow(x, 2)")
    assert run(power, "--mode", "compile").exit_code == 1
    assert run(power, "--mode", "compile", "--torch-version", "2.14").exit_code == 0


def test_a_rule_that_source_does_not_show_is_told(run) -> None:
    result = run(CLEAN, "--select", "EXP002,EXP1,EXP00,not-captured")
    assert result.exit_code == 0
    assert result.stderr == (
        "EXP002 is seen where a model is run (exportlint report, pytest), not in source\n"
        "not-captured is seen where a model is run (exportlint report, pytest), not in source\n"
    )


def test_a_rule_that_is_off_since_it_is_not_stable_is_told(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = {**catalogue(), "EXP101": dataclasses.replace(catalogue()["EXP101"], stage="preview")}
    monkeypatch.setattr("exportlint.rules.catalogue", lambda: early)
    result = run(CLEAN, "--select", "branch-on-tensor,EXP1")
    assert (result.exit_code, result.stderr) == (
        0,
        "branch-on-tensor is not stable yet and off; --preview turns it on\n",
    )
    assert run(CLEAN, "--select", "branch-on-tensor", "--preview").stderr == ""
    (tmp_path / "exportlint.toml").write_text("preview = true\n")
    assert run(CLEAN, "--select", "branch-on-tensor").stderr == ""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--select", " , "), "Error: Invalid value for '--select': it names nothing"),
        (("--tensor-type", "a b"), "error: tensor-types is wrong: 'a b' is no dotted name"),
        (("--module-base", "*.Base"), "error: module-bases is wrong: '*.Base' is no dotted name"),
        (("--entry-point", "*."), "error: entry-points is wrong: '*.' is no dotted name"),
        (("--exclude", "[a"), "error: exclude is wrong: '[a' is no pattern of what to leave out"),
        (("--torch-version", "two"), "error: torch-version is wrong: 'two' is no release of torch such as '2.13'"),
    ],
)
def test_an_option_that_means_nothing_is_told(run, options: tuple[str, ...], words: str) -> None:
    result = run(CLEAN, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith(f"{words}\n")
