"""``exportlint check`` where a configuration means nothing: only the files that it governs are refused."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from exportlint.cli.check import check
from exportlint.config import ConfigError
from exportlint.linting.linter import check_paths
from exportlint.rules.examples import example

BRANCH = example("def forward(self, x):\n    return x if x.sum() > 0 else -x")
FOUND = ":7:21: error: EXP101 [!] branch-on-tensor: "


@pytest.fixture(autouse=True)
def _tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two projects, of which one has a broken configuration; below that, one that is sound again."""
    monkeypatch.chdir(tmp_path)
    for file in ("good/a.py", "bad/b.py", "bad/deep/c.py", "bad/deep/sound/d.py", "bad/build/e.py"):
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(BRANCH)
    Path("bad/exportlint.toml").write_text("selct = []\n")
    Path("bad/deep/sound/exportlint.toml").write_text('fail-level = "warning"\n')


def run(*arguments: str, form: str = "concise") -> Result:
    return CliRunner().invoke(check, [*arguments, "--output-format", form], catch_exceptions=False)


def wrong() -> str:
    return f"{Path('bad/exportlint.toml').absolute()}:1: selct is not known; did you mean 'select'?"


def refusal(what: str) -> str:
    return f"{what} not analysed: the settings cannot be read: {wrong()}\n"


@pytest.mark.parametrize("options", [(), ("--no-cache",)])
def test_a_broken_configuration_of_the_working_directory_says_nothing_of_files_elsewhere(
    monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.chdir("bad")
    result = run("../good", *options)
    assert (result.exit_code, result.stderr) == (1, "")
    assert f"a.py{FOUND}" in result.stdout
    assert not list(Path().rglob(".exportlint_cache"))  # nobody knows where it should lie


def test_the_others_are_linted_and_the_status_is_2() -> None:
    result = run(".")
    assert (result.exit_code, result.stderr) == (2, refusal("bad: 2 files were"))
    assert [line.partition(FOUND)[0] for line in result.stdout.splitlines()[:2]] == ["bad/deep/sound/d.py", "good/a.py"]
    assert "\n2 files checked, 2 errors, 2 not analysed\n" in result.stdout
    assert run(".", "--exit-zero").exit_code == 2


def test_a_named_file_is_refused_alone() -> None:
    result = run("bad/b.py", "good/a.py")
    assert (result.exit_code, result.stderr) == (2, refusal("bad/b.py: the file was"))
    assert f"good/a.py{FOUND}" in result.stdout


def test_where_all_are_refused_that_is_one_line() -> None:
    for paths in (("bad/b.py",), ("bad/b.py", "bad/deep/c.py")):
        result = run(*paths)
        assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"error: {wrong()}\n")


def test_a_folder_without_files_is_refused_nothing() -> None:
    for file in ("bad/b.py", "bad/deep/c.py"):
        Path(file).unlink()
    assert (run(".").exit_code, run(".").stderr) == (1, "")


@pytest.mark.parametrize(
    "options", [("--diff",), ("--fix-only",), ("--fix", "--select", "EXP2"), ("--add-ignores",), ("--statistics",)]
)
def test_it_is_told_whatever_is_done(options: tuple[str, ...]) -> None:
    result = run(".", *options)
    assert result.exit_code == 2
    assert result.stderr.count(refusal("bad: 2 files were")) == 1


def test_the_files_that_would_be_linted_are_shown() -> None:
    result = run(".", "--show-files")
    assert (result.exit_code, result.stderr) == (2, refusal("bad: 2 files were"))
    assert result.stdout == "bad/deep/sound/d.py\ngood/a.py\n"


def test_formats_tell_it() -> None:
    words = refusal("bad: 2 files were").strip()
    (invocation,) = json.loads(run(".", form="sarif").stdout)["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    assert [n["message"]["text"] for n in invocation["toolExecutionNotifications"]] == [words]
    assert f"::error title=exportlint::{words}\n" in run(".", form="github").stdout
    root = ET.fromstring(run(".", form="junit").stdout)
    assert [error.get("message") for error in root.iter("error")] == [words]


def test_a_file_without_an_end_of_its_string_is_refused_too() -> None:
    Path("bad/exportlint.toml").unlink()
    Path("bad/pyproject.toml").write_text('[tool.exportlint]\nselect = ["EXP1]\n')
    result = run(".")
    assert result.exit_code == 2
    assert result.stderr.startswith("bad: 2 files were not analysed: the settings cannot be read: ")
    assert f"{Path('bad/pyproject.toml').absolute()} is no TOML: " in result.stderr
    assert f"good/a.py{FOUND}" in result.stdout


def test_a_baseline_forgets_nothing_of_files_that_were_refused() -> None:
    Path("bad/exportlint.toml").rename("aside.toml")
    assert run(".", "--baseline", "known.json", "--update-baseline").exit_code == 0
    before = Path("known.json").read_text()
    Path("aside.toml").rename("bad/exportlint.toml")
    result = run(".", "--baseline", "known.json", "--update-baseline")
    assert (result.exit_code, Path("known.json").read_text()) == (2, before)


def test_the_api_raises() -> None:
    with pytest.raises(ConfigError, match="did you mean 'select'"):
        check_paths(["."])
    assert [p.path.name for p in check_paths(["good"])] == ["a.py"]


@pytest.mark.parametrize("name", ["exportlint.toml", "pyproject.toml"])
def test_a_configuration_that_is_a_link_to_nothing_is_told(name: str) -> None:
    Path("bad/exportlint.toml").unlink()
    Path("bad", name).symlink_to("gone.toml")
    result = run("bad/b.py")
    assert result.exit_code == 2
    assert result.stderr == f"error: {Path('bad', name).absolute()} is a link to a file that does not exist\n"
