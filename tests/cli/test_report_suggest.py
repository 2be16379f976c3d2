"""`exportlint report --suggest`: fixes that are tried in a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from commands import exportlint

from exportlint.cli import suggesting
from exportlint.cli.suggesting import NoCopyError, copy_with

if TYPE_CHECKING:
    from pathlib import Path

NET = """\
import torch


class Branch(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x
"""
CASES = """\
import sys

sys.path.insert(0, "src")
import torch
from exportlint import ModelCase
from package.net import Branch

branch = ModelCase(Branch, (torch.ones(2, 2),), name="branch")
good = ModelCase(lambda: torch.nn.Linear(2, 2), (torch.ones(2, 2),), name="good")
"""


@pytest.fixture
def project(tmp_path) -> Path:
    package = tmp_path / "src" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "net.py").write_text(NET)
    (tmp_path / "cases.py").write_text(CASES)
    return tmp_path


def test_each_red_case_has_a_patch_that_was_tried(project):
    ran = exportlint("report", "cases.py", "--checks", "capture", "--suggest", cwd=project)
    assert ran.status == 1
    before, branch, rest = ran.out.partition(
        "branch: 1 finding of the linter fixed; capture passed in a patched copy, with the model's eager results\n"
    )
    assert branch
    assert "good:" not in before + rest
    assert "--- src/package/net.py\n+++ src/package/net.py\n" in rest
    assert "+        return torch.where(x.sum() > 0, x, -x)\n" in rest
    assert (project / "src" / "package" / "net.py").read_text() == NET
    assert not list(project.rglob(".exportlint-suggested*"))


SHIFT = """\
import random
import torch


class Shift(torch.nn.Module):
    def forward(self, x):
        return x + random.uniform(1.0, 2.0)


def build():
    return Shift()


def inputs():
    return (torch.zeros(3),)
"""


def test_a_patch_that_changes_results_is_not_told_as_passing(tmp_path):
    (tmp_path / "shift.py").write_text(SHIFT)
    ran = exportlint("report", "shift.py", "--checks", "state", "--suggest", cwd=tmp_path)
    assert (
        "shift: 1 finding of the linter fixed; state passed in a patched copy, but its eager results differ from the "
        "model's: the example call: output: 3 of 3 values differ, by at most "
    ) in ran.out


STILL_RED = """\
import torch


class Two(torch.nn.Module):
    def forward(self, x):
        x = x if x.sum() > 0 else -x
        return x[: x.max().int().item()].numpy()


def build():
    return Two()


def inputs():
    return (torch.ones(3),)
"""


def test_a_patch_after_which_a_check_is_red_is_told_with_the_reason(tmp_path):
    (tmp_path / "two.py").write_text(STILL_RED)
    ran = exportlint("report", "two.py", "--checks", "capture", "--suggest", cwd=tmp_path)
    (line,) = [line for line in ran.out.splitlines() if line.startswith("two: 1 finding of the linter fixed; ")]
    assert "; in a patched copy capture " in line
    assert line.endswith(")")


def test_python_files_are_copied_and_others_are_linked(tmp_path):
    root, copy = tmp_path / "root", tmp_path / "copy"
    for name in (
        "a.py",
        "b/c.py",
        "b/data.bin",
        ".git/config",
        "venv/pyvenv.cfg",
        "venv/lib.py",
        "b/__pycache__/c.pyc",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / "loop").symlink_to("loop")
    copy.mkdir()
    copy_with(root, copy, {root / "b" / "c.py": b"patched"})
    assert {str(path.relative_to(copy)) for path in copy.rglob("*")} == {
        "a.py", "b", "b/c.py", "b/data.bin", "loop",
    }  # fmt: skip
    assert (copy / "b" / "c.py").read_bytes() == b"patched"
    assert (root / "b" / "c.py").read_text() == "b/c.py"
    assert (copy / "a.py").read_text() == "a.py"
    assert not (copy / "a.py").is_symlink()
    assert (copy / "b" / "data.bin").is_symlink()


def test_a_folder_with_too_many_files_is_not_copied(tmp_path, monkeypatch):
    monkeypatch.setattr(suggesting, "MOST_FILES", 2)
    for name in ("a", "b", "c"):
        (tmp_path / name).touch()
    with pytest.raises(NoCopyError, match="the working directory holds more than 2 files"):
        copy_with(tmp_path, tmp_path / "copy", {})
