"""Findings on new lines only, by git."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from exportlint.cli.check import check
from exportlint.linting.added_lines import DiffError, added_since
from exportlint.rules.examples import example

if TYPE_CHECKING:
    from pathlib import Path

OLD = example("def forward(self, x):\n    x = x if x.sum() > 0 else -x\n    return x")
NEW = OLD.replace("        return x", "        x = x if x.max() > 0 else -x\n        return x")


def git(folder: Path, *arguments: str) -> None:
    identity = (
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "-c",
        "init.defaultBranch=main",
        "-c",
        "commit.gpgsign=false",
    )
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "model.py").write_text(OLD)
    (folder / "other ü.py").write_text(OLD)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    monkeypatch.chdir(folder)
    return folder


def run(*options: str) -> Result:
    return CliRunner().invoke(check, [*options, "--output-format", "concise"])


def places(result: Result) -> list[str]:
    found = (line.partition(": ")[0] for line in result.stdout.splitlines())
    return [place.rpartition(":")[0] for place in found if re.search(r":\d+:\d+$", place)]


def test_only_findings_on_new_lines_are_left(repository: Path) -> None:
    assert run("--diff-base", "HEAD").exit_code == 0
    (repository / "model.py").write_text(NEW)
    number = NEW.splitlines().index("        x = x if x.max() > 0 else -x") + 1
    assert places(run()) == [f"model.py:{number - 1}", f"model.py:{number}", f"other ü.py:{number - 1}"]
    assert places(run("--diff-base", "HEAD")) == [f"model.py:{number}"]
    git(repository, "commit", "-qam", "second")
    assert places(run("--diff-base", "HEAD")) == []
    assert places(run("--diff-base", "HEAD~1")) == [f"model.py:{number}"]


def test_a_renamed_file_is_not_new_and_one_that_git_does_not_know_is(repository: Path) -> None:
    git(repository, "mv", "other ü.py", "moved\tfile.py")
    (repository / "new.py").write_text(OLD)
    (repository / ".gitignore").write_text("ignored.py\n")
    (repository / "ignored.py").write_text(OLD)
    result = run("--diff-base", "HEAD", ".", "ignored.py")
    assert {place.partition(":")[0] for place in places(result)} == {"ignored.py", "new.py"}


def test_what_the_other_side_changed_is_not_counted(repository: Path) -> None:
    git(repository, "checkout", "-qb", "feature")
    git(repository, "checkout", "-q", "main")
    (repository / "model.py").write_text("x = 1\n")
    git(repository, "commit", "-qam", "gone on main")
    git(repository, "checkout", "-q", "feature")
    assert places(run("--diff-base", "main")) == []


def test_a_changed_file_that_cannot_be_read_is_told(repository: Path) -> None:
    (repository / "model.py").write_text(OLD + "x = (\ny = 1\nz = 2\n")
    git(repository, "commit", "-qam", "broken")
    (repository / "model.py").write_text(OLD + "x = (\ny = 1\nz = 3\n")
    assert "EXP001" in run("--diff-base", "HEAD").stdout
    assert "EXP001" not in run("--diff-base", "HEAD", "other ü.py").stdout


def test_a_shallow_clone_is_one_clear_line(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / "model.py").write_text(NEW)
    git(repository, "commit", "-qam", "second")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repository}", "shallow")
    monkeypatch.chdir(tmp_path / "shallow")
    result = run("--diff-base", "HEAD~1")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "error: --diff-base HEAD~1: no such commit; "
        "this clone is shallow: fetch more history first (git fetch --unshallow, or fetch-depth: 0)\n"
    )


def test_no_common_history_is_one_line(repository: Path) -> None:
    git(repository, "checkout", "-q", "--orphan", "alone")
    git(repository, "commit", "-qm", "alone")
    result = run("--diff-base", "main")
    assert result.stderr == "error: --diff-base main: it has no history in common with HEAD\n"


@pytest.mark.parametrize("revision", ["gone", "--help", ""])
def test_a_wrong_revision_is_one_line(repository: Path, revision: str) -> None:
    result = run("--diff-base", revision)
    assert (result.exit_code, result.stderr) == (2, f"error: --diff-base {revision}: no such commit\n")


def test_without_a_repository_or_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(DiffError, match="--diff-base: git rev-parse: fatal: not a git repository"):
        added_since("HEAD", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DiffError, match="--diff-base needs git, which is not there"):
        added_since("HEAD", tmp_path)
