"""Paths of the command line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click


class GivenPath(click.Path):
    """A path. An empty one, which an unset variable of a shell leaves, would mean the working directory.

    Args:
        folder: Whether it is to be a folder, which may be made later.
    """

    def __init__(self, *, folder: bool = False) -> None:
        super().__init__(path_type=Path)
        self._folder = folder

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:  # what click calls it
        """The path."""
        if value == "":
            self.fail("an empty path names nothing; . is the working directory", param, ctx)
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if self._folder and os.path.lexists(path) and not path.is_dir():
            self.fail(f"{str(path)!r} is no folder", param, ctx)
        return path
