"""A fix as it is shown: the text that it would write, and where."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from exportlint.fixes.edits import Applicability, Fix
    from exportlint.fixes.tree import Tree
    from exportlint.source.files import SourceFile
    from exportlint.source.sites import Range

LONGEST = 2_000
"""A file of more lines is not parsed, which takes seconds, only to say how many of its findings can be fixed."""


@dataclass(frozen=True, slots=True)
class ShownFix:
    """A fix in text.

    Attributes:
        title: What it does.
        applicability: Whether it is safe.
        edits: What stands in which range instead; nothing where the code is not of a kind that can be edited.
    """

    title: str
    applicability: Applicability
    edits: tuple[tuple[Range, str], ...]


@dataclass(slots=True, eq=False)
class ShownFixes:
    """The fixes of findings in text; files are parsed when one of their fixes is first asked for, one is kept."""

    _path: Path | None = None
    _tree: Tree | None = None
    _known: dict[tuple[Path, Fix], bool] = field(default_factory=dict)

    def fit(self, path: Path, source: SourceFile | None, fix: Fix) -> bool:
        """Whether the fix of a finding in a file would write anything; of a long file, that is not looked into."""
        if source is not None and source.length > LONGEST:
            return True
        if (path, fix) not in self._known:
            self._known[path, fix] = self.of(path, source, fix) is not None
        return self._known[path, fix]

    def of(self, path: Path, source: SourceFile | None, fix: Fix | None) -> ShownFix | None:
        """The fix of a finding in a file; ``None`` where there is none or nothing can be written."""
        if fix is None or source is None:
            return None
        if path != self._path:
            self._path, self._tree = path, _parsed(source.text)
        if self._tree is None:
            return None
        from exportlint.fixes.texts import fitting
        from exportlint.fixes.tree import UnfitError

        try:
            chosen, made = fitting(self._tree, fix)
        except UnfitError:
            return None
        edits = tuple((self._tree.range_of(text.start, text.end), text.content) for text in made)
        return ShownFix(chosen.title, chosen.applicability, edits) if edits else None


def _parsed(text: str) -> Tree | None:
    from exportlint.fixes.tree import Tree, UnfitError

    try:
        return Tree(text)
    except UnfitError:
        return None
