"""Conditions: who asks what for its truth, and what is known on either side of the answer."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from exportlint.source.events import Asked
from exportlint.source.state import Slot, State, join_states
from exportlint.source.tree import given, is_none
from exportlint.source.values import (
    NONE,
    UNKNOWN,
    Class,
    Const,
    Device,
    Dict,
    External,
    Function,
    Instance,
    Module,
    Number,
    Sequence,
    Shape,
    Size,
    Static,
    Tensor,
    TorchModule,
    Union,
    Unknown,
    Value,
    is_setting,
    join_all,
    options,
)

if TYPE_CHECKING:
    from exportlint.source.events import Asker
    from exportlint.source.interpreter import Interpreter

_BOOL, _TYPE = External("builtins.bool"), External("builtins.type")
_ON = {f"is_{kind}": kind for kind in ("cuda", "cpu", "mps", "xpu")}
_OBJECTS = (Tensor, Sequence, Dict, Shape, Size, Number, Instance, TorchModule, Function, Class, Module, Device)


def branch(it: Interpreter, node: ast.expr, state: State, by: Asker, value: Value | None = None) -> tuple[State, State]:
    """The states in which the condition holds and in which it does not; one is dead where that is certain.

    `value` is the value of the node, where it was evaluated already.
    """
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        true, false = branch(it, node.operand, state, by)
        return false, true
    if isinstance(node, ast.BoolOp):
        return connected(it, node.op, node.values, state, by)
    if isinstance(node, ast.Call) and len(given(node)) == 1 and _quiet(it, node.func, state) == _BOOL:
        node, value = given(node)[0], None  # what asks for the truth of a bool asks for that of its argument
    if value is None:
        value = it.expression(node, state)
    it.emit(Asked(it.site(node, state), value, by, by == "assert" or (by == "if" and state.frame.validating)))
    true, false = state.copy(), state.copy()
    verdict = truth(value)
    if verdict is not None:
        (false if verdict else true).dead = True
    else:
        _narrow(it, node, value, true, false)
    return true, false


def connected(
    it: Interpreter, operator: ast.boolop, values: list[ast.expr], state: State, by: Asker
) -> tuple[State, State]:
    """The states in which ``a and b and c`` (or ``or``) holds and in which it does not."""
    true, false = branch(it, values[0], state, by)
    configured = is_configured(it, values[0], state)
    for value in values[1:]:
        goes_on, stays = (true, false) if isinstance(operator, ast.And) else (false, true)
        if goes_on.dead:
            break
        certain = stays.dead or configured
        it.optional += not certain
        true, false = branch(it, value, goes_on, by)
        it.optional -= not certain
        configured = configured and is_configured(it, value, state)
        if isinstance(operator, ast.And):
            false = join_states(stays, false)
        else:
            true = join_states(stays, true)
    return true, false


def is_configured(it: Interpreter, node: ast.expr, state: State) -> bool:
    """Whether a condition asks only for what the constructor was given: it is as an ``if`` around the line would be."""
    if isinstance(node, ast.UnaryOp):
        return is_configured(it, node.operand, state)
    if isinstance(node, ast.BoolOp):
        return all(is_configured(it, part, state) for part in node.values)
    if isinstance(node, ast.Compare):
        return all(is_configured(it, part, state) for part in (node.left, *node.comparators))
    plain = isinstance(node, (ast.Name, ast.Attribute, ast.Constant))
    return plain and is_setting(_quiet(it, node, state))


def truth(value: Value) -> bool | None:
    """What Python answers when it asks the value for its truth, if that is certain."""
    if isinstance(value, Const):
        return bool(value.value)
    if isinstance(value, (Function, Class, Module)):
        return True
    if isinstance(value, Union):
        answers = {truth(v) for v in value.options}
        return answers.pop() if len(answers) == 1 else None
    return None


def identity(left: Value, right: Value, positive: bool) -> Value:
    """The value of ``left is right``, or of ``left is not right``."""
    for value, other in ((left, right), (right, left)):
        if other == NONE:
            found = options(value)
            if all(v == NONE for v in found):
                return Const(positive)
            if all(isinstance(v, _OBJECTS) or (isinstance(v, Const) and v != NONE) for v in found):
                return Const(not positive)
    return Static("bool")


def _narrow(it: Interpreter, node: ast.expr, value: Value, true: State, false: State) -> None:
    if isinstance(value, Static) and value.of in _ON:
        true.there |= {_ON[value.of]}
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        _narrow_none(it, node, true, false)
        _narrow_device(it, node, true, false)
    elif isinstance(node, ast.Call):
        _narrow_kind(it, node, true, false)
    else:
        rest = tuple(v for v in options(value) if v != NONE)
        if rest and len(rest) < len(options(value)):
            rebind(it, node, join_all(rest), true)


def _narrow_none(it: Interpreter, node: ast.Compare, true: State, false: State) -> None:
    operator = node.ops[0]
    if not isinstance(operator, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)) or not is_none(node.comparators[0]):
        return
    none, other = (true, false) if isinstance(operator, (ast.Is, ast.Eq)) else (false, true)
    value = _quiet(it, node.left, other)
    rebind(it, node.left, NONE, none)
    rest = tuple(v for v in options(value) if v != NONE)
    if rest:
        rebind(it, node.left, join_all(rest), other)


def _narrow_device(it: Interpreter, node: ast.Compare, true: State, false: State) -> None:
    """``x.device.type == "cuda"`` and the like, of a tensor that follows the inputs."""
    sides = [_quiet(it, part, true) for part in (node.left, node.comparators[0])]
    follows = any(isinstance(side, Device) and side.placement == "follows" for side in sides)
    named = [side.value for side in sides if isinstance(side, Const) and isinstance(side.value, str)]
    named += [side.name for side in sides if isinstance(side, Device) and side.placement == "literal"]
    if not follows or not named:
        return
    if isinstance(node.ops[0], (ast.Eq, ast.Is)):
        true.there |= {named[0].partition(":")[0]}
    elif isinstance(node.ops[0], (ast.NotEq, ast.IsNot)):
        false.there |= {named[0].partition(":")[0]}


def _narrow_kind(it: Interpreter, node: ast.Call, true: State, false: State) -> None:
    """``isinstance(x, torch.Tensor)`` and ``torch.is_tensor(x)``; other classes say only what it is not."""
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    called = _quiet(it, node.func, true)
    if called == External("torch.is_tensor") and len(node.args) == 1:
        wanted: tuple[Value, ...] = (External("torch.Tensor"),)
    elif name == "isinstance" and len(node.args) == 2:
        classes = _quiet(it, node.args[1], true)
        wanted = classes.items or () if isinstance(classes, Sequence) else options(classes)
    else:
        return
    subject = node.args[0]
    found = options(_quiet(it, subject, true))
    if wanted == (_TYPE,):
        rebind(it, subject, join_all(tuple(v for v in found if not isinstance(v, Function)) or (UNKNOWN,)), true)
        rebind(it, subject, join_all(tuple(v for v in found if not _is_class(v)) or (UNKNOWN,)), false)
        return
    tensor = any(w in (External("torch.Tensor"), External("torch.nn.Parameter")) for w in wanted)
    inside = tuple(v for v in found if isinstance(v, Tensor) is tensor or isinstance(v, Unknown))
    outside = tuple(v for v in found if not (tensor and isinstance(v, Tensor)))
    if tensor and len(wanted) == 1 and any(isinstance(v, Unknown) for v in found):
        rebind(it, subject, Tensor("unknown", fed=True), true)
    elif inside and any(isinstance(v, Tensor) for v in found):
        rebind(it, subject, join_all(inside), true)
    if not outside:
        false.dead = True
    else:
        rebind(it, subject, join_all(outside), false)
    if tensor and len(wanted) == 1 and all(isinstance(v, (Const, Sequence, Dict, Static)) and v for v in found):
        true.dead = True


def _is_class(value: Value) -> bool:
    """Whether the value is a class, of the project or by the name that it has outside."""
    outside = value.name.rpartition(".")[2] if isinstance(value, External) else ""
    return isinstance(value, Class) or outside[:1].isupper()


def _quiet(it: Interpreter, node: ast.expr, state: State) -> Value:
    it.silent += 1
    value = it.expression(node, state)
    it.silent -= 1
    return value


def rebind(it: Interpreter, node: ast.expr, value: Value, state: State) -> None:
    """What is now known of a variable, or of an attribute of an object; nothing was assigned."""
    if isinstance(node, ast.NamedExpr):
        node = node.target
    if isinstance(node, ast.Name):
        if node.id in state.variables:
            state.variables[node.id] = value
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        owner = state.variables.get(node.value.id)
        if isinstance(owner, Instance):
            key = (owner.key, node.attr)
            slot = state.heap.get(key)
            state.heap[key] = Slot(value, slot.site if slot else None)
