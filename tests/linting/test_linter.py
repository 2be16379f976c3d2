"""The linter under settings: selection by file, groups of files with other settings, and the public functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import exportlint
from exportlint.config import UserError
from exportlint.linting.selection import SelectorError
from exportlint.rules.examples import example

if TYPE_CHECKING:
    from pathlib import Path

BRANCH = example("def forward(self, x):\n    return x if x.sum() > 0 else -x")
DEVICE = example("def forward(self, x):\n    return x + torch.arange(4)")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "old").mkdir()
    for name, text in (("branch.py", BRANCH), ("device.py", DEVICE), ("old/branch.py", BRANCH)):
        (tmp_path / name).write_text(text)
    return tmp_path


def found(tree: Path, **settings: object) -> list[tuple[str, str]]:
    return [(p.path.relative_to(tree).as_posix(), p.rule.code) for p in exportlint.check_paths([tree], **settings)]


def test_rules_are_selected(tree: Path) -> None:
    assert found(tree) == [("branch.py", "EXP101"), ("device.py", "EXP202"), ("old/branch.py", "EXP101")]
    assert found(tree, select=["EXP2"]) == [("device.py", "EXP202")]
    assert found(tree, ignore=["control-flow"]) == [("device.py", "EXP202")]
    with pytest.raises(SelectorError):
        found(tree, select=["EXP99"])


@pytest.mark.parametrize(
    ("pattern", "left"),
    [
        ("old/*", ["branch.py", "device.py"]),
        ("branch.py", ["device.py"]),
        ("!old/**", ["device.py", "old/branch.py"]),
        ("other/*", ["branch.py", "device.py", "old/branch.py"]),
    ],
)
def test_rules_are_off_by_file(tree: Path, pattern: str, left: list[str]) -> None:
    (tree / "exportlint.toml").write_text(f'[per-file-ignores]\n"{pattern}" = ["EXP1"]\n')
    assert [file for file, _ in found(tree)] == left


@pytest.mark.parametrize("pattern", ["./old/*", "{root}/old/", "old/./branch.py"])
def test_rules_are_off_by_patterns_that_are_paths(tree: Path, pattern: str) -> None:
    text = pattern.format(root=tree)
    (tree / "exportlint.toml").write_text(f'[per-file-ignores]\n"{text}" = ["EXP1"]\n')
    assert [file for file, _ in found(tree)] == ["branch.py", "device.py"]
    (tree / "exportlint.toml").write_text(f'[per-file-ignores]\n"!{text}" = ["ALL"]\n')
    assert [file for file, _ in found(tree)] == ["old/branch.py"]


def test_patterns_fit_files_that_are_named_in_a_roundabout_way(tree: Path) -> None:
    (tree / "exportlint.toml").write_text('[per-file-ignores]\n"old/*" = ["EXP1"]\n')
    assert exportlint.check_paths([tree / "old" / ".." / "old" / "branch.py"]) == ()


def test_each_file_is_judged_by_the_configuration_nearest_to_it(tree: Path) -> None:
    (tree / "exportlint.toml").write_text('modes = ["compile"]\n')
    (tree / "old" / "exportlint.toml").write_text('ignore = ["EXP1"]\n')
    (tree / "old" / "device.py").write_text(DEVICE)
    assert found(tree) == [("branch.py", "EXP101"), ("old/device.py", "EXP202")]  # compile makes no constant of it
    assert found(tree, modes=("export",))[1:] == [("device.py", "EXP202"), ("old/device.py", "EXP202")]


def test_what_cannot_be_read_is_told_whatever_is_selected(tree: Path) -> None:
    (tree / "bad.py").write_text("x = (\n")
    assert found(tree, select=["EXP2"]) == [("bad.py", "EXP001"), ("device.py", "EXP202")]
    assert found(tree, select=["EXP2"], ignore=["EXP001"]) == [("device.py", "EXP202")]


def test_a_file_that_is_named_is_judged_whatever_was_generated_from_it(tree: Path) -> None:
    (tree / "generated.py").write_text(f"# Generated from branch.py.\n{BRANCH}")
    assert "branch.py" not in dict(found(tree))
    assert [p.rule.code for p in exportlint.check_paths([tree / "branch.py"])] == ["EXP101"]
    assert len(exportlint.check_paths([tree, tree / "branch.py"])) == 4


@pytest.mark.parametrize("paths", ["branch.py", b"branch.py"])
def test_one_path_alone_is_no_list_of_paths(paths: object) -> None:
    with pytest.raises(UserError, match=r"the paths to lint must be a list of paths, not .*branch.py.* alone"):
        exportlint.check_paths(paths)


def test_a_path_that_is_missing_is_an_error_of_the_user(tree: Path) -> None:
    with pytest.raises(UserError, match="gone: no such file or folder"):
        exportlint.check_paths([tree / "gone"])


HELPER = "def scale(x, n):\n    if n > 0:\n        return x\n    return -x\n"
NET = """
from torch import Tensor, nn

from pkg.ops import scale


class Net(nn.Module):
    def forward(self, x: Tensor):
        return scale(x, {})
"""


@pytest.mark.parametrize(
    ("ignored", "settings"),
    [("runs/\n", ""), ("", 'extend-exclude = ["runs"]\n')],
    ids=["by git", "by the settings"],
)
def test_what_is_passed_over_calls_nothing(tmp_path: Path, ignored: str, settings: str) -> None:
    """An old copy that an experiment left behind says nothing of the files of today."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").touch()
    (tmp_path / ".gitignore").write_text(ignored)
    (tmp_path / "exportlint.toml").write_text(settings)
    for name, text in {
        "pkg/ops.py": HELPER,
        "pkg/net.py": NET.format(1),
        "runs/1/net.py": NET.format("x.sum()"),
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert found(tmp_path) == found(tmp_path / "pkg") == []
    (tmp_path / ".gitignore").unlink()
    (tmp_path / "exportlint.toml").unlink()
    assert found(tmp_path) == [("pkg/ops.py", "EXP101")]


def test_what_is_passed_over_and_named_is_followed_nevertheless(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.exportlint]\nexclude = ["samples"]\n')
    (tmp_path / "samples").mkdir()
    (tmp_path / "samples" / "ops.py").write_text(HELPER)
    (tmp_path / "samples" / "net.py").write_text(NET.format("x.sum()").replace("pkg.ops", "ops"))
    assert found(tmp_path) == []
    assert found(tmp_path / "samples") == [("ops.py", "EXP101")]
