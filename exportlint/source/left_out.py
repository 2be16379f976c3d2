"""Arguments that a call may leave out: what an ``if mask is None`` puts in their place is there in such a call."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from exportlint.source.tree import descendants, is_none
from exportlint.source.values import LEFT_OUT, NONE, Tensor, Value, join, options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.source.state import State


def told(test: ast.expr, state: State) -> dict[str, bool]:
    """The variables that may be ``None`` before a test, and the answer that the test then gives."""
    return {name: answer for name, answer in _told(test) if _may_be_none(state.variables.get(name))}


def filled(names: dict[str, bool], true: State, false: State) -> dict[str, Value]:
    """What the variables are after an ``if``, where one of its sides put a tensor in the place of ``None``."""
    found: dict[str, Value] = {}
    if true.dead or false.dead:
        return found
    for name, answer in names.items():
        there, other = (side.variables.get(name) for side in ((true, false) if answer else (false, true)))
        if there is not None and other is not None:
            found[name] = in_place(there, other)
    return found


def chosen(names: dict[str, bool], node: ast.IfExp, true: Value, false: Value) -> Value:
    """What a conditional expression is that gives an argument, or a tensor in the place of ``None``."""
    for name, answer in names.items():
        there, other, part = (true, false, node.orelse) if answer else (false, true, node.body)
        if any(isinstance(each, ast.Name) and each.id == name for each in (part, *descendants(part))):
            return in_place(there, other)
    return join(true, false)


def in_place(there: Value, other: Value) -> Value:
    """What an argument is: a tensor that stays on a device of its own does so whatever else may be given."""
    joined = join(there, other)
    if not isinstance(there, Tensor) or not there.strays:
        return joined
    plain = Tensor(fed=True) if not isinstance(joined, Tensor) else joined
    return replace(
        plain,
        placement=there.placement,
        site=there.site,
        kept=there.kept if there.kept.startswith("device ") else plain.kept,
        home=there.home,
        scalar=there.scalar,
        beside=there.beside,
    )


def _told(test: ast.expr) -> Iterator[tuple[str, bool]]:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from ((name, not answer) for name, answer in _told(test.operand))
    elif isinstance(test, ast.BoolOp):  # one part of an `or` that holds is enough, as is one of an `and` that does not
        enough = isinstance(test.op, ast.Or)
        yield from ((name, answer) for part in test.values for name, answer in _told(part) if answer is enough)
    elif isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.left, ast.Name):
        operator = test.ops[0]
        if is_none(test.comparators[0]) and isinstance(operator, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
            yield test.left.id, isinstance(operator, (ast.Is, ast.Eq))


def _may_be_none(value: Value | None) -> bool:
    found = options(value) if value is not None else ()
    return value == LEFT_OUT or (NONE in found and len(found) > 1)
