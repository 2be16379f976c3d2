"""Which lines of a source file a run can be said to concern: those of functions that ran, and what these read by name.

What stands outside of functions was run for every model of its file as it was imported. It concerns a run where a
function that ran reads what it binds, also by way of other statements and of imports.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exportlint.places import body_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_Function = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class _Binding:
    """A statement outside of functions that binds names.

    Attributes:
        lines: Its lines.
        body: Those of the body, where it defines a function.
        names: What it binds.
        reads: The names that it reads.
        owner: The class in whose body it stands, if any.
    """

    lines: range
    body: range
    names: frozenset[str]
    reads: frozenset[str]
    owner: str


class Code:
    """The functions of a file, and what its other statements bind.

    Args:
        source: The contents of the file.
    """

    def __init__(self, source: bytes) -> None:
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            tree = ast.Module([], [])
        self._functions = [body_of(node) for node in ast.walk(tree) if isinstance(node, _Function)]
        self._bindings = list(_bindings(tree.body))

    def read_by(self, ran: frozenset[int]) -> frozenset[str]:
        """The names that functions of which a line ran read, with the classes that have them."""
        names: set[str] = set()
        for binding in self._bindings:
            if any(line in ran for line in binding.body or binding.lines):
                names |= binding.reads | {binding.owner}
        return frozenset(names)

    def links(self) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
        """What each statement outside of functions binds, and what it reads for that."""
        return ((binding.names, binding.reads) for binding in self._bindings)

    def concerns(self, line: int, ran: frozenset[int], used: frozenset[str]) -> bool:
        """Whether a line concerns a run.

        Args:
            line: The line.
            ran: The lines of the file that ran.
            used: The names that the run used, of this file and of others (`used_names`).
        """
        around = [function for function in self._functions if line in function]
        if around:
            return any(number in ran for number in min(around, key=len))
        at = min((known for known in self._bindings if line in known.lines), key=lambda b: len(b.lines), default=None)
        if at is None or any(number in ran for number in at.body or at.lines):
            return True
        return not used.isdisjoint(at.names) and (not at.owner or at.owner in used)


def used_names(ran: Iterable[tuple[Code, frozenset[int]]]) -> frozenset[str]:
    """The names that functions of which a line ran read, and those that these are made of.

    Args:
        ran: The files of a run, each with its lines that ran.
    """
    files = list(ran)
    names = {name for code, lines in files for name in code.read_by(lines)}
    links = [link for code, _ in files for link in code.links()]
    while True:
        new = {name for bound, reads in links if not names.isdisjoint(bound) for name in reads} - names
        if not new:
            return frozenset(names)
        names |= new


def _bindings(body: list[ast.stmt], owner: str = "") -> Iterator[_Binding]:
    for node in body:
        if isinstance(node, _Function):
            yield _Binding(_lines(node), body_of(node), frozenset({node.name}), _free(node), owner)
        elif isinstance(node, ast.ClassDef):
            head = [*node.bases, *node.keywords, *node.decorator_list]
            names = frozenset({node.name})
            yield _Binding(_lines(node), range(0), names, _reads(head), "")
            yield from _bindings(node.body, node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            yield _Binding(_lines(node), range(0), _stored(node), _reads([node]), owner)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                names = frozenset({alias.asname or alias.name})
                yield _Binding(_lines(node), range(0), names, frozenset({alias.name}), owner)
        else:
            for inner in (getattr(node, name, []) for name in ("body", "orelse", "finalbody")):
                yield from _bindings(inner, owner)


def _lines(node: ast.stmt) -> range:
    first = min([node.lineno, *(made.lineno for made in getattr(node, "decorator_list", []))])
    return range(first, (node.end_lineno or node.lineno) + 1)


def _free(function: ast.stmt) -> frozenset[str]:
    """The names that a function reads and does not bind itself; attributes too."""
    own = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)} | _stored(function)
    declared = {name for node in ast.walk(function) if isinstance(node, ast.Global) for name in node.names}
    attributes = {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
    return (_reads([function]) - (own - declared)) | attributes


def _reads(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """The names that are read, and the attributes."""
    found = [inner for node in nodes for inner in ast.walk(node)]
    read = {node.id for node in found if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return frozenset(read | {node.attr for node in found if isinstance(node, ast.Attribute)})


def _stored(statement: ast.AST) -> frozenset[str]:
    found = [node for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return frozenset(node.id for node in found)
