"""Decorators of torch that decide what a capture makes of the function under them."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from exportlint.source.events import Called
from exportlint.source.state import Frame, State
from exportlint.source.values import NONE, UNKNOWN, External, Function, Tensor, Value, options

if TYPE_CHECKING:
    from exportlint.source.interpreter import Interpreter
    from exportlint.source.parameters import Arguments
    from exportlint.source.sites import Site

CUSTOM = "torch.library.custom_op"
_DISABLED = frozenset({"torch.compiler.disable", "torch._dynamo.disable", "torch._dynamo.decorators.disable"})
_AUTOCAST = "autocast"


class Decorator(NamedTuple):
    """A decorator: its canonical name, and where it stands."""

    name: str
    node: ast.expr


def called(it: Interpreter, function: Function, given: Arguments, state: State, at: Site | None) -> Value | None:
    """Tell what the decorators of a function that is called do to the call.

    Returns:
        What the call returns, where no capture looks into the function; ``None`` where one does.
    """
    for decorator in _of(it, function):
        if decorator.name == CUSTOM:
            return _operator(it, function, decorator, given, at)
        if decorator.name in _DISABLED and at is not None:
            it.emit(Called(at, "torch.compiler.disable", None, given.positional, given.keywords, UNKNOWN))
        elif decorator.name.endswith(_AUTOCAST) and function.entry is not None:
            it.expression(decorator.node, State(Frame(function.entry.module)))
    return None


def _of(it: Interpreter, function: Function) -> tuple[Decorator, ...]:
    entry = function.entry
    if entry is None or not entry.decorators or isinstance(function.node, ast.Lambda):
        return ()
    if id(entry) not in it.decorators:
        it.decorators[id(entry)] = ()
        it.silent += 1
        frame = State(Frame(entry.module))
        found = [(it.expression(_callee(node), frame), node) for node in function.node.decorator_list]
        it.silent -= 1
        it.decorators[id(entry)] = tuple(Decorator(v.name, node) for v, node in found if isinstance(v, External))
    return it.decorators[id(entry)]


def _callee(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _operator(
    it: Interpreter, function: Function, decorator: Decorator, given: Arguments, at: Site | None
) -> Value:  # fmt: skip
    """A custom operator returns what its annotation says: what it does stays inside of it."""
    from exportlint.source.calls import annotated

    node, entry = function.node, function.entry
    returns = None if isinstance(node, ast.Lambda) else node.returns
    if entry is None or returns is None:
        return UNKNOWN
    value = annotated(it, returns, State(Frame(entry.module)))
    result = tuple(replace(v, full=False) if isinstance(v, Tensor) else v for v in options(value))
    named = decorator.node.args[:1] if isinstance(decorator.node, ast.Call) else ()
    name = next((operator_name(n.value) for n in named if isinstance(n, ast.Constant)), "")
    if at is not None and name and value != NONE:
        it.emit(Called(at, name, function, given.positional, given.keywords, value))
    return result[0] if len(result) == 1 else value


def operator_name(text: object) -> str:
    """The name that ``space::name`` has in ``torch.ops``; empty where it is none."""
    return f"torch.ops.{text.replace('::', '.')}" if isinstance(text, str) and text.count("::") == 1 else ""
