"""Operators and conversions that are spelt as calls: functions of ``operator``, and special methods called by name."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from exportlint.source import builtin_calls, tensors
from exportlint.source.events import Converted
from exportlint.source.values import (
    UNKNOWN,
    Number,
    Size,
    Static,
    Tensor,
    Truth,
    Value,
    is_exact,
    is_tensor,
)

if TYPE_CHECKING:
    from exportlint.source.interpreter import Interpreter
    from exportlint.source.parameters import Arguments
    from exportlint.source.state import State

_COMPARED: dict[str, type[ast.cmpop]] = {
    "eq": ast.Eq,
    "ne": ast.NotEq,
    "lt": ast.Lt,
    "le": ast.LtE,
    "gt": ast.Gt,
    "ge": ast.GtE,
}
_COMPUTED = frozenset({"add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "neg", "pos", "abs"})


def call(it: Interpreter, node: ast.Call, short: str, given: Arguments, state: State) -> Value:
    """A function of ``operator`` that compares, computes or converts."""
    from exportlint.source.expressions import compared

    if short in _COMPUTED and any(is_tensor(value) for value in given.positional):
        return tensors.combine(it, node, given.positional, state)
    if short == "index" and given.positional:
        return _index(it, node, given.positional[0], state)
    if short not in _COMPARED or len(given.positional) != 2:
        return UNKNOWN
    return compared(it, node, _COMPARED[short](), (given.positional[0], given.positional[1]), state)


def special(
    it: Interpreter, node: ast.Call, receiver: Value, name: str, given: Arguments, state: State
) -> Value | None:  # fmt: skip
    """The result of a special method of a tensor or number; ``None`` for what is none, or is not known."""
    short = name.removeprefix("__").removesuffix("__")
    if name != f"__{short}__" or not isinstance(receiver, (Tensor, Number, Truth, Size)):
        return None
    given = replace(given, positional=(receiver, *given.positional))
    if short == "bool" or (short in ("int", "float") and isinstance(receiver, Tensor)):
        return builtin_calls.call(it, node, short, given, state)
    if short in ("index", "int", "float"):  # which asks a symbol for its number, where `int` of it is another symbol
        return _index(it, node, receiver, state)
    if short == "len" and isinstance(receiver, Tensor):  # which is not asked for a number, as by `len`
        return tensors.size_of(receiver, 0)
    return call(it, node, short, given, state) if short in _COMPARED or short in _COMPUTED else None


def _index(it: Interpreter, node: ast.Call, value: Value, state: State) -> Value:
    if not is_exact(value):
        it.emit(Converted(it.site(node, state), value, "index"))
    if isinstance(value, Number):
        return value
    return Number("int", it.site(node, state)) if is_tensor(value) and not is_exact(value) else Static("int")
