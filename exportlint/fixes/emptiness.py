"""Questions whether there is anything, left out where nothing changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from exportlint.fixes.blocks import (
    assigned,
    count_of,
    decided,
    in_place_of,
    lines_of,
    names_in,
    only_one,
    receiver,
    rows_of,
    smalls,
    without,
)
from exportlint.fixes.tree import Text, Tree, UnfitError, last_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exportlint.fixes.edits import Unasked

# What gives a tensor other elements at places, all of which may be none, in place and otherwise.
_PLACED = (
    "index_copy",
    "index_add",
    "index_fill",
    "scatter",
    "scatter_add",
    "masked_fill",
    "masked_scatter",
    "index_put",
)
# What no tensor without elements has.
_EXTREMES = ("max", "min", "amax", "amin", "argmax", "argmin", "median", "mode", "aminmax", "item")
_MADE = ("zeros", "empty", "ones", "new_zeros", "new_empty", "new_ones")


def unasked(tree: Tree, edit: Unasked) -> list[Text]:
    """What is done where there is something, without the question; what is done where there is nothing goes."""
    node = decided(tree, tree.expression(edit.range))
    if node.orelse is not None:
        raise UnfitError("it does something else where there is nothing")
    name, filled = _asked(node.test)
    if filled:
        lines = lines_of(tree, node.body, tree.span(node.test)[1])
        _need_idle(tree, smalls(node.body.body), name, node)
        return [in_place_of(tree, node, lines)]
    only = only_one(node.body)
    if isinstance(only, cst.Continue):
        _need_idle(tree, _behind(tree, node, cst.For), name, tree.around(node, cst.For))
    elif not isinstance(only, cst.Return) or not _is_nothing(only.value):
        raise UnfitError("what it does where there is nothing is not known")
    else:
        _need_no_element(tree, node)
    return [without(tree, node)]


def _asked(test: cst.BaseExpression) -> tuple[str, bool]:
    """Of what it is asked whether there is any, and whether the answer is yes where there is some.

    Raises:
        UnfitError: When something else is asked.
    """
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        name, filled = _asked(test.expression)
        return name, not filled
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        name = count_of(test.left) or rows_of(test.left)
        operator, bound = test.comparisons[0].operator, test.comparisons[0].comparator
        limit = bound.value if isinstance(bound, cst.Integer) else ""
        if name and ((limit == "0" and isinstance(operator, (cst.GreaterThan, cst.NotEqual))) or (
            limit == "1" and isinstance(operator, cst.GreaterThanEqual)
        )):  # fmt: skip
            return name, True
        if name and ((limit == "0" and isinstance(operator, (cst.Equal, cst.LessThanEqual))) or (
            limit == "1" and isinstance(operator, cst.LessThan)
        )):  # fmt: skip
            return name, False
    name = count_of(test) or rows_of(test) or _any(test)
    if not name:
        raise UnfitError("it asks for more than whether there is anything")
    return name, True


def _any(node: cst.BaseExpression) -> str:
    """The mask of which an expression asks whether any of it is true."""
    if not isinstance(node, cst.Call) or last_name(node.func) != "any":
        return ""
    if len(node.args) == 1 and isinstance(node.args[0].value, cst.Name):
        return node.args[0].value.value
    return "" if node.args else receiver(node.func)


def _behind(tree: Tree, node: cst.If, kind: type[cst.For]) -> list[cst.BaseSmallStatement]:
    """The statements behind an ``if`` in the body of its loop."""
    block = tree.parents[node]
    if not isinstance(block, cst.IndentedBlock) or not isinstance(tree.parents[block], kind):
        raise UnfitError("it is not in the body of a loop")
    body = list(block.body)
    return smalls(body[body.index(node) + 1 :])


def _need_no_element(tree: Tree, node: cst.If) -> None:
    """Look whether what follows a question in its function does without any element.

    Raises:
        UnfitError: When it asks for the largest of all, the first, or the like.
    """
    function, end = tree.around(node, cst.FunctionDef), tree.span(node)[1]
    for call in tree.inside(function.body, cst.Call):
        if tree.span(call)[0] >= end and _asks_all(call):
            raise UnfitError("what follows needs an element")
    for part in tree.inside(function.body, cst.Subscript):
        first = part.slice[0].slice
        if tree.span(part)[0] >= end and isinstance(first, cst.Index) and isinstance(first.value, cst.Integer):
            raise UnfitError("what follows needs an element")


def _asks_all(call: cst.Call) -> bool:
    """Whether a call asks all elements of a tensor at once for one of them."""
    owner = last_name(call.func.value) if isinstance(call.func, cst.Attribute) else "torch"
    return last_name(call.func) in _EXTREMES and len(call.args) == (1 if owner == "torch" else 0)


def _is_nothing(value: cst.BaseExpression | None) -> bool:
    """Whether an expression makes a tensor without rows."""
    if not isinstance(value, cst.Call) or last_name(value.func) not in _MADE or not value.args:
        return False
    first = value.args[0].value
    if isinstance(first, (cst.Tuple, cst.List)) and first.elements:
        first = first.elements[0].value
    return isinstance(first, cst.Integer) and first.value == "0"


def _need_idle(tree: Tree, body: Iterable[cst.BaseSmallStatement], name: str, block: cst.BaseStatement) -> None:
    """Look whether statements change nothing where a tensor of places, or a mask, is empty.

    Raises:
        UnfitError: When one may.
    """
    fresh = [target for statement in body if (target := _changed(statement, name))]
    function = tree.around(block, cst.FunctionDef)
    start, end = tree.span(block)
    for node in names_in(tree, function):
        if node.value in fresh and not start <= tree.span(node)[0] < end:
            raise UnfitError("what it binds is used elsewhere")


def _changed(statement: cst.BaseSmallStatement, name: str) -> str:
    """What a statement binds that is to be used nowhere else; empty where it does nothing when nothing is chosen."""
    if isinstance(statement, cst.AugAssign) and _is_chosen(statement.target, name):
        return ""
    if isinstance(statement, cst.Expr) and _is_placed(statement.value, name, "_"):
        return ""
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        if _is_chosen(statement.targets[0].target, name):
            return ""
        target, value = assigned(statement)
        same = isinstance(value, cst.Call) and receiver(value.func) == target.value
        copy = isinstance(value, cst.Call) and last_name(value.func) == "clone" and not value.args
        if same and (copy or _is_placed(value, name, "")):
            return ""
        return target.value
    raise UnfitError("it may change something where there is nothing")


def _is_chosen(target: cst.BaseExpression, name: str) -> bool:
    """Whether a target is the places in a tensor that are asked about."""
    if not isinstance(target, cst.Subscript):
        return False
    slices = [part.slice for part in target.slice]
    return any(isinstance(s, cst.Index) and isinstance(s.value, cst.Name) and s.value.value == name for s in slices)


def _is_placed(value: cst.BaseExpression, name: str, end: str) -> bool:
    """Whether a call writes to the places that are asked about, and nowhere else."""
    if not isinstance(value, cst.Call) or last_name(value.func) not in [f"{each}{end}" for each in _PLACED]:
        return False
    return any(isinstance(arg.value, cst.Name) and arg.value.value == name for arg in value.args)
