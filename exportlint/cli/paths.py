"""Paths of the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import os


class GivenPath(click.Path):
    """A path. An empty one, which an unset variable of a shell leaves, would mean the working directory."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:  # what click calls it
        """The path."""
        if value == "":
            self.fail("an empty path names nothing; . is the working directory", param, ctx)
        return super().convert(value, param, ctx)
