"""``exportlint check -``: the text comes from standard input."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

import exportlint
from exportlint.cli.check import check
from exportlint.rules.examples import example

if TYPE_CHECKING:
    from pathlib import Path

BRANCH = example("def forward(self, x):\n    return x if x.sum() > 0 else -x")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def call(text: str | bytes, *options: str) -> Result:
        return CliRunner().invoke(check, ["-", *options], input=text)

    return call


def test_standard_input_is_linted_and_shown(run) -> None:
    result = run(BRANCH)
    assert result.exit_code == 1
    assert "--> <stdin>:" in result.output
    assert "^^^" in result.output
    assert run("x = 1\n").output == "1 file checked, no findings\n"
    assert run("").exit_code == 0


def test_the_name_decides_about_imports_and_settings(run, tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "helper.py").write_text("def positive(x):\n    return x.sum() > 0\n")
    (package / "model.py").write_text("x = 1\n")
    uses = BRANCH.replace("x.sum() > 0", "positive(x)").replace(
        "import torch", "import torch\nfrom .helper import positive", 1
    )
    (found,) = json.loads(run(uses, "--stdin-filename", "pkg/model.py", "--output-format", "json").output)
    assert (found["code"], found["filename"]) == ("EXP101", str(package / "model.py"))
    (tmp_path / "exportlint.toml").write_text('[per-file-ignores]\n"pkg/*" = ["EXP1"]\n')
    assert run(BRANCH, "--stdin-filename", "pkg/model.py").exit_code == 0
    assert run(BRANCH, "--stdin-filename", "model.py").exit_code == 1


def test_an_excluded_name_is_linted_unless_excludes_are_forced(run, tmp_path: Path) -> None:
    (tmp_path / "exportlint.toml").write_text('extend-exclude = ["third_party"]\n')
    assert run(BRANCH, "--stdin-filename", "third_party/model.py").exit_code == 1
    forced = run(BRANCH, "--stdin-filename", "third_party/model.py", "--force-exclude")
    assert (forced.exit_code, forced.output) == (0, "0 files checked, no findings\n")


@pytest.mark.parametrize("text", [BRANCH, "", "x = (\n"])
def test_the_text_of_an_excluded_file_is_printed_as_it_is(run, tmp_path: Path, text: str) -> None:
    (tmp_path / "exportlint.toml").write_text('extend-exclude = ["third_party"]\n')
    options = ("--stdin-filename", "third_party/model.py", "--force-exclude")
    result = run(text, *options, "--fix-only", "--unsafe-fixes")
    assert (result.exit_code, result.stdout) == (0, text)
    assert run(text, *options, "--diff").stdout == ""


def test_bytes_are_decoded_as_python_would(run) -> None:
    assert run(b"# coding: latin-1\n# \xe9\n" + BRANCH.encode()).exit_code == 1
    assert "EXP001" in run(b"x = '\xe9'\n").output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("other.py",), "-, which stands for standard input, goes with no other path"),
        (("--add-ignores",), "--add-ignores needs files, not standard input"),
    ],
)
def test_what_does_not_go_together_is_one_line(run, options: tuple[str, ...], words: str) -> None:
    result = run(BRANCH, *options)
    assert (result.exit_code, result.output) == (2, f"error: {words}\n")


def test_a_name_without_standard_input_is_one_line(run) -> None:
    result = CliRunner().invoke(check, [".", "--stdin-filename", "a.py"])
    assert (result.exit_code, result.output) == (
        2,
        "error: --stdin-filename goes with the path -, which stands for standard input\n",
    )


@pytest.mark.parametrize(
    ("shell", "words"),
    [("<&-", "standard input is closed"), ("0> out", "standard input cannot be read: Bad file descriptor")],
)
def test_what_cannot_be_read_is_one_line(tmp_path: Path, shell: str, words: str) -> None:
    command = ["sh", "-c", f'exec "$@" {shell}', "sh", sys.executable, "-m", "exportlint", "check", "-"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {words}\n")


@pytest.mark.parametrize("source", [None, 1, ["x = 1"], bytearray(b"x = 1"), bytes])
def test_what_is_no_text_is_refused_from_python(source: object) -> None:
    with pytest.raises(TypeError, match=r"source must be str or bytes, not \w+"):
        exportlint.check_source(source)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["no", 1, None, ()])
def test_isolated_is_yes_or_no(value: object) -> None:
    with pytest.raises(TypeError, match=r"isolated must be a bool, not \w+"):
        exportlint.check_source("x = 1\n", isolated=value)
    with pytest.raises(TypeError, match="isolated must be a bool"):
        exportlint.check_paths([], isolated=value)


def test_the_same_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for source in (BRANCH, BRANCH.encode(), "# coding: latin-1\n# é\n" + BRANCH):
        (found,) = exportlint.check_source(source, "model.py")
        assert (found.rule.code, found.severity, found.path.name) == ("EXP101", "error", "model.py")
    assert exportlint.check_source(BRANCH, select=["EXP2"]) == ()
