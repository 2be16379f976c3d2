"""The text that edits of decisions come to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from exportlint.fixes import numbers
from exportlint.fixes.blocks import assigned, decided, indentation, only_one, reduction_in, resizes
from exportlint.fixes.conditions import alone
from exportlint.fixes.edits import Selected
from exportlint.fixes.effects import need_pure
from exportlint.fixes.imports import torch_name
from exportlint.fixes.tree import Text, Tree, UnfitError, applied, last_name

if TYPE_CHECKING:
    from exportlint.fixes.edits import Skipped, Unread


def skipped(tree: Tree, edit: Skipped) -> list[Text]:
    """A test that may forget a mask, asked in eager alone."""
    node = decided(tree, tree.expression(edit.range))
    only = only_one(node.body)
    if node.orelse is not None or only is None or last_name(assigned(only)[1]) != "None":
        raise UnfitError("it does more than forgetting a mask")
    if "mask" not in assigned(only)[0].value.lower() or not _asks_for_all(tree, node, edit):
        raise UnfitError("it is no mask that masks nothing")
    name, imports = torch_name(tree, "torch.compiler.is_compiling")
    start = tree.span(node.test)[0]
    if isinstance(node.test, cst.BooleanOperation) and isinstance(node.test.operator, cst.And) and not node.test.lpar:
        return [*imports, Text(start, start, f"not {name}() and ")]
    return [*imports, tree.replaced(*_outside(tree, node.test), f"not {name}() and {_grouped(tree, node.test)}")]


def _asks_for_all(tree: Tree, node: cst.If, edit: Skipped) -> bool:
    """Whether what asks a tensor in a test is true where a mask masks nothing: ``mask.all()``, ``not mask.any()``."""
    asked = tree.expression(edit.range)
    negated = isinstance(asked, cst.UnaryOperation) and isinstance(asked.operator, cst.Not)
    call = asked.expression if isinstance(asked, cst.UnaryOperation) else asked
    outer = tree.parents[asked]
    if isinstance(outer, cst.UnaryOperation) and isinstance(outer.operator, cst.Not):
        negated, outer = not negated, tree.parents[outer]
    plain = outer is node or (isinstance(outer, cst.BooleanOperation) and isinstance(outer.operator, cst.And))
    return plain and isinstance(call, cst.Call) and last_name(call.func) == ("any" if negated else "all")


def _outside(tree: Tree, node: cst.BaseExpression) -> tuple[int, int]:
    """The offsets of an expression with the parentheses around it."""
    text = tree.source(node)
    start, end = tree.span(node)
    before = text.index(tree.text[start:end])
    return start - before, start - before + len(text)


def _grouped(tree: Tree, node: cst.BaseExpression) -> str:
    text = tree.source(node)
    return f"({text})" if isinstance(node, (cst.BooleanOperation, cst.IfExp, cst.Lambda)) and not node.lpar else text


def unread(tree: Tree, edit: Unread) -> list[Text]:
    """A number that is read out of a tensor and decides between two values, as ``torch.where`` of the tensor."""
    test = tree.expression(edit.test)
    asked = test.expression if isinstance(test, cst.UnaryOperation) else test
    if not isinstance(asked, cst.Comparison):
        raise UnfitError("it asks a number for its truth")
    other = numbers.unread(tree, edit)
    made = selected(other, Selected(numbers.shifted(edit.test, tree, other)))
    return [tree.replaced(0, len(tree.text), applied(other.text, made))]


def selected(tree: Tree, edit: Selected) -> list[Text]:
    """``torch.where`` in place of a decision between two values."""
    test = tree.expression(edit.range)
    outer = tree.parents[test]
    if isinstance(outer, cst.UnaryOperation) and isinstance(outer.operator, cst.Not):
        test, outer = outer, tree.parents[outer]
    if isinstance(outer, cst.IfExp) and outer.test is test:
        _need_place_for_tensor(tree, outer)
        start, end = tree.span(outer)
        tree.uncommented(start, end)
        name, imports = torch_name(tree, "torch.where")
        condition = alone(tree, test, known=edit.alone)
        return [*imports, tree.replaced(start, end, _where(tree, f"{name}({condition}", outer.body, outer.orelse))]
    if isinstance(outer, cst.If) and outer.test is test:
        return chosen(tree, outer, known=edit.alone)
    raise UnfitError("it decides more than two values")


def _need_place_for_tensor(tree: Tree, node: cst.IfExp) -> None:
    """Look whether a tensor may stand in the place of what is decided.

    Raises:
        UnfitError: When Python needs a number there.
    """
    outer = tree.parents[node]
    call = tree.parents.get(outer) if isinstance(outer, cst.Arg) else None
    counted = isinstance(call, cst.Call) and last_name(call.func) in ("range", "slice", "int", "float", "bool", "len")
    if counted or isinstance(outer, (cst.Index, cst.Slice)):
        raise UnfitError("Python needs a number there")


def _where(tree: Tree, begun: str, body: cst.BaseExpression, other: cst.BaseExpression) -> str:
    """The call of ``torch.where``, of which the text up to the condition is given."""
    for value in (body, other):
        need_pure(tree, value)
        plain = isinstance(value, (cst.BaseString, cst.Tuple, cst.List, cst.Dict, cst.Lambda))
        if plain or resizes(value) or last_name(value) in ("None", "True", "False"):
            raise UnfitError("it decides between values that are no tensors")
    if reduction_in(body) != reduction_in(other):
        raise UnfitError("it decides between tensors of other dimensions")
    return f"{begun}, {tree.source(body)}, {tree.source(other)})"


def chosen(tree: Tree, node: cst.If, *, known: bool = True) -> list[Text]:
    """An ``if`` that binds one name, or returns, either way, as ``torch.where``.

    Args:
        tree: The file.
        node: The ``if``.
        known: Whether its test surely has no dimension.

    Raises:
        UnfitError: When it does more.
    """
    block = tree.parents[node]
    if not isinstance(block, cst.IndentedBlock) or isinstance(node.orelse, cst.If):
        raise UnfitError("it is one of several")
    one = _only(node.body)
    other = _only(node.orelse.body) if isinstance(node.orelse, cst.Else) else None
    if isinstance(one, cst.Return) and other is None:
        other = _behind(node, block)
    start, end = tree.span(node)[0], tree.span(other or one)[1]
    kept = _comments(tree, node, start, end)
    name, imports = torch_name(tree, "torch.where")
    begun = f"{name}({alone(tree, node.test, known=known)}"
    if isinstance(one, cst.Return) and isinstance(other, cst.Return) and one.value and other.value:
        text = f"return {_where(tree, begun, one.value, other.value)}"
    else:
        text = _bound(tree, begun, node, one, other)
    return [*imports, tree.replaced(start, end, kept + text)]


def _comments(tree: Tree, node: cst.If, start: int, end: int) -> str:
    """The comments in an ``if``, which goes, as lines before what comes in its place.

    Raises:
        HinderedError: When one stands elsewhere, behind the ``if``.
    """
    there = [comment for comment in tree.inside(node, cst.Comment) if start <= tree.span(comment)[0] < end]
    found = [comment.value for comment in there]
    if tree.text[start:end].count("#") > sum(comment.count("#") for comment in found):
        tree.uncommented(start, end)
    space = tree.module.default_newline + indentation(tree, node)
    return "".join(comment + space for comment in found)


def _behind(node: cst.If, block: cst.IndentedBlock) -> cst.BaseSmallStatement | None:
    """The statement that follows an ``if`` in its block."""
    following = list(block.body)[list(block.body).index(node) + 1 :]
    return _small(following[0]) if following and isinstance(following[0], cst.SimpleStatementLine) else None


def _bound(tree: Tree, begun: str, node: cst.If, one: cst.CSTNode, other: cst.CSTNode | None) -> str:
    """The assignment that both ways of an ``if`` come to."""
    target, value = assigned(one)
    if other is None:
        function = tree.around(node, cst.FunctionDef)
        before = tree.text[tree.span(function)[0] : tree.span(node)[0]]
        if not re.search(rf"\b{re.escape(target.value)}\b", before):
            raise UnfitError("the name may not be bound before")
        return f"{target.value} = {_where(tree, begun, value, target)}"
    second, instead = assigned(other)
    if second.value != target.value:
        raise UnfitError("it decides more than one value")
    return f"{target.value} = {_where(tree, begun, value, instead)}"


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
