"""Tests of where a tensor is, and what they decide: whether another device would have something else computed.

Most such tests choose a kernel, or move something: both sides then compute the same. Told is only what is sure: a side
of plain arithmetic that the other side does not do, and numbers that the other device cannot hold.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from exportlint.source.dtypes import CASTS, DTYPES
from exportlint.source.events import Parted
from exportlint.source.index import dotted
from exportlint.source.tree import children, descendants, same
from exportlint.source.values import Const, Device, External, Sequence, Static, Tensor, Value, is_tensor, options

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from exportlint.source.interpreter import Interpreter
    from exportlint.source.sites import Site
    from exportlint.source.state import State

_FLAGS = {f"is_{kind}": kind for kind in ("cuda", "cpu", "mps", "xpu")}
_KINDS = frozenset({*_FLAGS.values(), "hpu", "npu", "mlu", "musa", "xla", "mtia", "ipu", "vulkan"})
_LACKING = {"mps": frozenset({"torch.float64", "torch.complex128"})}
_PLAIN = (ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.expr_context)


class Question(NamedTuple):
    """A test of where a tensor is: the place, the types of devices it names, and its answer there."""

    site: Site
    kinds: frozenset[str]
    answer: bool = True


def flag(it: Interpreter, node: ast.Attribute, base: Value, state: State) -> Static | None:
    """The value of ``x.is_cuda`` and its like; ``None`` for other attributes."""
    if node.attr not in _FLAGS or not isinstance(base, Tensor) or base.placement != "follows":
        return None
    return Static(node.attr, asks=Question(it.site(node, state), frozenset({_FLAGS[node.attr]})))


def compared(it: Interpreter, node: ast.AST, op: ast.cmpop, pair: tuple[Value, Value], state: State) -> Static | None:
    """The value of ``x.device.type == "cuda"`` and its like; ``None`` for other comparisons."""
    named, follows = [side for side in pair if not _follows(side)], [side for side in pair if _follows(side)]
    if len(follows) != 1 or not isinstance(op, (ast.Eq, ast.NotEq, ast.In, ast.NotIn)):
        return None
    kinds = _kinds(named[0])
    if not kinds or (isinstance(op, (ast.In, ast.NotIn)) and pair[0] is not follows[0]):
        return None
    if _is_whole(node) and kinds != {"cpu"}:
        return None  # `cuda` is not equal to `cuda:0`, and no device is to a text
    return Static("bool", asks=Question(it.site(node, state), kinds, isinstance(op, (ast.Eq, ast.In))))


def _is_whole(node: ast.AST) -> bool:
    """Whether a comparison names the attribute ``device`` of something, not the type of a device."""
    sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
    return any(isinstance(side, ast.Attribute) and side.attr == "device" for side in sides)


def _follows(value: Value) -> bool:
    return isinstance(value, Device) and value.placement == "follows"


def _kinds(value: Value) -> frozenset[str]:
    """The types of devices that a value names; none where it may be anything else."""
    parts = value.items or () if isinstance(value, Sequence) else (value,)
    names = [
        part.value if isinstance(part, Const) else part.name if isinstance(part, Device) else None for part in parts
    ]
    if not all(isinstance(name, str) and name for name in names):
        return frozenset()
    return _KINDS & {str(name).partition(":")[0] for name in names}


def question(it: Interpreter, test: ast.expr, state: State) -> Question | None:
    """What a condition asks, where it asks for nothing but where a tensor is."""
    if not _may_ask(test):
        return None
    if isinstance(test, ast.UnaryOp):
        inner = question(it, test.operand, state)
        return inner and inner._replace(answer=not inner.answer)
    if isinstance(test, ast.BoolOp):
        parts = [question(it, part, state) for part in test.values]
        return _any_of([part for part in parts if part is not None], len(parts), isinstance(test.op, ast.Or))
    it.silent += 1
    value = it.expression(test, state)
    it.silent -= 1
    return value.asks if isinstance(value, Static) and isinstance(value.asks, Question) else None


def _any_of(found: list[Question], parts: int, either: bool) -> Question | None:
    """One question for several: ``a or b`` names the devices of both, as ``not a and not b`` does."""
    if len(found) < parts or any(each.answer is not either for each in found):
        return None
    return Question(found[0].site, frozenset().union(*(each.kinds for each in found)), either)


def parts(it: Interpreter, node: ast.If | ast.IfExp, state: State) -> None:
    """Report a condition that asks where a tensor is, and decides what is computed."""
    asked = None if it.silent else question(it, node.test, state)
    if asked is None:
        return
    sides = _blocks(it, node)
    there, here = sides if asked.answer else sides[::-1]
    casts, others = _casts(it, there, state), _casts(it, here, state)
    for kind in sorted(asked.kinds):
        lacking = (others - casts) & _LACKING.get(kind, frozenset())
        if lacking:
            it.emit(Parted(asked.site, kind, min(lacking)))
            return
    if _differ(it, there, here, state):
        it.emit(Parted(asked.site, min(asked.kinds)))
    elif casts != others:
        it.emit(Parted(asked.site, min(asked.kinds), casts=True))


def _may_ask(test: ast.expr) -> bool:
    """Whether a condition is made of what may ask: others need not be evaluated again."""
    if isinstance(test, ast.UnaryOp):
        return isinstance(test.op, ast.Not) and _may_ask(test.operand)
    if isinstance(test, ast.BoolOp):
        return all(map(_may_ask, test.values))
    if isinstance(test, ast.Compare):
        return len(test.ops) == 1 and all(map(_is_plain, (test.left, *test.comparators)))
    return isinstance(test, (ast.Name, ast.Attribute)) and _is_plain(test)


def _is_plain(node: ast.expr) -> bool:
    """Whether an expression is a name, an attribute of one, or made of constants."""
    if isinstance(node, ast.Call):
        return dotted(node.func).endswith("device") and all(isinstance(part, ast.Constant) for part in node.args)
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return all(isinstance(part, ast.Constant) for part in node.elts)
    return isinstance(node, (ast.Constant, ast.Name)) or (isinstance(node, ast.Attribute) and _is_plain(node.value))


def _blocks(it: Interpreter, node: ast.If | ast.IfExp) -> list[list[ast.AST]]:
    """Both sides of a condition; of an ``if`` that returns, the other is what follows."""
    if isinstance(node, ast.IfExp):
        return [[node.body], [node.orelse]]
    body, other = list[ast.AST](node.body), list[ast.AST](node.orelse)
    if not other and node.body and isinstance(node.body[-1], ast.Return) and it.stack:
        other = list(_following(it.stack[-1], node))
    return [body, other]


def _following(function: ast.AST, node: ast.stmt) -> Iterator[ast.stmt]:
    """The statements after a statement, in its block."""
    for around in (function, *descendants(function)):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(around, name, None)
            if isinstance(block, list) and any(each is node for each in block):
                yield from block[[each is node for each in block].index(True) + 1 :]
                return


def _casts(it: Interpreter, side: Iterable[ast.AST], state: State) -> set[str]:
    """The dtypes that a side asks for."""
    found = set[str]()
    waiting = list(side)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Compare):  # which asks for a dtype
            continue
        found.add(_dtype(it, node, state))
        waiting += children(node)
    return found - {""}


def _dtype(it: Interpreter, node: ast.AST, state: State) -> str:
    """The dtype that a name means, or that a method casts to."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        return CASTS.get(node.func.attr, "")
    if not isinstance(node, (ast.Name, ast.Attribute)) or not dotted(node):
        return ""
    it.silent += 1
    value = it.expression(node, state)
    it.silent -= 1
    return DTYPES.get(value.name, "") if isinstance(value, External) else ""


