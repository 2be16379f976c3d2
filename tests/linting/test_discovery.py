"""Which files are linted: excludes, what git ignores, and what was named."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from exportlint.linting.discovery import discover, discovered
from exportlint.linting.linter import resolver_of
from exportlint.source.discover import MissingPathError

if TYPE_CHECKING:
    from pathlib import Path

FILES = (
    "a.py", "notes.txt", "pkg/b.py", "pkg/gen_pb2.py", "pkg/sub/c.py", "vendor/d.py", "vendor/deep/e.py", "build/f.py",
    ".venv/g.py", "pkg/node_modules/h.py",
)  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    return tmp_path


def found(tree: Path, *paths: str, **settings: object) -> list[str]:
    files = discover([tree / p for p in paths or (".",)], resolver_of(**settings))
    return [file.relative_to(tree).as_posix() for file in files]


ALL = ["a.py", "pkg/b.py", "pkg/gen_pb2.py", "pkg/sub/c.py", "vendor/d.py", "vendor/deep/e.py"]


def test_python_files_but_those_in_the_usual_folders(tree: Path) -> None:
    assert found(tree) == ALL
    assert found(tree, "build", ".venv") == [".venv/g.py", "build/f.py"]


def test_a_file_that_is_named_is_linted_once_whatever_it_is(tree: Path) -> None:
    assert found(tree, "notes.txt", "build/f.py", "a.py", "a.py") == ["a.py", "build/f.py", "notes.txt"]
    with pytest.raises(MissingPathError, match="gone: no such file or folder"):
        found(tree, "gone")


@pytest.mark.parametrize(
    ("patterns", "gone"),
    [
        (["vendor"], {"vendor/d.py", "vendor/deep/e.py"}),
        (["vendor/deep/"], {"vendor/deep/e.py"}),
        (["*_pb2.py"], {"pkg/gen_pb2.py"}),
        (["sub/c.py"], set()),
        (["**/sub/c.py"], {"pkg/sub/c.py"}),
        (["pkg/sub/c.py"], {"pkg/sub/c.py"}),
        (["/a.py"], {"a.py"}),
        (["b.py"], {"pkg/b.py"}),
    ],
)
def test_patterns_are_relative_to_the_configuration(tree: Path, patterns: list[str], gone: set[str]) -> None:
    (tree / "exportlint.toml").write_text(f"extend-exclude = {patterns}\n")
    assert found(tree) == [file for file in ALL if file not in gone]


def test_exclude_replaces_the_usual_folders(tree: Path) -> None:
    (tree / "exportlint.toml").write_text("exclude = ['vendor', '.venv']\n")
    assert found(tree) == [*ALL[:1], "build/f.py", *ALL[1:3], "pkg/node_modules/h.py", ALL[3]]


def test_what_excludes_a_named_folder_excludes_nothing_below_it(tree: Path) -> None:
    (tree / "exportlint.toml").write_text("extend-exclude = ['vendor', 'e.py']\n")
    assert found(tree, "vendor") == ["vendor/d.py"]
    assert found(tree, "vendor/deep/e.py") == ["vendor/deep/e.py"]


def test_the_nearest_configuration_decides(tree: Path) -> None:
    (tree / "exportlint.toml").write_text("extend-exclude = ['b.py']\n")
    (tree / "pkg" / "exportlint.toml").write_text("extend-exclude = ['sub']\n")
    assert found(tree) == ["a.py", "pkg/b.py", "pkg/gen_pb2.py", "vendor/d.py", "vendor/deep/e.py"]


def test_what_git_ignores_is_passed_over(tree: Path) -> None:
    (tree / ".gitignore").write_text("# generated\n*_pb2.py\n/vendor/*\n!/vendor/deep/\n")
    (tree / "pkg" / ".gitignore").write_text("/sub/\n!gen_pb2.py\n")
    assert found(tree) == ALL  # without a repository the file means nothing
    (tree / ".git" / "info").mkdir(parents=True)
    assert found(tree) == ["a.py", "pkg/b.py", "pkg/gen_pb2.py", "vendor/deep/e.py"]
    assert found(tree, respect_gitignore=False) == ALL
    assert found(tree, "pkg/sub") == ["pkg/sub/c.py"]
    (tree / ".git" / "info" / "exclude").write_text("a.py\n")
    assert found(tree, "a.py", ".") == ["a.py", "pkg/b.py", "pkg/gen_pb2.py", "vendor/deep/e.py"]
    assert found(tree) == ["pkg/b.py", "pkg/gen_pb2.py", "vendor/deep/e.py"]


def test_force_exclude_holds_for_named_files(tree: Path) -> None:
    (tree / "exportlint.toml").write_text("extend-exclude = ['vendor']\nforce-exclude = true\n")
    (tree / ".git").mkdir()
    (tree / ".gitignore").write_text("c.py\n")
    assert found(tree, "vendor/deep/e.py", "a.py", "build/f.py", "pkg/sub/c.py", "pkg/b.py") == ["a.py", "pkg/b.py"]
    assert found(tree, "vendor/deep/e.py", force_exclude=False) == ["vendor/deep/e.py"]


def test_links_in_circles_and_into_nothing_are_passed_over(tree: Path) -> None:
    (tree / "pkg" / "again").symlink_to(tree, target_is_directory=True)
    (tree / "loop.py").symlink_to("loop.py")
    (tree / ".#lock.py").symlink_to("someone@host")
    (tree / "same.py").symlink_to("a.py")
    (tree / "folder.py").mkdir()
    os.mkfifo(tree / "pipe.py")
    assert found(tree) == ALL
    with pytest.raises(MissingPathError):
        found(tree, "loop.py")


@pytest.mark.parametrize("name", [".gitignore", ".git/info/exclude", "pyproject.toml", "exportlint.toml"])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tree: Path, name: str) -> None:
    (tree / ".git" / "info").mkdir(parents=True)
    os.mkfifo(tree / name)
    assert found(tree) == ALL


def test_patterns_of_the_command_line_are_relative_to_the_working_directory(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "exportlint.toml").write_text("extend-exclude = ['/a.py']\n")
    (tree / "pkg" / "exportlint.toml").write_text("")
    monkeypatch.chdir(tree / "pkg")
    assert found(tree, "pkg", extend_exclude=["sub/c.py", "pkg/b.py"]) == ["pkg/b.py", "pkg/gen_pb2.py"]
    monkeypatch.chdir(tree)
    assert found(tree, extend_exclude=["pkg/b.py"]) == ["pkg/gen_pb2.py", "pkg/sub/c.py", *ALL[4:]]
    assert found(tree, exclude=["pkg", "vendor", ".venv"]) == ["build/f.py"]
    forced = found(tree, "pkg/b.py", "pkg/sub/c.py", extend_exclude=["pkg/b.py"], force_exclude=True)
    assert forced == ["pkg/sub/c.py"]


def test_folders_above_the_project_force_nothing_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "build" / ".hidden" / "project"
    project.mkdir(parents=True)
    (project / "a.py").write_text("x = 1\n")
    monkeypatch.chdir(project)
    assert found(project, "a.py", force_exclude=True) == ["a.py"]


def test_patterns_of_git_that_mean_nothing_fit_nothing(tree: Path) -> None:
    (tree / ".git").mkdir()
    (tree / ".gitignore").write_text("[z-a]\n\\\n[a\n/a.py\n")
    assert found(tree) == [name for name in ALL if name != "a.py"]


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ("*\n!*/\n!b.py\n", ["pkg/b.py"]),
        ("*\n!/pkg/\n!/pkg/*.py\n", ["pkg/b.py", "pkg/gen_pb2.py"]),
        ("*.py\n!/pkg/\n!/a.py\n", ["a.py"]),
        ("/*\n!/vendor\n", ["vendor/d.py", "vendor/deep/e.py"]),
        ("!*/\n!b.py\n*\n", []),
        ("vendor/**/\n/pkg\n", ["a.py", "vendor/d.py"]),
        ("*\n!*/\n!c.py\n!e.py\n", ["pkg/sub/c.py", "vendor/deep/e.py"]),
        ("/pkg/**\n!/pkg/sub/\n!/pkg/sub/c.py\n/vendor\n", ["a.py", "pkg/sub/c.py"]),
    ],
)
def test_the_last_pattern_that_fits_an_entry_decides_as_with_git(tree: Path, lines: str, left: list[str]) -> None:
    import subprocess

    subprocess.run(["git", "init", "-q", "."], cwd=tree, check=True)
    (tree / ".gitignore").write_text(lines)
    said = ["git", "ls-files", "--others", "--exclude-standard", "pkg/*.py", "vendor/*.py", "a.py"]
    told = subprocess.run(said, cwd=tree, check=True, capture_output=True, text=True).stdout.split()
    assert found(tree) == sorted(told) == left


def test_below_a_named_folder_that_git_does_not_ignore_its_patterns_hold(tree: Path) -> None:
    (tree / ".git").mkdir()
    (tree / ".gitignore").write_text("*\n!*/\n!b.py\n")
    assert found(tree, "pkg") == ["pkg/b.py"]
    (tree / ".gitignore").write_text("*\n!b.py\n")
    assert found(tree, "pkg") == ["pkg/b.py", "pkg/gen_pb2.py", "pkg/sub/c.py"]
    (tree / ".gitignore").write_text("pkg/**\n")
    assert found(tree, "pkg") == ["pkg/b.py", "pkg/gen_pb2.py", "pkg/sub/c.py"]


@pytest.mark.parametrize(
    ("pattern", "gone"),
    [
        ("./a.py", {"a.py"}),
        ("./pkg", {"pkg/b.py", "pkg/gen_pb2.py", "pkg/sub/c.py"}),
        ("./sub/", set()),
        ("pkg/./sub", {"pkg/sub/c.py"}),
        ("{root}/pkg/sub/", {"pkg/sub/c.py"}),
        ("{root}/*.py", {"a.py"}),
        ("{link}/a.py", {"a.py"}),
        (".", set(ALL)),
        ("{root}", set(ALL)),
    ],
)
@pytest.mark.parametrize("by_option", [False, True])
def test_patterns_that_are_paths(
    tree: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, gone: set[str], by_option: bool
) -> None:
    link = tree.parent / f"{tree.name}-link"
    link.symlink_to(tree, target_is_directory=True)
    base = link if "link" in pattern else tree
    text = pattern.format(root=tree, link=link)
    monkeypatch.chdir(tree)
    if not by_option:
        (tree / "exportlint.toml").write_text(f"extend-exclude = ['{text}']\n")
    files = discover([base], resolver_of(**({"extend_exclude": [text]} if by_option else {})))
    if "link" in pattern and by_option:
        gone = set()  # the working directory is not reached by the link
    assert [file.relative_to(base).as_posix() for file in files] == [file for file in ALL if file not in gone]


def test_of_a_file_and_links_to_it_the_file_is_linted(tree: Path) -> None:
    (tree / "also.py").symlink_to("vendor/deep/e.py")
    (tree / "vendor" / "zlast.py").symlink_to("../a.py")
    assert found(tree) == ALL
    assert found(tree, "also.py", "vendor") == ["vendor/zlast.py", "vendor/d.py", "vendor/deep/e.py"]
    assert found(tree, "also.py") == ["also.py"]
    (tree / "q").symlink_to("vendor", target_is_directory=True)
    sought = discovered([tree / "q", tree / "vendor"], resolver_of())
    assert [file.name for file in sought.files] == ["zlast.py", "d.py", "e.py"]
    assert {file.parent for file in sought.files} == {tree / "vendor", tree / "vendor" / "deep"}
    assert sought.empty == ()
    (tree / "none").mkdir()
    assert discovered([tree / "none", tree / "pkg"], resolver_of()).empty == (tree / "none",)
