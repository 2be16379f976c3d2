"""Definitions as libcst trees, parsed one by one when the analysis first enters them, and positions in them.

A definition is parsed from its own lines under as many ``if 1:`` heads as its indentation needs, so that columns stay
what they are and lines differ by a constant.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from exportlint.source.tree import children

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.source.files import SourceFile
    from exportlint.source.index import Extent


@dataclass(frozen=True, slots=True)
class Range:
    """A range of characters; lines and columns count from 1, the end is excluded."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(slots=True, eq=False)
class Fragment:
    """One parsed statement or definition of a file.

    Attributes:
        source: The file.
        tree: The statement with its wrapping heads.
        statements: The statements of the definition's own lines.
        offset: What to add to a line of the tree to get the line of the file.
    """

    source: SourceFile
    tree: cst.Module
    statements: tuple[cst.BaseStatement, ...]
    offset: int
    _ranges: dict[cst.CSTNode, Range] = field(default_factory=dict, repr=False)
    _texts: dict[cst.CSTNode, str] = field(default_factory=dict, repr=False)

    def text_of(self, node: cst.CSTNode) -> str:
        """The node's source on one line, cut where it is long."""
        if node not in self._texts:
            text = " ".join(self.tree.code_for_node(node).split())
            self._texts[node] = text if len(text) <= 60 else f"{text[:57]}..."
        return self._texts[node]

    def range_of(self, node: cst.CSTNode) -> Range:
        """Where the node stands in the file. Positions are computed when they are first asked for."""
        if not self._ranges:
            # The tree is not shared with anyone who could change it, so the wrapper needs no copy.
            positions = MetadataWrapper(self.tree, unsafe_skip_copy=True).resolve(PositionProvider)
            for each, span in positions.items():
                start, end = span.start, span.end
                self._ranges[each] = Range(
                    start.line + self.offset, start.column + 1, end.line + self.offset, end.column + 1
                )
        if node not in self._ranges:
            raise RecursionError  # libcst leaves out what it could not reach
        return self._ranges[node]


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A node in a fragment: where something happens. Two sites are the same only if they are one object's node."""

    fragment: Fragment = field(repr=False)
    node: cst.CSTNode = field(repr=False)

    @property
    def range(self) -> Range:
        """Where the node stands in its file."""
        return self.fragment.range_of(self.node)

    @property
    def line(self) -> int:
        """The line of the file that the node starts on."""
        return self.range.line

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Site) and other.node is self.node

    def __hash__(self) -> int:
        return id(self.node)

    @property
    def text(self) -> str:
        """The node's source on one line, cut where it is long."""
        return self.fragment.text_of(self.node)


class UnparsableError(Exception):
    """libcst refuses a definition that Python accepts."""


def parse(extent: Extent) -> Fragment:
    """The statement at these lines.

    Raises:
        UnparsableError: When libcst can parse neither the lines nor the file.
    """
    source = extent.module.source
    lines = source.lines[extent.first - 1 : extent.last]
    head = lines[0][: len(lines[0]) - len(lines[0].lstrip())].lstrip("\f") if lines else ""
    prefix = "if 1:\n" if head else ""
    try:
        tree = cst.parse_module(prefix + "".join(lines))
    except (cst.ParserSyntaxError, RecursionError):
        return _from_file(extent)
    statements = tuple(_inner(tree, bool(head)))
    return Fragment(source, tree, statements, extent.first - 1 - bool(head))


def _inner(tree: cst.Module, wrapped: bool) -> Iterator[cst.BaseStatement]:
    for statement in tree.body:
        if wrapped and isinstance(statement, cst.If):
            yield from (s for s in statement.body.body if isinstance(s, cst.BaseStatement))
        else:
            yield statement


def _from_file(extent: Extent) -> Fragment:
    """The statement out of a parse of the whole file: for lines that share a statement's line, and odd indentation."""
    source = extent.module.source
    try:
        tree = cst.parse_module(source.text)
    except (cst.ParserSyntaxError, RecursionError) as error:
        raise UnparsableError(str(error).splitlines()[0]) from error
    fragment = Fragment(source, tree, (), 0)
    inside = [s for s in _statements(tree) if extent.first <= fragment.range_of(s).line <= extent.last]
    fragment.statements = tuple(inside[:1])
    return fragment


def _statements(node: cst.CSTNode) -> Iterator[cst.BaseStatement]:
    for child in children(node):
        if isinstance(child, cst.BaseStatement):
            yield child
        yield from _statements(child)
