"""Expressions: one function for each class of libcst node."""

from __future__ import annotations

import ast
import functools
import operator
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import libcst as cst

from exportlint.source import attributes, calls, conditions, subscripts, tensors
from exportlint.source.events import Asked, Called, Converted, Identified, Indexed, Iterated
from exportlint.source.statements import assign, element
from exportlint.source.values import (
    NONE,
    SETTING,
    UNKNOWN,
    Array,
    Closure,
    Const,
    Dict,
    External,
    Function,
    Number,
    Sequence,
    Setting,
    Size,
    Static,
    Step,
    Tensor,
    Truth,
    Unknown,
    Value,
    is_setting,
    is_tensor,
    join,
    join_all,
    options,
)

if TYPE_CHECKING:
    from exportlint.source.interpreter import Interpreter
    from exportlint.source.state import State

Handler = Callable[["Interpreter", Any, "State"], Value]

_ARITHMETIC: dict[type[cst.BaseBinaryOp], Callable[[Any, Any], Any]] = {
    cst.Add: operator.add,
    cst.Subtract: operator.sub,
    cst.Multiply: operator.mul,
    cst.Divide: operator.truediv,
    cst.FloorDivide: operator.floordiv,
    cst.Modulo: operator.mod,
}
_COMPARISONS: dict[type[cst.BaseCompOp], Callable[[Any, Any], Any]] = {
    cst.Equal: operator.eq,
    cst.NotEqual: operator.ne,
    cst.LessThan: operator.lt,
    cst.LessThanEqual: operator.le,
    cst.GreaterThan: operator.gt,
    cst.GreaterThanEqual: operator.ge,
}
_LARGEST = 1 << 31
_NUMBERS = re.compile(r"%[-+ #0-9.]*[dfgeEGiF]")
_CONSTANTS = {"None": NONE, "True": Const(True), "False": Const(False), "Ellipsis": Const(...)}


def _name(it: Interpreter, node: cst.Name, state: State) -> Value:
    constant = _CONSTANTS.get(node.value)
    return it.name(node.value, state) if constant is None else constant


def _ellipsis(it: Interpreter, node: cst.Ellipsis, state: State) -> Value:
    return Const(...)


def _attribute(it: Interpreter, node: cst.Attribute, state: State) -> Value:
    return attributes.get(it, it.expression(node.value, state), node, state)


def _literal(it: Interpreter, node: cst.Integer | cst.Float | cst.Imaginary, state: State) -> Value:
    return _evaluated(node.value, "")


@functools.lru_cache(maxsize=4096)
def _evaluated(text: str, of: str) -> Value:
    """The constant that a literal says."""
    try:
        return Const(ast.literal_eval(text))
    except (ValueError, SyntaxError):
        return Static(of)


def _string(it: Interpreter, node: cst.SimpleString | cst.ConcatenatedString, state: State) -> Value:
    if isinstance(node, cst.ConcatenatedString):
        left, right = it.expression(node.left, state), it.expression(node.right, state)
        known = isinstance(left, Const) and isinstance(right, Const)
        return Const(left.value + right.value) if known else Static("str")  # type: ignore[attr-defined]
    return _evaluated(node.value, "str")


def _formatted(it: Interpreter, node: cst.FormattedString, state: State) -> Value:
    for part in node.parts:
        if isinstance(part, cst.FormattedStringExpression):
            value = it.expression(part.expression, state)
            spelled = "format" if part.format_spec else "str"
            it.emit(Converted(it.site(part.expression, state), value, spelled))
    return Static("str")


def _elements(it: Interpreter, node: cst.Tuple | cst.List | cst.Set, state: State) -> Value:
    kind = type(node).__name__.lower()
    items: list[Value] = []
    known = True
    for part in node.elements:
        value = it.expression(part.value, state)
        if not isinstance(part, cst.StarredElement):
            items.append(value)
        elif isinstance(value, Sequence) and value.items is not None:
            items += value.items
        else:
            known = False
            items.append(element(it, value))
    if known and kind != "set":
        return Sequence(tuple(items), kind=kind)
    return Sequence(None, join_all(tuple(items)), kind)


def _dictionary(it: Interpreter, node: cst.Dict, state: State) -> Value:
    items: list[tuple[Any, Value]] = []
    other: list[Value] = []
    for part in node.elements:
        value = it.expression(part.value, state)
        if isinstance(part, cst.DictElement):
            key = it.expression(part.key, state)
            if isinstance(key, Const):
                items.append((key.value, value))
                continue
        other.append(value if isinstance(part, cst.DictElement) else UNKNOWN)
    return Dict(tuple(items), join_all(tuple(other)))


