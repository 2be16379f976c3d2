"""The text of a test that becomes a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from exportlint.fixes.tree import UnfitError, is_atom, last_name

if TYPE_CHECKING:
    from exportlint.fixes.tree import Tree


def alone(tree: Tree, test: cst.BaseExpression, *, known: bool) -> str:
    """A test as a tensor of one bool without dimensions, which it has already where that is known.

    Raises:
        UnfitError: When it asks Python for more than one thing.
    """
    found = condition(tree, test)
    if known:
        return found
    return f"{found}.reshape(())" if is_atom(test) else f"({found}).reshape(())"


def condition(tree: Tree, test: cst.BaseExpression) -> str:
    """A test as a tensor of bools: what compares whole tensors does it element by element.

    Raises:
        UnfitError: When it asks Python for more than one thing.
    """
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return opposite(tree, test.expression)
    if isinstance(test, cst.BooleanOperation):
        raise UnfitError("it asks Python for more than one thing")
    if isinstance(test, cst.Call) and last_name(test.func) == "equal":
        values = [arg.value for arg in test.args]
        if isinstance(test.func, cst.Attribute) and last_name(test.func.value) != "torch":
            values.insert(0, test.func.value)
        if len(values) != 2 or not all(map(is_atom, values)):
            raise UnfitError("what is compared is not plain")
        return f"({tree.source(values[0])} == {tree.source(values[1])}).all()"
    return tree.source(test)


def opposite(tree: Tree, test: cst.BaseExpression) -> str:
    """The opposite of a test as a tensor of bools.

    Raises:
        UnfitError: When it asks Python for more than one thing.
    """
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return condition(tree, test.expression)
    found = condition(tree, test)
    return f"~{found}" if is_atom(test) else f"~({found})"