def _differ(it: Interpreter, there: list[ast.AST], here: list[ast.AST], state: State) -> bool:
    """Whether plain arithmetic with tensors is done on one side, and not on the other."""
    if len(there) > 1 or len(here) > 1 or not (there or here):
        return False
    first, second = (_made(side[0]) if side else None for side in (there, here))
    names = {target for made in (first, second) if made is not None for target in [made[0]]}
    if len(names) != 1:
        return False
    name = names.pop()
    values = [ast.Name(name, ast.Load()) if made is None else made[1] for made in (first, second)]
    if (None in (first, second) and not name) or not all(map(_is_arithmetic, values)) or same(*values):
        return False
    given = [made[1] for made in (first, second) if made is not None]
    return any(isinstance(value, ast.BinOp) and _is_tensor(it, value, state) for value in given)


def _made(node: ast.AST) -> tuple[str, ast.expr] | None:
    """What a side makes, and the variable that it binds it to; of a result, none."""
    if isinstance(node, ast.expr):
        return "", node
    if isinstance(node, ast.Return) and node.value is not None:
        return "", node.value
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id, node.value
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return node.target.id, ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
    return None


def _is_arithmetic(node: ast.AST) -> bool:
    return isinstance(node, _PLAIN) and all(map(_is_arithmetic, children(node)))


def _is_tensor(it: Interpreter, node: ast.expr, state: State) -> bool:
    it.silent += 1
    value = it.expression(node, state)
    it.silent -= 1
    return is_tensor(value) and all(isinstance(each, Tensor) for each in options(value))
