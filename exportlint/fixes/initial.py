"""Lines for ``__init__``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from exportlint.fixes.tree import Text, Tree, UnfitError, last_name

if TYPE_CHECKING:
    from collections.abc import Iterator


def in_init(tree: Tree, cls: cst.ClassDef, line: str) -> Text:
    """The edit that writes a line behind where ``__init__`` of a class has the module initialised.

    Raises:
        UnfitError: When there is no such place.
    """
    methods = [each for each in cls.body.body if isinstance(each, cst.FunctionDef) and each.name.value == "__init__"]
    if not methods:
        return _own_init(tree, cls, line)
    for statement in methods[0].body.body:
        start, end = tree.span(statement)
        if isinstance(statement, cst.SimpleStatementLine) and ".__init__(" in tree.text[start:end]:
            space = tree.text[tree.offset(tree.positions[statement].start.line, 1) : start]
            rest = re.compile(r"[^\r\n]*").match(tree.text, end)
            behind = rest.end() if rest is not None else end
            return Text(behind, behind, f"{tree.module.default_newline}{space}{line}")
    raise UnfitError("__init__ does not initialise the module in a line of its own")


def _own_init(tree: Tree, cls: cst.ClassDef, line: str) -> Text:
    """The edit that gives a class an ``__init__``, whose only base takes no arguments."""
    first = next(_methods(cls), None)
    if first is None or len(cls.bases) != 1 or last_name(cls.bases[0].value) != "Module":
        raise UnfitError("the class has no __init__ that could do it")
    start = tree.span(first.decorators[0] if first.decorators else first)[0]
    space = tree.text[tree.offset(tree.positions[first].start.line, 1) : tree.span(first)[0]]
    step, end = tree.module.default_indent, tree.module.default_newline
    lines = [f"{space}{step}super().__init__()", f"{space}{step}{line}", "", space]
    return Text(start, start, end.join(["def __init__(self):", *lines]))


def _methods(cls: cst.ClassDef) -> Iterator[cst.FunctionDef]:
    return (each for each in cls.body.body if isinstance(each, cst.FunctionDef))