def _binary(it: Interpreter, node: cst.BinaryOperation, state: State) -> Value:
    left, right = it.expression(node.left, state), it.expression(node.right, state)
    return binary(it, node, left, right, state)


def binary(
    it: Interpreter, node: cst.BinaryOperation | cst.AugAssign, left: Value, right: Value, state: State
) -> Value:
    """The value of an arithmetic operator."""
    if isinstance(left, Const) and isinstance(left.value, str):
        return _interpolated(it, node, left.value, right, state)
    if is_tensor(left) or is_tensor(right):
        _tell_array(it, node, (left, right), state)
        return tensors.combine(it, node, (left, right), state)
    if isinstance(left, Const) and isinstance(right, Const):
        return _folded(node, left.value, right.value)
    found: list[Value] = [v for v in (left, right) if isinstance(v, Number)]
    found = found or [v for v in (left, right) if isinstance(v, Size)]
    if found and not any(isinstance(v, Sequence) or _is_open(v) for v in (left, right)):
        return _stepped(derived(found), node.operator, left, right)
    if isinstance(left, Sequence) or isinstance(right, Sequence):
        return _sequences(it, node, left, right, state)
    return _plain(left, right)


def _plain(left: Value, right: Value) -> Value:
    """What is computed of two values that are neither tensors nor sizes."""
    fixed = is_setting(left) and is_setting(right)
    if isinstance(left, (Const, Static)) and isinstance(right, (Const, Static)):
        return Static(given=fixed)
    return SETTING if fixed else UNKNOWN


def _is_open(value: Value) -> bool:
    """Whether the value may be anything, which numbers from the configuration are not."""
    return isinstance(value, Unknown) and not isinstance(value, Setting)


def _tell_array(it: Interpreter, node: cst.CSTNode, pair: tuple[Value, Value], state: State) -> None:
    """A tensor and an array that meet in an operator: as a call of numpy, or of torch if the tensor comes first."""
    if any(isinstance(value, Array) and value.whole for value in pair):
        name = "numpy.operator" if isinstance(pair[0], Array) else "torch.operator"
        it.emit(Called(it.site(node, state), name, None, pair, {}, UNKNOWN))


def _interpolated(
    it: Interpreter, node: cst.BinaryOperation | cst.AugAssign, template: str, right: Value, state: State
) -> Value:
    """``"%.2f" % value`` needs the number; ``"%s" % value`` does not."""
    if isinstance(node.operator, (cst.Modulo, cst.ModuloAssign)) and _NUMBERS.search(template):
        for value in right.items or () if isinstance(right, Sequence) else (right,):
            it.emit(Converted(it.site(node, state), value, "format"))
    return Static("str")


def derived(found: list[Any]) -> Value:
    """A number computed from sizes or from data-dependent numbers."""
    known = [s for s in found if isinstance(s, Size)]
    first: Value = found[0]
    if len(found) == 1 and known:
        return known[0].opaque
    if not known:
        return first
    dynamic = True if any(s.dynamic for s in known) else None
    return Size(False if all(s.dynamic is False for s in known) else dynamic)


def _stepped(made: Value, op: cst.BaseBinaryOp | cst.BaseAugOp, left: Value, right: Value) -> Value:
    """The number derived from a size, with the arithmetic that made it where the other side is a constant."""
    function = _ARITHMETIC.get(type(op))  # type: ignore[arg-type]
    size, other = (left, right) if isinstance(left, Size) else (right, left)
    if function is None or not isinstance(made, Size) or not isinstance(size, Size) or size.steps is None:
        return made
    if not isinstance(other, Const) or not isinstance(other.value, (int, float)):
        return made
    return replace(made, steps=(*size.steps, Step(function, other.value, reflected=size is right)))


def _folded(node: cst.BinaryOperation | cst.AugAssign, left: Any, right: Any) -> Value:
    function = _ARITHMETIC.get(type(node.operator))  # type: ignore[arg-type]
    if function is None or not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        return Static()
    try:
        result = function(left, right)
    except (ArithmeticError, ValueError):
        return Static()
    return Const(result) if abs(result) < _LARGEST else Static()


def _sequences(
    it: Interpreter, node: cst.BinaryOperation | cst.AugAssign, left: Value, right: Value, state: State
) -> Value:
    first, second = (left, right) if isinstance(left, Sequence) else (right, left)
    if not isinstance(first, Sequence):
        return UNKNOWN
    if isinstance(second, Sequence):
        if first.items is not None and second.items is not None:
            return Sequence((*first.items, *second.items), kind=first.kind)
        return Sequence(None, join(first.any, second.any), first.kind)
    if isinstance(node.operator, (cst.Multiply, cst.MultiplyAssign)):
        if isinstance(second, (Size, Number)):
            it.emit(Converted(it.site(node, state), second, "repeat"))
        if isinstance(second, Const) and isinstance(second.value, int) and first.items and 0 <= second.value <= 8:
            return Sequence(first.items * second.value, kind=first.kind)
        return Sequence(None, first.any, first.kind)
    return UNKNOWN


