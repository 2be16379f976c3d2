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
        added_since("HEAD", tmp_path, ())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DiffError, match="--diff-base needs git, which is not there"):
        added_since("HEAD", tmp_path, ())


NUMBER = NEW.splitlines().index("        x = x if x.max() > 0 else -x") + 1


@pytest.mark.parametrize(
    "settings",
    [
        {"diff.noprefix": "true"},
        {"diff.mnemonicPrefix": "true"},
        {"diff.external": "false"},
        {"diff.interHunkContext": "20", "diff.context": "9"},
        {"diff.renames": "false", "diff.algorithm": "patience", "diff.indentHeuristic": "false"},
        {"color.ui": "always", "color.diff": "always"},
        {"core.quotePath": "true", "diff.relative": "true", "diff.orderFile": "/dev/null"},
        {"diff.autoRefreshIndex": "false", "diff.suppressBlankEmpty": "true"},
        {"diff.python.textconv": "false", "diff.python.binary": "true", "diff.python.command": "false"},
    ],
    ids=lambda settings: next(iter(settings)),
)
@pytest.mark.parametrize("attributes", ["", "*.py -diff\n", "*.py diff=python\n"])
def test_settings_of_git_change_nothing(repository: Path, settings: dict[str, str], attributes: str) -> None:
    (repository / ".gitattributes").write_text(attributes)
    (repository / "model.py").write_text("x = 1\n" + NEW + "y = 1\n")
    git(repository, "mv", "other ü.py", 'a "\t\\ü.py')
    for name, value in settings.items():
        git(repository, "config", name, value)
    assert places(run("--diff-base", "HEAD")) == [f"model.py:{NUMBER + 1}"]


def test_the_environment_of_git_changes_nothing(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIFF_OPTS", "--unified=20")
    monkeypatch.setenv("GIT_LITERAL_PATHSPECS", "1")
    (repository / "model.py").write_text(NEW)
    assert places(run("--diff-base", "HEAD")) == [f"model.py:{NUMBER}"]


def test_lines_that_look_like_headings_are_none(repository: Path) -> None:
    (repository / "model.py").write_text("-- a/other ü.py\n" + OLD)
    git(repository, "commit", "-qam", "odd")
    (repository / "model.py").write_text(NEW.replace("import torch", "++ b/other ü.py\nimport torch", 1))
    found = added_since("HEAD", repository, [repository / "model.py"])
    assert set(found.changed) == {str(repository / "model.py")}


def test_a_link_that_became_a_file_and_a_file_beside_a_new_link(repository: Path) -> None:
    (repository / "was.py").symlink_to("model.py")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "link")
    (repository / "was.py").unlink()
    (repository / "was.py").write_text(OLD)
    (repository / "model.py").write_text(NEW)
    (repository / "zlink.py").symlink_to("model.py")
    git(repository, "add", "zlink.py")
    found = places(run("--diff-base", "HEAD"))
    assert found == [f"model.py:{NUMBER}", f"was.py:{NUMBER - 1}"]


def test_a_line_that_was_taken_out_touches_what_stands_around_it_only(repository: Path) -> None:
    (repository / "lines.py").write_text("1\n2\n3\n4\n5\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "lines")
    (repository / "lines.py").write_text("1\n2\n4\n5\n")
    file = repository / "lines.py"
    found = added_since("HEAD", repository, [file])
    assert [found.touches(file, *at) for at in ((1, 2), (2, 3), (3, 4), (2, 2))] == [False, True, False, False]


def test_a_submodule_is_compared_with_the_commit_that_belongs_to_the_revision(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "-q")
    (library / "inner.py").write_text(OLD)
    git(library, "add", ".")
    git(library, "commit", "-qm", "first")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
    git(repository, "commit", "-qm", "with a submodule")
    git(repository, "config", "diff.submodule", "log")
    git(repository, "config", "diff.ignoreSubmodules", "all")
    monkeypatch.setenv("GIT_INDEX_FILE", str(repository / ".git" / "index"))
    assert places(run("--diff-base", "HEAD")) == []
    (repository / "lib" / "inner.py").write_text(NEW)
    assert places(run("--diff-base", "HEAD")) == [f"lib/inner.py:{NUMBER}"]
    monkeypatch.delenv("GIT_INDEX_FILE")
    git(repository / "lib", "commit", "-qam", "second")
    assert places(run("--diff-base", "HEAD")) == [f"lib/inner.py:{NUMBER}"]
    assert places(run("--diff-base", "HEAD~1")) == [f"lib/inner.py:{NUMBER - 1}", f"lib/inner.py:{NUMBER}"]
    git(repository, "-c", "diff.ignoreSubmodules=none", "commit", "-qam", "moved")
    assert places(run("--diff-base", "HEAD")) == []


def test_a_submodule_without_that_commit_is_one_line(repository: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(repository), "other")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "other"), "lib")
    git(repository, "update-index", "--cacheinfo", f"160000,{'1' * 40},lib")
    git(repository, "commit", "-qm", "with a submodule")
    result = run("--diff-base", "HEAD")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "error: --diff-base HEAD: the submodule lib lacks its commit 111111111111: fetch it there first\n"
    )
    assert run("--diff-base", "HEAD", "model.py").exit_code == 0


def test_files_of_a_merge_that_is_not_resolved(repository: Path) -> None:
    git(repository, "checkout", "-qb", "feature")
    (repository / "model.py").write_text("a = 1\n" + OLD)
    git(repository, "commit", "-qam", "here")
    git(repository, "checkout", "-q", "main")
    (repository / "model.py").write_text("b = 1\n" + OLD)
    git(repository, "commit", "-qam", "there")
    with pytest.raises(subprocess.CalledProcessError):
        git(repository, "merge", "feature")
    (repository / "model.py").write_text(NEW)
    assert places(run("--diff-base", "HEAD")) == [f"model.py:{NUMBER}"]


def test_no_baseline_is_written_where_git_cannot_say_what_is_new(repository: Path) -> None:
    result = run("--diff-base", "gone", "--baseline", "known.json", "--update-baseline")
    assert (result.exit_code, result.stderr) == (2, "error: --diff-base gone: no such commit\n")
    assert not (repository / "known.json").exists()
