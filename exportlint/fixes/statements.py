"""The text that edits of statements come to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from exportlint.fixes.imports import torch_name
from exportlint.fixes.tree import Text, Tree, UnfitError, last_name

if TYPE_CHECKING:
    from exportlint.fixes.edits import Asserted, Below, Guarded, Selected


def guarded(tree: Tree, edit: Guarded) -> list[Text]:
    """A statement under an ``if`` of its own."""
    call = tree.find(edit.range, cst.Call)
    small = tree.parents[call]
    line = tree.parents.get(small)
    if not isinstance(small, cst.Expr) or not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        raise UnfitError("it does not stand alone on its line")
    start = tree.span(line)[0]
    indentation = tree.text[tree.offset(tree.positions[line].start.line, 1) : start]
    if indentation.strip():
        raise UnfitError("it does not stand alone on its line")
    name, imports = torch_name(tree, edit.name)
    step = tree.module.default_indent
    return [*imports, Text(start, start, f"if not {name}():{tree.module.default_newline}{indentation}{step}")]


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


def selected(tree: Tree, edit: Selected) -> list[Text]:
    """``torch.where`` in place of a decision between two values."""
    test = tree.expression(edit.range)
    outer = tree.parents[test]
    if isinstance(outer, cst.IfExp) and outer.test is test:
        start, end = tree.span(outer)
        tree.uncommented(start, end)
        name, imports = torch_name(tree, "torch.where")
        return [*imports, tree.replaced(start, end, _where(tree, name, test, outer.body, outer.orelse))]
    if isinstance(outer, cst.If) and outer.test is test:
        return _decided(tree, outer)
    raise UnfitError("it decides more than two values")


def _where(tree: Tree, name: str, test: cst.BaseExpression, body: cst.BaseExpression, other: cst.BaseExpression) -> str:
    for value in (body, other):
        plain = isinstance(value, (cst.BaseString, cst.Tuple, cst.List, cst.Dict, cst.Lambda))
        if plain or last_name(value) in ("None", "True", "False"):
            raise UnfitError("it decides between values that are no tensors")
    return f"{name}({', '.join(tree.source(each) for each in (test, body, other))})"


def _decided(tree: Tree, node: cst.If) -> list[Text]:
    """An ``if`` that binds one name, or returns, either way."""
    block = tree.parents[node]
    if not isinstance(block, cst.IndentedBlock) or isinstance(node.orelse, cst.If):
        raise UnfitError("it is one of several")
    one = _only(node.body)
    other = _only(node.orelse.body) if isinstance(node.orelse, cst.Else) else None
    if isinstance(one, cst.Return) and other is None:
        other = _behind(node, block)
    start, end = tree.span(node)[0], tree.span(other or one)[1]
    tree.uncommented(start, end)
    name, imports = torch_name(tree, "torch.where")
    if isinstance(one, cst.Return) and isinstance(other, cst.Return) and one.value and other.value:
        text = f"return {_where(tree, name, node.test, one.value, other.value)}"
    else:
        text = _bound(tree, name, node, one, other)
    return [*imports, tree.replaced(start, end, text)]


def _behind(node: cst.If, block: cst.IndentedBlock) -> cst.BaseSmallStatement | None:
    """The statement that follows an ``if`` in its block."""
    following = list(block.body)[list(block.body).index(node) + 1 :]
    return _small(following[0]) if following and isinstance(following[0], cst.SimpleStatementLine) else None


def _bound(tree: Tree, name: str, node: cst.If, one: cst.CSTNode, other: cst.CSTNode | None) -> str:
    """The assignment that both ways of an ``if`` come to."""
    target, value = _assigned(one)
    if other is None:
        function = tree.around(node, cst.FunctionDef)
        before = tree.text[tree.span(function)[0] : tree.span(node)[0]]
        if not re.search(rf"\b{re.escape(target.value)}\b", before):
            raise UnfitError("the name may not be bound before")
        return f"{target.value} = {_where(tree, name, node.test, value, target)}"
    second, instead = _assigned(other)
    if second.value != target.value:
        raise UnfitError("it decides more than one value")
    return f"{target.value} = {_where(tree, name, node.test, value, instead)}"


def _assigned(statement: cst.CSTNode) -> tuple[cst.Name, cst.BaseExpression]:
    """The one name that a statement binds, and to what."""
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        target = statement.targets[0].target
        if isinstance(target, cst.Name):
            return target, statement.value
    raise UnfitError("it does more than binding a name")


def _only(body: cst.BaseSuite) -> cst.BaseSmallStatement:
    """The one statement of a block."""
    if isinstance(body, cst.IndentedBlock) and len(body.body) == 1:
        line = body.body[0]
        found = _small(line) if isinstance(line, cst.SimpleStatementLine) else None
        if found is not None:
            return found
    raise UnfitError("it does more than one thing")


def _small(line: cst.SimpleStatementLine) -> cst.BaseSmallStatement | None:
    return line.body[0] if len(line.body) == 1 else None
