"""The lines of files that findings are in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from exportlint.source.files import SourceFile, UnreadableError, holding, read

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(slots=True, eq=False)
class Excerpts:
    """Files, read when one of their lines is first asked for.

    Attributes:
        given: Files whose text was handed over, and may be nowhere on disk.
    """

    given: dict[Path, SourceFile] = field(default_factory=dict)
    _read: dict[Path, SourceFile | None] = field(default_factory=dict)

    @classmethod
    def of_text(cls, path: Path, data: bytes) -> Excerpts:
        """The lines of a file that would hold these bytes."""
        try:
            return cls({path: holding(path, data)})
        except UnreadableError:
            return cls()

    def line(self, path: Path, number: int) -> str:
        """A line without its end, counted from 1; empty where the file has none, or cannot be read any more."""
        source = self.source(path)
        return source.line(number) if source is not None else ""

    def source(self, path: Path) -> SourceFile | None:
        """The file; ``None`` where it cannot be read."""
        if path in self.given:
            return self.given[path]
        if path not in self._read:
            try:
                self._read[path] = read(path)
            except UnreadableError:
                self._read[path] = None
        return self._read[path]
