"""Where a repository keeps its packages and the files that declare model cases: beside each other, in src, in tests."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_TESTS = ("tests", "test")
_SOURCES = "src"
_MENTIONED = re.compile(r"\b(?:ModelCase|export_case|export_check)\b")


def may_declare(text: str) -> bool:
    """Whether a file may declare a model case that is no plain convention: a textual prefilter."""
    return _MENTIONED.search(text) is not None


def top(folder: Path, is_file: Callable[[str], bool]) -> Path:
    """The folder from which dotted names count: the nearest, from a folder upwards, that is no package."""
    while is_file(f"{folder}{os.sep}__init__.py") and folder.parent != folder:
        folder = folder.parent
    return folder


def roots(root: Path, is_file: Callable[[str], bool]) -> Iterator[str]:
    """The folders from which a file that declares cases imports the packages of its repository.

    Args:
        root: The folder from which the file's own dotted name counts.
        is_file: Whether there is such a file.
    """
    beside = next((folder.parent for folder in (root, *root.parents) if folder.name in _TESTS), root)
    found = top(beside, is_file)  # tests may lie inside of a package
    yield str(found)
    yield str(found / _SOURCES)


def declaring(root: Path) -> Iterator[Path]:
    """The files that may declare cases of what lies at a root: tests beside it, and whatever is beside its ``src``."""
    tops = [root, root.parent] if root.name == _SOURCES else [root]
    for top in tops:
        if top is not root:
            yield from top.glob("*.py")
        for name in _TESTS:
            yield from (top / name).rglob("*.py")
