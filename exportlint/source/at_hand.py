"""Tensors at hand: which names surely hold a tensor that follows the inputs, for fixes to take a device from."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from exportlint.source import call_sites
from exportlint.source.tree import FunctionNode, bound_in, children, is_none, parameters
from exportlint.source.values import Instance, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.fixes.edits import Fix
    from exportlint.rules.base import Match
    from exportlint.source.interpreter import Interpreter
    from exportlint.source.state import State


class AtHand(NamedTuple):
    """What is at hand at a place: the function around it, and the names of tensors that follow the inputs.

    Attributes:
        function: The function.
        names: Its variables.
        kept: Parameters and buffers of the object whose method it is, by ``self.NAME``.
    """

    function: ast.AST
    names: tuple[str, ...]
    kept: tuple[str, ...]


def note(it: Interpreter, node: ast.AST, state: State) -> None:
    """Note what is at hand where a tensor is made; where a place is reached more than once, what is so each time."""
    if it.silent or not it.stack:
        return
    found, before = _found(it, state), it.at_hand.get(node)
    if before is not None:
        names = tuple(name for name in before.names if name in found.names)
        found = AtHand(found.function, names, tuple(name for name in before.kept if name in found.kept))
    it.at_hand[node] = found


def _found(it: Interpreter, state: State) -> AtHand:
    names = tuple(name for name, v in state.variables.items() if isinstance(v, Tensor) and v.placement == "follows")
    owner = state.frame.owner
    if names or not isinstance(owner, Instance):
        return AtHand(it.stack[-1], names, ())
    this = next((name for name, value in state.variables.items() if value == owner), None)
    known = it.attributes.get(owner.key, {}).items() if this is not None else ()
    kept = tuple(f"{this}.{name}" for name, v in known if isinstance(v, Tensor) and v.kept in ("parameter", "buffer"))
    return AtHand(it.stack[-1], (), kept)


def missing(it: Interpreter, match: Match) -> str:
    """The rewrite of a match; where that needs a tensor, and a helper has none, what the helper needs."""
    there = it.at_hand.get(match.site.node)
    helper = there.function if there is not None and not (there.names or there.kept) else None
    if match.fix is None or not match.fix.needs_tensor or not isinstance(helper, FunctionNode):
        return match.rewrite
    if helper.name in ("forward", "__init__", "__call__"):
        return match.rewrite
    return f"Give `{helper.name}` a device, or a tensor to take it from: nothing at hand there says one."


def completed(it: Interpreter, match: Match) -> Fix | None:
    """The fix of a match with the name of a tensor at hand; ``None`` where it needs one and none is at hand."""
    fix = match.fix
    if fix is None or not fix.needs_tensor:
        return fix
    there, name = _at(it, match)
    if name is None or there is None:
        return None
    helps = len(it.stack) > 1 and isinstance(there.function, FunctionNode) and there.function.name != "forward"
    return fix.with_tensor(name, call_sites.behind(there.function, name) if helps else ())


def rewritten(it: Interpreter, match: Match, otherwise: str) -> str:
    """The rewrite of a match, or of its rule, with the name of the tensor at hand in place of ``x``."""
    name = _at(it, match)[1] if match.fix is not None and match.fix.needs_tensor else None
    if name is None:
        return match.rewrite
    return re.sub(r"\bx(?=\.)", name, match.rewrite or otherwise)


def _at(it: Interpreter, match: Match) -> tuple[AtHand | None, str | None]:
    """What is at hand where a match is, and the name that is best known to be bound."""
    node = match.site.node
    there = it.at_hand.get(node)
    if there is None and it.calling is not None and it.stack:
        there = _found(it, it.calling)
    return there, _best(node, there) if there is not None else None


def _best(node: ast.AST, there: AtHand) -> str | None:
    """The name that is best known to be bound: one of the same statement, a parameter, one that was bound before."""
    body = there.function.body if isinstance(there.function, FunctionNode) else []
    given = _given(there.function)
    bound = [*given, *_bound_before(node, body)]
    beside = _beside(node, body)
    for candidates in (beside, bound):
        for name in candidates:
            if name in there.names:
                return name
    return there.kept[0] if there.kept else None


def _given(function: ast.AST) -> list[str]:
    """The parameters of a function that surely hold what is given: one that is ``None`` by default may be that."""
    if not isinstance(function, (FunctionNode, ast.Lambda)):
        return []
    return [p.name for p in parameters(function) if not is_none(p.default)]


def _bound_before(node: ast.AST, body: list[ast.stmt]) -> Iterator[str]:
    """The names that statements of a function's own block bind which end before a place."""
    for statement in body:
        if (statement.end_lineno or 0) < getattr(node, "lineno", 0) and isinstance(statement, ast.Assign):
            yield from bound_in(statement)


def _beside(node: ast.AST, body: list[ast.stmt]) -> list[str]:
    """The names that the statement around a place reads and does not bind."""
    around = _innermost(node, body)
    if around is None:
        return []
    stored = set(bound_in(around))
    names = [n for n in _own(around) if isinstance(n, ast.Name)]
    return [n.id for n in names if isinstance(n.ctx, ast.Load) and n.id not in stored]


def _innermost(node: ast.AST, body: list[ast.stmt]) -> ast.stmt | None:
    """The innermost statement around a node below these."""
    waiting: list[tuple[ast.AST, ast.stmt]] = [(statement, statement) for statement in reversed(body)]
    while waiting:
        found, around = waiting.pop()
        if found is node:
            return around
        inner = found if isinstance(found, ast.stmt) else around
        waiting += [(child, inner) for child in children(found)]
    return None


def _own(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes below a statement that belong to no statement in it."""
    waiting = list(children(statement))[::-1]
    while waiting:
        found = waiting.pop()
        if not isinstance(found, ast.stmt):
            yield found
            waiting += list(children(found))[::-1]
