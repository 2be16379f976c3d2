"""Which files are linted: the Python files that were named, and those below the folders that were named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from exportlint.config import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# Folders that hold no source of the project. One that is named on the command line is linted nevertheless.
SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist", "venv", "env", "__pypackages__"})


class MissingPathError(UserError):
    """A path that was named does not exist, or is neither a file nor a folder."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: {'neither a file nor a folder' if path.exists() else 'no such file or folder'}")


def discover(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The files to lint, each once, in the order of their paths.

    A file that is named is linted whatever its suffix is.

    Raises:
        MissingPathError: When a path does not exist.
    """
    return gathered(paths, below, lambda path: (path,))


def gathered(
    paths: Iterable[Path], below: Callable[[Path], Iterable[Path]], named: Callable[[Path], Iterable[Path]]
) -> tuple[Path, ...]:
    """The files that folders hold and that files stand for, each once, in the order of their paths.

    Of several paths to one file, the one with the fewest links counts.

    Args:
        paths: Files and folders.
        below: The files of a folder.
        named: What a file that was named stands for.

    Raises:
        MissingPathError: When a path does not exist.
    """
    found: dict[str, Path] = {}
    for path in paths:
        if not path.is_dir() and not path.is_file():
            raise MissingPathError(path)
        for file in below(path) if path.is_dir() else named(path):
            real = os.path.realpath(file)
            if real not in found or _links(file) < _links(found[real]):
                found[real] = file
    return tuple(found[key] for key in sorted(found))


def _links(file: Path) -> int:
    """How many links a path leads through; the settings of a file are those of the folder that holds it."""
    whole = Path(os.path.abspath(file))  # noqa: PTH100  links stay as they are
    return sum(part.is_symlink() for part in (whole, *whole.parents))


def below(folder: Path) -> Iterator[Path]:
    """The Python files below a folder, without those in folders that hold no source."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in SKIPPED and not name.startswith("."))
        for name in files:
            whole = os.path.join(parent, name)  # noqa: PTH118  this runs for each file there is
            if name.endswith(".py") and os.path.isfile(whole):  # noqa: PTH113  which says no where it may not look
                yield Path(whole)
