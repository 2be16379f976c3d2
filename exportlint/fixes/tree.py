"""A file's concrete tree, in which nodes are found by their place: comments, spaces and line ends stay as they are."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from exportlint.source.sites import Range

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from libcst.metadata import CodeRange

Node = TypeVar("Node", bound=cst.CSTNode)
_LINE = re.compile(r"\r\n|\r|\n")
_CLOSED = re.compile(r"\s*\)")


class UnfitError(Exception):
    """A fix does not fit the code that it is for."""


class HinderedError(UnfitError):
    """A fix fits, and something is in the way that can be taken out of it."""


class Text(NamedTuple):
    """Characters of a file, by their offsets, and what stands there instead."""

    start: int
    end: int
    content: str


def applied(text: str, changes: Iterable[Text]) -> str:
    """The text with all changes, which do not overlap."""
    for change in sorted(changes, reverse=True):
        text = text[: change.start] + change.content + text[change.end :]
    return text


@dataclass(slots=True, eq=False)
class Tree:
    """The concrete tree of a text.

    Attributes:
        text: The text, without a byte order mark.
        parents: The node around each node of the statements at the top level that were looked into.
    """

    text: str
    module: cst.Module = field(init=False)
    positions: Mapping[cst.CSTNode, CodeRange] = field(init=False)
    parents: dict[cst.CSTNode, cst.CSTNode] = field(default_factory=dict)
    _starts: list[int] = field(init=False)
    _nodes: dict[tuple[int, int], list[cst.CSTNode]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Parse the text.

        Raises:
            UnfitError: When libcst cannot, or would not write the same text again.
        """
        try:
            self.module = cst.parse_module(self.text)
        except (cst.ParserSyntaxError, RecursionError, ValueError) as error:
            raise HinderedError(_hindrance(self.text)) from error
        if self.module.code != self.text:
            raise HinderedError(_hindrance(self.text))
        try:
            wrapper = MetadataWrapper(self.module, unsafe_skip_copy=True)
            self.positions = wrapper.resolve(PositionProvider)
        except RecursionError as error:
            raise HinderedError(_hindrance(self.text)) from error
        self._starts = [0, *(match.end() for match in _LINE.finditer(self.text))]

    def _enter(self, line: int) -> None:
        """Note the nodes of the statement at the top level that a line belongs to, each with the node around it."""
        found = next((s for s in self.module.body if self.positions[s].end.line >= line), None)
        if found is not None:
            self.enter(found)

    def enter(self, statement: cst.BaseStatement) -> None:
        """Note the nodes of a statement at the top level, each with the node around it."""
        waiting: list[cst.CSTNode] = [statement] if statement not in self.parents else []
        self.parents.update(dict.fromkeys(waiting, self.module))
        while waiting:
            node = waiting.pop()
            if isinstance(node, (cst.BaseExpression, cst.BaseStatement, cst.BaseSmallStatement)):
                self._nodes.setdefault(self.span(node), []).append(node)
            parts = node.children
            self.parents.update(dict.fromkeys(parts, node))
            waiting += parts

    def offset(self, line: int, column: int) -> int:
        """The offset of a place; lines and columns count from 1."""
        return self._starts[min(line, len(self._starts)) - 1] + column - 1

    def range_of(self, start: int, end: int) -> Range:
        """The range of the characters between two offsets."""
        first, last = (bisect.bisect_right(self._starts, at) for at in (start, end))
        return Range(first, start - self._starts[first - 1] + 1, last, end - self._starts[last - 1] + 1)

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        """The offsets at which a node begins and ends, without parentheses around it."""
        place = self.positions[node]
        return self.offset(place.start.line, place.start.column + 1), self.offset(place.end.line, place.end.column + 1)

    def source(self, node: cst.BaseExpression) -> str:
        """The text of an expression as it stands, with the parentheses around it.

        Raises:
            UnfitError: When a comment stands between these and the expression.
        """
        start, end = self.span(node)
        for _ in node.lpar:
            head, behind = self.text[:start].rstrip(), _CLOSED.match(self.text, end)
            if not head.endswith("(") or behind is None:
                raise HinderedError("a comment stands beside it")
            start, end = len(head) - 1, behind.end()
        return self.text[start:end]

    def exchanged(self, old: cst.CSTNode, new: cst.CSTNode) -> Text:
        """The edit that writes a node in the place of another, at its indentation."""
        changed = self.module.deep_replace(old, new)
        return self.replaced(0, len(self.text), changed.code if isinstance(changed, cst.Module) else self.text)

    def find(self, place: Range, kind: type[Node]) -> Node:
        """The node of this kind at a place.

        Raises:
            UnfitError: When there is none.
        """
        self._enter(place.line)
        span = self.offset(place.line, place.column), self.offset(place.end_line, place.end_column)
        for node in self._nodes.get(span, ()):
            if isinstance(node, kind):
                return node
        raise UnfitError(f"no {kind.__name__} there")

    def expression(self, place: Range) -> cst.BaseExpression:
        """The expression at a place, whatever its kind.

        Raises:
            UnfitError: When there is none.
        """
        return self.find(place, cst.BaseExpression)  # type: ignore[type-abstract]

    def around(self, node: cst.CSTNode, kind: type[Node]) -> Node:
        """The innermost node of this kind around a node.

        Raises:
            UnfitError: When there is none.
        """
        for outer in self.outwards(node):
            if isinstance(outer, kind):
                return outer
        raise UnfitError(f"no {kind.__name__} around it")

    def outwards(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes around a node, innermost first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def inside(self, node: cst.CSTNode, kind: type[Node]) -> Iterator[Node]:
        """The nodes of this kind in a node, in the order of the source."""
        waiting = list(node.children)[::-1]
        while waiting:
            found = waiting.pop()
            if isinstance(found, kind):
                yield found
            waiting += list(found.children)[::-1]

    def replaced(self, start: int, end: int, content: str) -> Text:
        """The edit that writes this between two offsets, as small as it can be."""
        old = self.text[start:end]
        head = _common(old, content)
        tail = _common(old[head:][::-1], content[head:][::-1])
        return Text(start + head, end - tail, content[head : len(content) - tail])

    def uncommented(self, start: int, end: int) -> str:
        """The text between two offsets, which goes when it is rewritten.

        Raises:
            UnfitError: When a comment would go with it.
        """
        found = self.text[start:end]
        if "#" in found:
            raise HinderedError("a comment would be lost")
        return found


def _hindrance(text: str) -> str:
    """Why libcst does not read a text that Python reads, or would write it otherwise, and what to do about it."""
    if re.search(r"\r(?!\n)", text):
        return "lines of the file end with a lone CR; convert the line ends to LF"
    if "\f" in text:
        return "a form feed stands before code; take it out"
    return "libcst, which writes fixes, does not read the file; write what the finding says by hand"


def _common(left: str, right: str) -> int:
    """How many characters two texts begin with in common."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(left), len(right)))


def is_atom(node: cst.BaseExpression) -> bool:
    """Whether an expression can stand wherever an expression may, as it is."""
    return bool(node.lpar) or isinstance(
        node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.Integer, cst.Float, cst.List, cst.Dict)
    )


def last_name(node: cst.BaseExpression) -> str:
    """The last part of a dotted name; empty for anything else."""
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return node.value if isinstance(node, cst.Name) else ""


def is_attribute(node: cst.CSTNode, name: str) -> bool:
    """Whether a node is the attribute of this name of something called ``self``."""
    return (
        isinstance(node, cst.Attribute)
        and node.attr.value == name
        and isinstance(node.value, cst.Name)
        and node.value.value == "self"
    )