def _unary(it: Interpreter, node: cst.UnaryOperation, state: State) -> Value:
    if isinstance(node.operator, cst.Not):
        true, false = conditions.branch(it, node, state, "not")
        state.become(_joined(true, false))
        if true.dead != false.dead:
            return Const(false.dead)
        return Static("bool")
    value = it.expression(node.expression, state)
    if isinstance(value, Const) and isinstance(value.value, (int, float)) and isinstance(node.operator, cst.Minus):
        return Const(-value.value)
    return value.opaque if isinstance(value, Size) else value


def _joined(true: State, false: State) -> State:
    from exportlint.source.state import join_states

    return join_states(true, false)


def _boolean(it: Interpreter, node: cst.BooleanOperation, state: State) -> Value:
    """``and`` and ``or`` where their value is wanted: only the left side is asked for its truth."""
    left_value = it.expression(node.left, state) if not isinstance(node.left, cst.BooleanOperation) else UNKNOWN
    true, false = conditions.branch(it, node.left, state, "and/or", left_value)
    goes_on, stays = (true, false) if isinstance(node.operator, cst.And) else (false, true)
    if goes_on.dead:
        state.become(stays)
        return left_value
    it.optional += not stays.dead
    right = it.expression(node.right, goes_on)
    it.optional -= not stays.dead
    state.become(_joined(goes_on, stays))
    if stays.dead:
        return right
    kept = tuple(v for v in options(left_value) if not (isinstance(node.operator, cst.Or) and v == NONE))
    return join(join_all(kept), right)


def _conditional(it: Interpreter, node: cst.IfExp, state: State) -> Value:
    true, false = conditions.branch(it, node.test, state, "conditional expression")
    values: list[Value] = []
    undecided = not true.dead and not false.dead
    it.optional += undecided
    for side, part in ((true, node.body), (false, node.orelse)):
        if not side.dead:
            values.append(it.expression(part, side))
    it.optional -= undecided
    state.become(_joined(true, false))
    return join_all(tuple(values))


def _comparison(it: Interpreter, node: cst.Comparison, state: State) -> Value:
    left = it.expression(node.left, state)
    result: Value = UNKNOWN
    for i, target in enumerate(node.comparisons):
        if i and is_tensor(result):
            it.emit(Asked(it.site(node, state), result, "and/or"))
        right = it.expression(target.comparator, state)
        result = _compared(it, node, target.operator, (left, right), state)
        left = right
    return result


def _compared(
    it: Interpreter, node: cst.Comparison, op: cst.BaseCompOp, pair: tuple[Value, Value], state: State
) -> Value:
    left, right = pair
    if isinstance(op, (cst.Is, cst.IsNot)):
        if is_tensor(left) and is_tensor(right):
            it.emit(Identified(it.site(node, state), left, right))
        return conditions.identity(left, right, isinstance(op, cst.Is))
    if isinstance(op, (cst.In, cst.NotIn)):
        return _contained(it, node, pair, state)
    if is_tensor(left) or is_tensor(right):
        return _of_tensors(it, node, pair, state)
    for kind in (Array, Number, Size):
        for side, other in ((left, right), (right, left)):
            for value in options(side):
                if isinstance(value, kind):
                    same = isinstance(op, (cst.Equal, cst.NotEqual))
                    test = _test(op, other, side is right)
                    return value if isinstance(value, Array) else Truth(value, other, test, same)
    return _static_comparison(op, left, right)


def _test(op: cst.BaseCompOp, other: Value, reflected: bool) -> Step | None:
    function = _COMPARISONS.get(type(op))
    numeric = isinstance(other, Const) and isinstance(other.value, (int, float))
    return Step(function, other.value, reflected) if function is not None and numeric else None  # type: ignore[attr-defined]


def _contained(it: Interpreter, node: cst.Comparison, pair: tuple[Value, Value], state: State) -> Value:
    left, right = pair
    if isinstance(left, Tensor) and isinstance(right, Sequence) and right.items:
        it.emit(Asked(it.site(node, state), left, "in"))
    elif isinstance(right, (External, Dict)):
        it.emit(Indexed(it.site(node, state), right, left))
    return Static("bool")


