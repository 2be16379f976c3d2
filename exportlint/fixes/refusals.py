"""The text that edits of an ``if`` come to that refuses an input: assertions that are recorded in the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from exportlint.fixes.blocks import decided, in_place_of, names_in, only_one
from exportlint.fixes.conditions import opposite
from exportlint.fixes.imports import torch_name
from exportlint.fixes.tree import HinderedError, Text, Tree, UnfitError, last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.fixes.edits import Checked, Raised

# Functions of torch that raise the same kind of error; `torch._check` raises a RuntimeError.
_CHECKS = {
    "ValueError": "torch._check_value",
    "IndexError": "torch._check_index",
    "TypeError": "torch._check_type",
    "NotImplementedError": "torch._check_not_implemented",
}
_OPPOSITE: dict[type[cst.BaseCompOp], str] = {
    cst.LessThan: ">=",
    cst.LessThanEqual: ">",
    cst.GreaterThan: "<=",
    cst.GreaterThanEqual: "<",
    cst.Equal: "!=",
    cst.NotEqual: "==",
}


def raised(tree: Tree, edit: Raised) -> list[Text]:
    """An ``if`` that only raises, as an assertion of the opposite that is recorded."""
    node, error = _refusing(tree, edit)
    start, end = tree.span(node)
    tree.uncommented(start, end)
    name, imports = torch_name(tree, "torch._assert_async")
    parts = [opposite(tree, node.test), *_words(tree, error)]
    return [*imports, tree.replaced(start, end, f"{name}({', '.join(parts)})")]


def _words(tree: Tree, error: cst.BaseExpression) -> list[str]:
    """The text that an error is raised with, which is known before."""
    given = error.args if isinstance(error, cst.Call) else ()
    if not given:
        return []
    if len(given) > 1 or not isinstance(given[0].value, cst.SimpleString):
        raise UnfitError("its words are not known before")
    return [tree.source(given[0].value)]


def checked(tree: Tree, edit: Checked) -> list[Text]:
    """An ``if`` that only raises, and asks Python numbers, as calls of `torch._check` that demand the opposite.

    The words of the error go into a comment: a strict export refuses a call that is given a function for them.
    """
    node, error = _refusing(tree, edit)
    tree.uncommented(*tree.span(node))
    asked = {name.value for name in names_in(tree, tree.expression(edit.range))}
    parts = list(_demanded(tree, node.test, refused=True))
    if not all(asked & {name.value for name in names_in(tree, part)} for part, _ in parts):
        raise UnfitError("it asks for something else as well")
    raised = last_name(error.func if isinstance(error, cst.Call) else error)
    name, imports = torch_name(tree, _CHECKS.get(raised, "torch._check"))
    calls = [f"{name}({text})" for text in dict.fromkeys(text for _, text in parts)]
    return [*imports, in_place_of(tree, node, [*_comment(error), *calls])]


def _refusing(tree: Tree, edit: Checked | Raised) -> tuple[cst.If, cst.BaseExpression]:
    """The ``if`` whose test a node is in, and the error that is all it comes to.

    Raises:
        UnfitError: When it does more.
    """
    node = decided(tree, tree.expression(edit.range))
    only = only_one(node.body)
    if not isinstance(only, cst.Raise) or only.exc is None or node.orelse is not None:
        raise UnfitError("it does more than raising an error")
    if any(isinstance(outer, (cst.Try, cst.TryStar)) for outer in tree.outwards(node)):
        raise UnfitError("the error may be caught")
    return node, only.exc


def _demanded(tree: Tree, test: cst.BaseExpression, *, refused: bool) -> Iterator[tuple[cst.BaseExpression, str]]:
    """What must hold, in comparisons of their own: what a test says, or of a refused one the opposite.

    Raises:
        UnfitError: When it does not come to comparisons that must all hold.
    """
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        yield from _demanded(tree, test.expression, refused=not refused)
    elif isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.Or if refused else cst.And):
        yield from _demanded(tree, test.left, refused=refused)
        yield from _demanded(tree, test.right, refused=refused)
    elif isinstance(test, cst.Comparison) and (len(test.comparisons) == 1 or not refused):
        yield from ((test, text) for text in _comparisons(tree, test, refused=refused))
    else:
        raise UnfitError("it asks more than comparisons that must all hold")


def _comparisons(tree: Tree, test: cst.Comparison, *, refused: bool) -> Iterator[str]:
    """The parts of a comparison, or the opposite of its one part. torch cannot demand what a remainder is."""
    if any(tree.inside(test, cst.Modulo)):
        raise UnfitError("it asks for a remainder")
    left = test.left
    for target in test.comparisons:
        if type(target.operator) not in _OPPOSITE or (left is not test.left and not isinstance(left, cst.Name)):
            raise UnfitError("it compares otherwise than plain numbers")
        same = cst.Module([]).code_for_node(target.operator).strip()
        operator = _OPPOSITE[type(target.operator)] if refused else same
        yield f"{tree.source(left)} {operator} {tree.source(target.comparator)}"
        left = target.comparator


def _comment(error: cst.BaseExpression) -> list[str]:
    """The words of an error as the line of a comment.

    Raises:
        HinderedError: When they cannot be one.
    """
    given = error.args if isinstance(error, cst.Call) else ()
    if not given:
        return []
    words = _literal(given[0].value)
    if len(given) > 1 or words is None or not words.isprintable():
        raise HinderedError("the words of the error would be lost")
    return [f"# else: {words}"]


def _literal(node: cst.BaseExpression) -> str | None:
    """The words of a text as they are written; ``None`` where it is no literal."""
    if isinstance(node, cst.SimpleString):
        return node.evaluated_value if isinstance(node.evaluated_value, str) else None
    if isinstance(node, cst.FormattedString):
        return "".join(cst.Module([]).code_for_node(part) for part in node.parts)
    if isinstance(node, cst.ConcatenatedString):
        left, right = _literal(node.left), _literal(node.right)
        return None if left is None or right is None else left + right
    return None
