"""``torch.cond`` and ``while_loop``: their branches are run, and what they return is looked at."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from exportlint.source.events import Branched, Paired
from exportlint.source.facts import facts
from exportlint.source.parameters import Arguments
from exportlint.source.sites import Site
from exportlint.source.tree import bound_in, descendants, parameters
from exportlint.source.values import NONE, UNKNOWN, External, Function, Sequence, Value, is_tensor, join_all, options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.source.interpreter import Interpreter
    from exportlint.source.state import State

_COND = frozenset({"torch.cond", "torch._higher_order_ops.cond", "functorch.experimental.control_flow.cond"})
_LOOP = frozenset(
    {"torch.while_loop", "torch._higher_order_ops.while_loop", "torch._higher_order_ops.while_loop.while_loop"}
)
# Methods whose result always shares the memory of the tensor.
_VIEWS = frozenset({
    "view", "view_as", "t", "transpose", "permute", "movedim", "unsqueeze", "squeeze", "expand", "expand_as", "detach",
    "narrow", "select", "diagonal", "unfold", "swapaxes",
})  # fmt: skip
_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "data"})


def result(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value | None:
    """The result of a call of ``torch.cond`` or ``while_loop``; ``None`` for other calls."""
    if name in _COND:
        return _cond(it, node, given, state)
    return _loop(it, node, given, state) if name in _LOOP else None


def _cond(it: Interpreter, node: ast.Call, given: Arguments, state: State) -> Value:
    if not is_tensor(given.get(0, "pred") or UNKNOWN):
        return UNKNOWN  # a Python bool takes one branch, which is then plain code
    operands = _operands(given.get(3, "operands"))
    found = [given.get(1, "true_fn") or UNKNOWN, given.get(2, "false_fn") or UNKNOWN]
    first, second = (_run(it, node, branch, operands, state, "torch.cond") for branch in found)
    it.emit(Paired(it.site(node, state), "torch.cond", first, second))
    return join_all((first, second))


def _loop(it: Interpreter, node: ast.Call, given: Arguments, state: State) -> Value:
    carried = given.get(2, "carried_inputs")
    result = _run(it, node, given.get(1, "body_fn") or UNKNOWN, _operands(carried), state, "while_loop")
    it.emit(Paired(it.site(node, state), "while_loop", result, carried or UNKNOWN))
    return result


def _operands(value: Value | None) -> Arguments:
    if value is None:
        return Arguments()
    items = value.items if isinstance(value, Sequence) else None
    return Arguments(open=True) if items is None else Arguments(items)


def _run(it: Interpreter, node: ast.Call, branch: Value, given: Arguments, state: State, name: str) -> Value:
    results: list[Value] = []
    for option in options(branch):
        if isinstance(option, Function):
            source = option.closure.module.source
            for part in _aliases(option.node, {p.name for p in parameters(option.node)}):
                it.emit(Branched(Site(source, part), name))
            for part in (
                _written(option.node, {p.name for p in parameters(option.node)}) if name == "torch.cond" else ()
            ):
                it.emit(Branched(Site(source, part), name, writes=True))
            results.append(it.invoke(option, given, state, it.site(node, state)))
        elif option != NONE:  # such as torch.sin
            from exportlint.source.calls import apply

            results.append(apply(it, node, option, given, state) if isinstance(option, External) else UNKNOWN)
    return join_all(tuple(results)) if results else UNKNOWN


def _written(node: ast.AST, names: set[str]) -> Iterator[ast.expr]:
    """What a branch writes to of what it is given, or of what it takes from around it: calls in place, and items."""
    given = names.difference(bound_in(node))
    for part in descendants(node):
        targets = part.targets if isinstance(part, ast.Assign) else ()
        yield from (t for t in targets if isinstance(t, ast.Subscript) and _is_shared(t.value, given))
        called = part.func if isinstance(part, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr in facts().methods and called.attr.endswith("_"):
            kept = isinstance(called.value, ast.Attribute) and isinstance(called.value.value, ast.Name)
            of_self = kept and called.value.value.id == "self"  # type: ignore[attr-defined]
            if not called.attr.startswith(("_", "requires_grad")) and (of_self or _is_shared(called.value, given)):
                yield part  # type: ignore[misc]


def _aliases(node: ast.AST, names: set[str]) -> Iterator[ast.expr]:
    """What a branch returns that shares the memory of what it is given."""
    if isinstance(node, ast.Lambda):
        yield from _shared(node.body, names)
        return
    given = names.difference(bound_in(node))
    parts = list(descendants(node))
    inner = {p for f in parts if isinstance(f, (ast.FunctionDef, ast.Lambda)) for p in descendants(f)}
    for part in parts:
        if isinstance(part, ast.Return) and part.value is not None and part not in inner:
            yield from _shared(part.value, given)


def _shared(node: ast.expr, names: set[str]) -> Iterator[ast.expr]:
    if isinstance(node, (ast.Tuple, ast.List)):
        for part in node.elts:
            yield from _shared(part, names)
    elif _is_shared(node, names):
        yield node


def _is_shared(node: ast.expr, names: set[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.Attribute):
        return node.attr in _ATTRIBUTES and _is_shared(node.value, names)
    if isinstance(node, ast.Subscript):
        index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        plain = all(isinstance(part, (ast.Slice, ast.Constant)) for part in index)
        return plain and _is_shared(node.value, names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in _VIEWS and _is_shared(node.func.value, names)
    return False