def _of_tensors(it: Interpreter, node: cst.Comparison, pair: tuple[Value, Value], state: State) -> Value:
    if NONE in pair:
        return Static("bool")
    _tell_array(it, node, pair[::-1] if isinstance(pair[1], Array) else pair, state)  # numpy answers in any order
    return replace(tensors.combine(it, node, pair, state), boolean=True, real=False)


_HALF = ("torch.float16", "torch.half", "torch.bfloat16")


def _static_comparison(op: cst.BaseCompOp, left: Value, right: Value) -> Value:
    half = any(isinstance(v, External) and v.name in _HALF for v in (left, right))
    known = isinstance(left, External) and isinstance(right, External)
    if half and not known and isinstance(op, (cst.Equal, cst.NotEqual)):
        return Const(isinstance(op, cst.NotEqual))  # models are taken to run in torch's default dtype
    if isinstance(left, Const) and isinstance(right, Const) and isinstance(op, (cst.Equal, cst.NotEqual)):
        return Const((left.value == right.value) is isinstance(op, cst.Equal))
    return UNKNOWN if isinstance(left, Unknown) or isinstance(right, Unknown) else Static("bool")


def _comprehension(it: Interpreter, node: cst.BaseSimpleComp, state: State) -> Value:
    inner = state.copy()
    dim = _clauses(it, node.for_in, inner)
    value = it.expression(node.elt, inner)
    state.heap = inner.heap
    kind = {"ListComp": "list", "SetComp": "set"}.get(type(node).__name__, "iterator")
    return Sequence(None, value, kind, dim)


def _dict_comprehension(it: Interpreter, node: cst.DictComp, state: State) -> Value:
    inner = state.copy()
    _clauses(it, node.for_in, inner)
    it.expression(node.key, inner)
    return Dict(element=it.expression(node.value, inner))


def _clauses(it: Interpreter, clause: cst.CompFor, inner: State) -> Value:
    """Bind the targets of a comprehension; the result is the size that its length comes from, where known."""
    iterable = it.expression(clause.iter, inner)
    it.emit(Iterated(it.site(clause.iter, inner), iterable, "comprehension"))
    assign(it, clause.target, element(it, iterable), inner)
    for condition in clause.ifs:
        true, _ = conditions.branch(it, condition.test, inner, "comprehension")
        inner.become(true)
    if clause.inner_for_in is not None:
        _clauses(it, clause.inner_for_in, inner)
        return UNKNOWN
    return iterable.dim if isinstance(iterable, Sequence) and not clause.ifs else UNKNOWN


def _lambda(it: Interpreter, node: cst.Lambda, state: State) -> Value:
    frame = state.frame
    return Function(node, Closure(frame.module, frame.fragment, state.variables, frame.cls))


def _walrus(it: Interpreter, node: cst.NamedExpr, state: State) -> Value:
    value = it.expression(node.value, state)
    assign(it, node.target, value, state)
    return value


def _subscript(it: Interpreter, node: cst.Subscript, state: State) -> Value:
    return subscripts.get(it, node, state)


def _call(it: Interpreter, node: cst.Call, state: State) -> Value:
    return calls.call(it, node, state)


def _yield(it: Interpreter, node: cst.Yield, state: State) -> Value:
    if isinstance(node.value, cst.From):
        state.frame.yielded.append(element(it, it.expression(node.value.item, state)))
    else:
        state.frame.yielded.append(it.expression(node.value, state) if node.value is not None else NONE)
    return UNKNOWN


def _await(it: Interpreter, node: cst.Await, state: State) -> Value:
    return it.expression(node.expression, state)


HANDLERS: dict[type[cst.CSTNode], Handler] = {
    cst.Name: _name,
    cst.Attribute: _attribute,
    cst.Ellipsis: _ellipsis,
    cst.Integer: _literal,
    cst.Float: _literal,
    cst.Imaginary: _literal,
    cst.SimpleString: _string,
    cst.ConcatenatedString: _string,
    cst.FormattedString: _formatted,
    cst.Tuple: _elements,
    cst.List: _elements,
    cst.Set: _elements,
    cst.Dict: _dictionary,
    cst.BinaryOperation: _binary,
    cst.UnaryOperation: _unary,
    cst.BooleanOperation: _boolean,
    cst.IfExp: _conditional,
    cst.Comparison: _comparison,
    cst.ListComp: _comprehension,
    cst.SetComp: _comprehension,
    cst.GeneratorExp: _comprehension,
    cst.DictComp: _dict_comprehension,
    cst.Lambda: _lambda,
    cst.NamedExpr: _walrus,
    cst.Subscript: _subscript,
    cst.Call: _call,
    cst.Yield: _yield,
    cst.Await: _await,
}
