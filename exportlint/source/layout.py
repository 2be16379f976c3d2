"""Where a repository keeps its packages and the files that declare model cases: beside each other, in src, in tests."""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_TESTS = frozenset({"tests", "test"})
_SOURCES = "src"
# A file that lies where a project begins, and the folders in which packages are that belong to no project.
_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", ".git/HEAD", ".git")
_WEAK_MARK = "requirements.txt"  # which an example inside of a project may have as well
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_MOST = 10_000  # files of a project that are looked through
_MENTIONED = re.compile(r"\b(?:ModelCase|export_case|export_check)\b")


def may_declare(text: str) -> bool:
    """Whether a file may declare a model case that is no plain convention: a textual prefilter."""
    return _MENTIONED.search(text) is not None


def top(folder: Path, is_file: Callable[[str], bool]) -> Path:
    """The folder from which dotted names count: the nearest, from a folder upwards, that is no package."""
    while is_file(f"{folder}{os.sep}__init__.py") and folder.parent != folder:
        folder = folder.parent
    return folder


def is_installed(root: Path) -> bool:
    """Whether the packages in a folder are installed ones, each of which is a project of its own."""
    if root.name in _INSTALLED:
        return True
    try:
        return any(entry.name.endswith(".dist-info") for entry in os.scandir(root))
    except OSError:
        return True


def project(root: Path, is_file: Callable[[str], bool]) -> Path | None:
    """The folder in which the project begins that holds the packages in a folder; ``None`` where nothing marks one.

    A home folder begins none: what is kept there under version control is no project.
    """
    inside = list(_inside_home(root))
    marked = (folder for folder in inside if any(is_file(f"{folder}{os.sep}{mark}") for mark in _MARKS))
    weakly = (folder for folder in inside if is_file(f"{folder}{os.sep}{_WEAK_MARK}"))
    return next(itertools.chain(marked, weakly), None)


def _inside_home(root: Path) -> Iterator[Path]:
    """A folder and those around it, up to the home folder or the root of the file system."""
    try:
        home = Path(os.path.realpath(Path.home()))
    except RuntimeError:  # nobody's
        home = Path(root.anchor)
    for folder in (root, *root.parents):
        if folder in (home, folder.parent):
            return
        yield folder


def is_test(path: Path) -> bool:
    """Whether a file or folder, seen from where its project begins, is one of the tests."""
    return not _TESTS.isdisjoint(path.parts)


def whole(begins: Path, below: Callable[[Path], Iterable[Path]]) -> list[Path]:
    """The files of a project but its tests, which nothing else imports; none of a project that is too large.

    Args:
        begins: The folder in which the project begins.
        below: The files of the project that are below a folder.
    """
    found: list[Path] = []
    for path in below(begins):
        if not is_test(path.relative_to(begins).parent):
            found.append(path)
        if len(found) > _MOST:
            return []
    return found


def beside(root: Path, package: str) -> list[Path]:
    """The files at a root, those of a package there, and those of the packages beside that, but for tests.

    Args:
        root: The folder from which dotted names count.
        package: The package at the root; empty where there is none.
    """
    names = {package} if package else set[str]()
    if package not in _TESTS and not is_installed(root):
        names |= {entry.parent.name for entry in root.glob("*/__init__.py")} - _TESTS
    inside = itertools.chain.from_iterable((root / name).rglob("*.py") for name in sorted(names))
    return [path for path in (*root.glob("*.py"), *inside) if os.path.isfile(path)]  # noqa: PTH113  a folder may be shut


def roots(root: Path, is_file: Callable[[str], bool]) -> Iterator[str]:
    """The folders from which a file that declares cases imports the packages of its repository.

    Args:
        root: The folder from which the file's own dotted name counts.
        is_file: Whether there is such a file.
    """
    beside = next((folder.parent for folder in (root, *root.parents) if folder.name in _TESTS), root)
    yield from tops(top(beside, is_file))  # tests may lie inside of a package


def tops(folder: Path) -> tuple[str, str]:
    """The folders in which a repository keeps its packages."""
    return str(folder), str(folder / _SOURCES)


def declaring(root: Path) -> Iterator[Path]:
    """The files that may declare cases of what lies at a root: tests beside it, and whatever is beside its ``src``."""
    tops = [root, root.parent] if root.name == _SOURCES else [root]
    for top in tops:
        if top is not root:
            yield from top.glob("*.py")
        for name in _TESTS:
            yield from (top / name).rglob("*.py")
