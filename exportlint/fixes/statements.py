"""The text that edits of statements come to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from exportlint.fixes.blocks import indentation
from exportlint.fixes.effects import need_pure
from exportlint.fixes.imports import torch_name
from exportlint.fixes.tree import Text, Tree, UnfitError

if TYPE_CHECKING:
    from exportlint.fixes.edits import Asserted, Below, Guarded


def guarded(tree: Tree, edit: Guarded) -> list[Text]:
    """A statement under an ``if`` of its own; with the ``if`` on whose line it stands, if it does."""
    call = tree.find(edit.range, cst.Call)
    small = tree.parents[call]
    line = tree.parents.get(small)
    if not isinstance(small, cst.Expr) or not isinstance(line, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
        raise UnfitError("it does not stand alone on its line")
    if len(line.body) != 1:
        raise UnfitError("it does not stand alone on its line")
    if isinstance(line, cst.SimpleStatementSuite):
        line = _on_its_line(tree, line)
    start, space = tree.span(line)[0], indentation(tree, line)
    name, imports = torch_name(tree, edit.name)
    step = tree.module.default_indent
    return [*imports, Text(start, start, f"if not {name}():{tree.module.default_newline}{space}{step}")]


def _on_its_line(tree: Tree, suite: cst.SimpleStatementSuite) -> cst.If:
    """The ``if`` whose only statement stands on its line, and whose test does nothing else.

    Raises:
        UnfitError: When there is something else, or something is done otherwise.
    """
    outer = tree.parents[suite]
    if not isinstance(outer, cst.If) or outer.orelse is not None:
        raise UnfitError("it does not stand alone on its line")
    if not isinstance(tree.parents[outer], cst.IndentedBlock):
        raise UnfitError("it is one of several")
    need_pure(tree, outer.test)
    return outer


def asserted(tree: Tree, edit: Asserted) -> list[Text]:
    """An ``assert`` as an assertion that is recorded."""
    test = tree.expression(edit.range)
    statement = tree.parents[test]
    if not isinstance(statement, cst.Assert) or not isinstance(statement.msg, (cst.SimpleString, type(None))):
        raise UnfitError("it is no plain assertion")
    start, end = tree.span(statement)
    tree.uncommented(start, end)
    name, imports = torch_name(tree, "torch._assert_async")
    parts = [tree.source(each) for each in (statement.test, statement.msg) if each is not None]
    return [*imports, tree.replaced(start, end, f"{name}({', '.join(parts)})")]


def below(tree: Tree, edit: Below) -> list[Text]:
    """A class with a call that is given it, below."""
    for statement in tree.module.body:
        if isinstance(statement, cst.ClassDef) and statement.name.value == edit.cls:
            name, imports = torch_name(tree, edit.name)
            end = _line_end(tree, tree.span(statement)[1])
            line = tree.module.default_newline
            return [*imports, Text(end, end, f"{line}{line}{line}{name}({edit.cls})")]
    raise UnfitError("the class is not at the top level of the file")


def _line_end(tree: Tree, offset: int) -> int:
    """The offset at which the line of an offset ends, or that before it where the offset is where a line begins."""
    end = len(tree.text[:offset].rstrip())
    found = re.compile(r"[^\r\n]*").match(tree.text, end)
    return found.end() if found is not None else end
