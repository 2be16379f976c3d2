"""Why a finding is where it is: the bindings and calls through which a value came there."""

from __future__ import annotations

import ast
import bisect
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exportlint.source.sites import Site
from exportlint.source.tree import FunctionNode, bound_in, descendants, parameters
from exportlint.source.values import Array, Number, Sequence, Shape, Size, Tensor, Truth, Value, options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.source.files import SourceFile
    from exportlint.source.interpreter import Interpreter

_LONGEST = 6  # steps
_VALUE, _ELEMENT = "comes from", "is an element of"
_CARRY = (Array, Number, Sequence, Shape, Size, Tensor, Truth)
Came = tuple[str, int, str]
"""A step: the file, the line, and what happens there, in words."""
Binding = tuple[ast.expr, str]
"""The value that a statement binds a variable to, and how."""


@dataclass(slots=True)
class _Place:
    """An expression in one of the functions that are being run: which of them, counted from the outermost."""

    node: ast.AST
    level: int
    source: SourceFile


def path(it: Interpreter, site: Site) -> tuple[Came, ...]:
    """The steps to what decides at a place, the first of them first; none where that stands in the place itself."""
    steps: list[Came] = []
    seen: set[tuple[int, str]] = set()
    place: _Place | None = _Place(site.node, len(it.stack) - 1, site.source)
    while place is not None and len(steps) < _LONGEST and place.level >= 0:
        name = _name(it, place, seen)
        place = None if name is None else _step(it, place, name, steps)
    return tuple(reversed(steps))


def _name(it: Interpreter, place: _Place, seen: set[tuple[int, str]]) -> str | None:
    """The variable in an expression that brings a tensor, a size or a number, as far as that is known."""
    function = it.stack[place.level]
    known = it.here.variables if it.here is not None and place.level == len(it.stack) - 1 else {}
    own = {p.name for p in parameters(function)} if isinstance(function, (FunctionNode, ast.Lambda)) else set()
    for node in (place.node, *descendants(place.node)):
        if not isinstance(node, ast.Name) or (place.level, node.id) in seen or node.id in ("self", "cls"):
            continue
        carries = _carries(known[node.id]) if node.id in known else True
        if carries and (node.id in own or _binding(it, function, node.id, place.node) is not None):
            seen.add((place.level, node.id))
            return node.id
    return None


def _carries(value: Value) -> bool:
    return any(isinstance(option, _CARRY) for option in options(value))


def _step(it: Interpreter, place: _Place, name: str, steps: list[Came]) -> _Place | None:
    """Go back to where a variable was bound, in this function or by its caller."""
    function = it.stack[place.level]
    bound = _binding(it, function, name, place.node)
    if bound is not None:
        line, value, how = bound
        steps.append((str(place.source.path), line, f"`{name}` {how} `{Site(place.source, value).text}`"))
        return _Place(value, place.level, place.source)
    call = it.calls[place.level]
    given = _argument(function, name, call.node) if call is not None else None
    if call is None or given is None:
        return None
    if not isinstance(given, ast.Name) or given.id != name:
        steps.append((str(call.source.path), call.line, f"`{name}` is given `{Site(call.source, given).text}`"))
    return _Place(given, place.level - 1, call.source)


def _binding(it: Interpreter, function: ast.AST, name: str, before: ast.AST) -> tuple[int, ast.expr, str] | None:
    """The last statement above a node that binds a variable: its line, the value, and how."""
    known = it.bindings.get(function)
    if known is None:
        known = it.bindings[function] = _by_name(function)
    bound = known.get(name, ())
    limit = getattr(before, "lineno", 0), getattr(before, "col_offset", 0)
    for value, how in reversed(bound[: bisect.bisect_right(bound, limit[0], key=_line)]):
        last = value.end_lineno or value.lineno
        later = (value.lineno, value.col_offset) >= limit or (limit[0] <= last and how != _ELEMENT)
        if not later:
            return value.lineno, value, how
    return None


def _by_name(function: ast.AST) -> dict[str, list[Binding]]:
    """What binds each variable of a function, by line."""
    found: dict[str, list[Binding]] = defaultdict(list)
    for node in descendants(function):
        for names, value, how in _bindings(node):
            for name in names:
                found[name].append((value, how))
    for bound in found.values():
        bound.sort(key=_line)
    return found


def _line(binding: Binding) -> int:
    return binding[0].lineno


def _bindings(node: ast.AST) -> Iterator[tuple[set[str], ast.expr, str]]:
    """The variables that a statement binds, each time with the value and how."""
    if isinstance(node, ast.Assign):
        yield from ((set(bound_in(target)), node.value, _VALUE) for target in node.targets)
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and node.value is not None:
        yield set(bound_in(node.target)), node.value, _VALUE
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        yield set(bound_in(node.target)), node.iter, _ELEMENT


def _argument(function: ast.AST, name: str, call: ast.AST) -> ast.expr | None:
    """What a call gives to a parameter, as far as its spelling says."""
    if not isinstance(call, ast.Call) or not isinstance(function, (FunctionNode, ast.Lambda)):
        return None
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    names = [p.name for p in parameters(function)]
    position = names.index(name) if name in names else len(call.args)
    position -= bool(names) and names[0] in ("self", "cls")
    plain = not any(isinstance(part, ast.Starred) for part in call.args[: position + 1])
    return call.args[position] if plain and 0 <= position < len(call.args) else None
