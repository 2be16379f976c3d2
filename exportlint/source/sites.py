"""Places in a file: a node of its syntax tree, the characters that it covers, and its text."""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from exportlint.source.tree import descendants

if TYPE_CHECKING:
    from exportlint.source.files import SourceFile

_LONGEST = 60
_PLACED = "exportlint_placed"  # attribute of an f-string that was seen to


class Range(NamedTuple):
    """A range of characters; lines and columns count from 1, the end is excluded."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A node in a file: where something happens. Two sites are the same only if they are one node's."""

    source: SourceFile = field(repr=False)
    node: ast.AST = field(repr=False)

    @property
    def range(self) -> Range:
        """Where the node stands in its file."""
        line, start, end_line, end = _position(self.node)
        return Range(line, self._column(line, start), end_line, self._column(end_line, end))

    @property
    def line(self) -> int:
        """The line of the file that the node starts on."""
        return _position(self.node)[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Site) and other.node is self.node

    def __hash__(self) -> int:
        return id(self.node)

    @property
    def text(self) -> str:
        """The node's source on one line, cut where it is long."""
        place = self.range
        lines = [self.source.line(number) for number in range(place.line, place.end_line + 1)]
        lines[-1] = lines[-1][: place.end_column - 1]
        lines[0] = lines[0][place.column - 1 :]
        text = " ".join(" ".join(lines).split())
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."

    def _column(self, line: int, offset: int) -> int:
        """The column of an offset in bytes of UTF-8."""
        text = self.source.line(line)
        return 1 + (offset if text.isascii() else len(text.encode()[:offset].decode(errors="replace")))


def _position(node: ast.AST) -> tuple[int, int, int, int]:
    """First line and offset, last line and offset; of a parameter, those of its name alone."""
    line, start = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    if isinstance(node, ast.arg):
        return line, start, line, start + len(node.arg.encode())
    return line, start, getattr(node, "end_lineno", None) or line, getattr(node, "end_col_offset", None) or start


def place_parts(node: ast.JoinedStr, source: SourceFile) -> None:
    """Give what is inside of an f-string the place of the whole, where Python does not say its place.

    Before Python 3.12 the places inside of an f-string are right only in simple ones.
    """
    if sys.version_info >= (3, 12) or hasattr(node, _PLACED):
        return
    setattr(node, _PLACED, True)
    for part in node.values:
        if isinstance(part, ast.FormattedValue) and not _is_right(part.value, source):
            for inner in (part.value, *descendants(part.value)):
                ast.copy_location(inner, node)


def _is_right(node: ast.expr, source: SourceFile) -> bool:
    """Whether what stands at the place of an expression is the expression."""
    last = node.end_lineno or 0
    if not 0 < node.lineno <= last <= source.length:
        return False
    text = ast.get_source_segment("".join(source.lines[node.lineno - 1 : last]), _moved(node)) or ""
    try:
        return ast.dump(ast.parse(f"({text})", mode="eval").body) == ast.dump(node)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _moved(node: ast.expr) -> ast.expr:
    """A node without content at the same place of a text that begins with its first line."""
    return ast.Constant(
        None,
        lineno=1,
        end_lineno=(node.end_lineno or 0) - node.lineno + 1,
        col_offset=node.col_offset,
        end_col_offset=node.end_col_offset,
    )
