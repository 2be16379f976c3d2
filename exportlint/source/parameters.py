"""Arguments and parameters: what a call hands over, and what the names of the function then are."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from exportlint.source.tree import Parameter, bound_in, keyword_only, parameters
from exportlint.source.tree import positional as positional_of
from exportlint.source.values import (
    NONE,
    SETTING,
    UNKNOWN,
    Const,
    Device,
    Dict,
    Function,
    Sequence,
    Static,
    Tensor,
    Value,
    settled,
)

if TYPE_CHECKING:
    from exportlint.source.interpreter import Interpreter
    from exportlint.source.state import State


_DEVICE = re.compile(r"(?:cpu|cuda|mps|xpu|hpu|npu)(?::\d+)?")
OPEN = "open"
"""Where a dictionary of keyword arguments is kept that holds more than is known."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a call hands over; `open` where a ``*`` or ``**`` hands over more than is known."""

    positional: tuple[Value, ...] = ()
    keywords: dict[str, Value] = field(default_factory=dict)
    open: bool = False

    @property
    def key(self) -> object:
        """Something that is equal for equal arguments; ``None`` where that cannot be told."""
        try:
            key = (self.positional, tuple(self.keywords.items()), self.open)
            hash(key)
        except TypeError:
            return None
        return key

    def get(self, position: int, keyword: str = "") -> Value | None:
        """The argument at a position or of a name; ``None`` where it is not given."""
        if keyword in self.keywords:
            return self.keywords[keyword]
        return self.positional[position] if 0 <= position < len(self.positional) else None

    @property
    def all(self) -> tuple[Value, ...]:
        """Every argument."""
        return (*self.positional, *self.keywords.values())


def bind(it: Interpreter, function: Function, arguments: Arguments, inner: State) -> None:
    """Give the function's parameters their values: arguments, defaults, or nothing known."""
    node = function.node
    positional = list(arguments.positional)
    if function.owner is not None and not isinstance(node, ast.Lambda):
        positional.insert(0, function.owner)
    keywords = dict(arguments.keywords)
    for parameter in positional_of(node.args):
        name = parameter.name
        if positional:
            inner.variables[name] = positional.pop(0)
        else:
            inner.variables[name] = _keyword(it, parameter, keywords, arguments, inner)
    if node.args.vararg is not None:
        inner.variables[node.args.vararg.arg] = (
            Sequence(tuple(positional), kind="tuple")
            if positional or not arguments.open
            else Sequence(None, _each(it, node.args.vararg, inner), "tuple")
        )
    for parameter in keyword_only(node.args):
        inner.variables[parameter.name] = _keyword(it, parameter, keywords, arguments, inner)
    if node.args.kwarg is not None:
        inner.variables[node.args.kwarg.arg] = Dict(tuple(keywords.items()), kept=OPEN if arguments.open else "")


def is_input(it: Interpreter, node: ast.AST) -> bool:
    """Whether an expression of the function that is captured is the name of a parameter that nothing binds anew."""
    function = it.stack[0] if len(it.stack) == 1 else None
    if not isinstance(node, ast.Name) or not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    return any(each.name == node.id for each in parameters(function)) and node.id not in bound_in(function)


def _each(it: Interpreter, parameter: ast.arg, inner: State) -> Value:
    """What each of the arguments is that a ``*`` takes, by its annotation."""
    from exportlint.source.calls import annotated

    return UNKNOWN if parameter.annotation is None else annotated(it, parameter.annotation, inner)


def _keyword(
    it: Interpreter, parameter: Parameter, keywords: dict[str, Value], arguments: Arguments, inner: State
) -> Value:
    name = parameter.name
    return keywords.pop(name) if name in keywords else default(it, parameter, arguments, inner)


def default(it: Interpreter, parameter: Parameter, arguments: Arguments, inner: State) -> Value:
    """What a parameter is for which no argument is known."""
    nothing: Value = SETTING if arguments.open and it.constructing else UNKNOWN
    if parameter.default is None:
        return nothing
    it.silent += 1
    value = it.expression(parameter.default, inner)
    it.silent -= 1
    place = f"default {parameter.name}"
    if isinstance(value, Tensor) and not value.kept:
        return replace(value, kept=place, home=place, beside=())
    if isinstance(value, (Sequence, Dict)) and not arguments.open:
        return settled(replace(value, kept=place), place)  # made once, for all calls
    if not arguments.open:
        return value
    if isinstance(value, (Sequence, Dict)) and not it.constructing and getattr(value, "kind", "") != "tuple":
        # Made once for all calls that give none; what those that do give holds is not known.
        return replace(value, items=(), kept=place) if isinstance(value, Dict) else Sequence(None, kept=place)
    if isinstance(value, Const) and value != NONE:
        nothing = Static(type(value.value).__name__, given=bool(it.constructing))
    return _device_at_import(it, parameter.default, value, inner) or nothing


def _device_at_import(it: Interpreter, node: ast.expr, value: Value, inner: State) -> Device | None:
    """The device that a default is, where it was chosen when the file ran; one that is written there is an offer."""
    written = isinstance(node, ast.Call) and node.args and all(isinstance(part, ast.Constant) for part in node.args)
    if written or isinstance(node, ast.Constant):
        return None
    if isinstance(value, Const) and isinstance(value.value, str) and _DEVICE.fullmatch(value.value):
        return Device("literal", value.value, it.site(node, inner))
    return value if isinstance(value, Device) and value.placement == "literal" else None
