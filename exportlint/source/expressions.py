"""Expressions: one function for each class of node."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from exportlint.source import attributes, by_device, calls, conditions, left_out, subscripts, tensors
from exportlint.source.events import Asked, Called, Converted, Identified, Indexed, Iterated
from exportlint.source.sites import place_parts
from exportlint.source.statements import assign, element
from exportlint.source.values import (
    NONE,
    SETTING,
    SIZE_TEXT,
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
    made_of,
    options,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exportlint.source.interpreter import Interpreter
    from exportlint.source.state import State

Handler = Callable[["Interpreter", Any, "State"], Value]

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_LARGEST = 1 << 31
_NUMBERS = re.compile(r"%[-+ #0-9.]*[dfgeEGiF]")
_ELLIPSIS = Const(...)


def _name(it: Interpreter, node: ast.Name, state: State) -> Value:
    return _ELLIPSIS if node.id == "Ellipsis" else it.name(node.id, state)


def _attribute(it: Interpreter, node: ast.Attribute, state: State) -> Value:
    base = it.expression(node.value, state)
    asked = by_device.flag(it, node, base, state)
    found = attributes.get(it, base, node.attr, state) if asked is None else asked
    return attributes.unwrapped(it, node, (base, found), state) if node.attr == "data" else found


def _constant(it: Interpreter, node: ast.Constant, state: State) -> Value:
    return Const(node.value)


def _formatted(it: Interpreter, node: ast.JoinedStr, state: State) -> Value:
    if not it.silent:
        place_parts(node, state.frame.module.source)
    held: list[Value] = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            value = it.expression(part.value, state)
            it.emit(Converted(it.site(part.value, state), value, "format" if part.format_spec else "interpolated"))
            held.append(value)
    return _text_of(held)


def _text_of(values: Iterable[Value]) -> Value:
    """The text that these are written into: a number of a tensor, or a size that varies, is not known in it either."""
    number = next((v for value in values for v in options(value) if isinstance(v, Number)), None)
    if number is not None:
        return number
    sized = any(v == SIZE_TEXT or (isinstance(v, Size) and v.varies) for value in values for v in options(value))
    return SIZE_TEXT if sized else Static("str")


def _elements(it: Interpreter, node: ast.Tuple | ast.List | ast.Set, state: State) -> Value:
    kind = type(node).__name__.lower()
    items: list[Value] = []
    known = True
    for part in node.elts:
        if not isinstance(part, ast.Starred):
            items.append(it.expression(part, state))
            continue
        value = it.expression(part.value, state)
        if isinstance(value, Sequence) and value.items is not None:
            items += value.items
        else:
            known = False
            items.append(element(it, value))
    if known and kind != "set":
        return Sequence(tuple(items), kind=kind)
    return Sequence(None, join_all(tuple(items)), kind)


def _dictionary(it: Interpreter, node: ast.Dict, state: State) -> Value:
    items: list[tuple[Any, Value]] = []
    other: list[Value] = []
    for name, part in zip(node.keys, node.values, strict=True):
        value = it.expression(part, state)
        key = it.expression(name, state) if name is not None else UNKNOWN
        if isinstance(key, Const):
            items.append((key.value, value))
        else:
            other.append(value if name is not None else UNKNOWN)
    return Dict(tuple(items), join_all(tuple(other)))


def _binary(it: Interpreter, node: ast.BinOp, state: State) -> Value:
    left, right = it.expression(node.left, state), it.expression(node.right, state)
    return binary(it, node, left, right, state)


def binary(it: Interpreter, node: ast.BinOp | ast.AugAssign, left: Value, right: Value, state: State) -> Value:
    """The value of an arithmetic operator."""
    plain = node.op if isinstance(node, ast.BinOp) else None  # what is counted up takes more than one value
    if left == SIZE_TEXT or (isinstance(left, Const) and isinstance(left.value, str)):
        return _interpolated(it, node, left, right, state)
    if is_tensor(left) or is_tensor(right):
        return _of_tensor(it, node, (left, right), state)
    if isinstance(left, Const) and isinstance(right, Const):
        return _folded(plain, left.value, right.value)
    found: list[Value] = [v for v in (left, right) if isinstance(v, Number)]
    found = found or [v for v in (left, right) if isinstance(v, Size)]
    if found and not any(isinstance(v, Sequence) or _is_open(v) for v in (left, right)):
        return _stepped(derived(found), plain, left, right)
    if isinstance(left, Sequence) or isinstance(right, Sequence):
        return _sequences(it, node, left, right, state)
    return _plain(left, right)


def _of_tensor(
    it: Interpreter, node: ast.BinOp | ast.AugAssign, pair: tuple[Value, Value], state: State
) -> Value:  # fmt: skip
    _tell_array(it, node, pair, state)
    made = tensors.combine(it, node, pair, state)
    if isinstance(node.op, ast.MatMult):
        return replace(made, dims=tensors.multiplied(*pair))
    tensors.align(it, node, pair, state)
    return made


def _plain(left: Value, right: Value) -> Value:
    """What is computed of two values that are neither tensors nor sizes."""
    fixed = is_setting(left) and is_setting(right)
    if isinstance(left, (Const, Static)) and isinstance(right, (Const, Static)):
        return Static(_kind(left, right), given=fixed)
    return SETTING if fixed else UNKNOWN


def _kind(left: Const | Static, right: Const | Static) -> str:
    """The type of what two Python numbers make, where one of them is a float."""
    kinds = {value.of if isinstance(value, Static) else type(value.value).__name__ for value in (left, right)}
    return "float" if "float" in kinds and kinds <= {"float", "int", "size", "bool"} else ""


def _is_open(value: Value) -> bool:
    """Whether the value may be anything, which numbers from the configuration are not."""
    return isinstance(value, Unknown) and not isinstance(value, Setting)


def _tell_array(it: Interpreter, node: ast.AST, pair: tuple[Value, Value], state: State) -> None:
    """A tensor and an array that meet in an operator: as a call of numpy, or of torch if the tensor comes first."""
    if any(isinstance(value, Array) and value.whole for value in pair):
        name = "numpy.operator" if isinstance(pair[0], Array) else "torch.operator"
        it.emit(Called(it.site(node, state), name, None, pair, {}, UNKNOWN))


def _interpolated(it: Interpreter, node: ast.BinOp | ast.AugAssign, left: Value, right: Value, state: State) -> Value:
    """``"%.2f" % value`` needs the number, and ``"%s" % value`` makes text of it at once, unless it is in a tuple."""
    values = right.items or () if isinstance(right, Sequence) else (right,)
    template = left.value if isinstance(left, Const) else ""
    if isinstance(node.op, ast.Mod) and _NUMBERS.search(template):
        for value in values:
            it.emit(Converted(it.site(node, state), value, "%"))
    elif isinstance(node.op, ast.Mod) and values == (right,):
        it.emit(Converted(it.site(node, state), right, "str"))
    return _text_of((left, *values))


def derived(found: list[Any]) -> Value:
    """A number computed from sizes or from data-dependent numbers."""
    known = [s for s in found if isinstance(s, Size)]
    first: Value = found[0]
    if len(found) == 1 and known:
        return known[0].opaque
    if not known:
        computed = isinstance(first, Number) and first.how == "address"
        return replace(first, how="computed address") if computed else first  # type: ignore[call-arg]
    dynamic = True if any(s.dynamic for s in known) else None
    return Size(False if all(s.dynamic is False for s in known) else dynamic, of=made_of(known))


def _stepped(made: Value, op: ast.operator | None, left: Value, right: Value) -> Value:
    """The number derived from a size, with the arithmetic that made it where the other side is a constant."""
    function = _ARITHMETIC.get(type(op)) if op is not None else None
    size, other = (left, right) if isinstance(left, Size) else (right, left)
    if function is None or not isinstance(made, Size) or not isinstance(size, Size) or size.steps is None:
        return made
    if not isinstance(other, Const) or not isinstance(other.value, (int, float)):
        return made
    return replace(made, steps=(*size.steps, Step(function, other.value, reflected=size is right)))


def _folded(op: ast.operator | None, left: Any, right: Any) -> Value:
    function = _ARITHMETIC.get(type(op)) if op is not None else None
    if function is None or not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        return Static()
    try:
        result = function(left, right)
    except (ArithmeticError, ValueError):
        return Static()
    return Const(result) if abs(result) < _LARGEST else Static()


def _sequences(it: Interpreter, node: ast.BinOp | ast.AugAssign, left: Value, right: Value, state: State) -> Value:
    first, second = (left, right) if isinstance(left, Sequence) else (right, left)
    if not isinstance(first, Sequence):
        return UNKNOWN
    if isinstance(second, Sequence):
        if first.items is not None and second.items is not None:
            return Sequence((*first.items, *second.items), kind=first.kind)
        return Sequence(None, join(first.any, second.any), first.kind)
    if isinstance(node.op, ast.Mult):
        if isinstance(second, (Size, Number)):
            it.emit(Converted(it.site(node, state), second, "repeat"))
        if isinstance(second, Const) and isinstance(second.value, int) and first.items and 0 <= second.value <= 8:
            return Sequence(first.items * second.value, kind=first.kind)
        return Sequence(None, first.any, first.kind)
    return UNKNOWN


def _unary(it: Interpreter, node: ast.UnaryOp, state: State) -> Value:
    if isinstance(node.op, ast.Not):
        true, false = conditions.branch(it, node, state, "not")
        state.become(_joined(true, false))
        if true.dead != false.dead:
            return Const(false.dead)
        return Static("bool", asks=by_device.question(it, node, state))
    value = it.expression(node.operand, state)
    if isinstance(value, Const) and isinstance(value.value, (int, float)) and isinstance(node.op, ast.USub):
        return Const(-value.value)
    return value.opaque if isinstance(value, Size) else value


def _joined(true: State, false: State) -> State:
    from exportlint.source.state import join_states

    return join_states(true, false)


def _boolean(it: Interpreter, node: ast.BoolOp, state: State) -> Value:
    """``and`` and ``or`` where their value is wanted: only the last side is not asked for its truth."""
    left_value: Value = UNKNOWN
    if len(node.values) == 2 and not isinstance(node.values[0], ast.BoolOp):
        left_value = it.expression(node.values[0], state)
        true, false = conditions.branch(it, node.values[0], state, "and/or", left_value)
    else:
        true, false = conditions.connected(it, node.op, node.values[:-1], state, "and/or")
    goes_on, stays = (true, false) if isinstance(node.op, ast.And) else (false, true)
    if goes_on.dead:
        state.become(stays)
        return left_value
    certain = stays.dead or all(conditions.is_configured(it, part, goes_on) for part in node.values[:-1])
    it.optional += not certain
    right = it.expression(node.values[-1], goes_on)
    it.optional -= not certain
    state.become(_joined(goes_on, stays))
    asked = None if stays.dead else by_device.question(it, node, state)
    if stays.dead or asked is not None:
        return right if asked is None else Static("bool", asks=asked)
    kept = tuple(v for v in options(left_value) if not (isinstance(node.op, ast.Or) and v == NONE))
    return join(join_all(kept), right)


def _conditional(it: Interpreter, node: ast.IfExp, state: State) -> Value:
    names = left_out.told(node.test, state)
    by_device.parts(it, node, state)
    true, false = conditions.branch(it, node.test, state, "conditional expression")
    values: list[Value] = []
    undecided = not true.dead and not false.dead and not conditions.is_configured(it, node.test, state)
    it.optional += undecided
    for side, part in ((true, node.body), (false, node.orelse)):
        if not side.dead:
            values.append(it.expression(part, side))
    it.optional -= undecided
    state.become(_joined(true, false))
    return left_out.chosen(names, node, *values) if len(values) > 1 else join_all(tuple(values))


def _comparison(it: Interpreter, node: ast.Compare, state: State) -> Value:
    left = it.expression(node.left, state)
    result: Value = UNKNOWN
    for i, (op, part) in enumerate(zip(node.ops, node.comparators, strict=True)):
        if i and is_tensor(result):
            it.emit(Asked(it.site(node, state), result, "and/or"))
        right = it.expression(part, state)
        result = compared(it, node, op, (left, right), state)
        left = right
    return result


def compared(it: Interpreter, node: ast.AST, op: ast.cmpop, pair: tuple[Value, Value], state: State) -> Value:
    """The value of a comparison of two values, which stands at the node."""
    left, right = pair
    if isinstance(op, (ast.Is, ast.IsNot)):
        if is_tensor(left) and is_tensor(right):
            it.emit(Identified(it.site(node, state), left, right))
        return conditions.identity(left, right, isinstance(op, ast.Is))
    if isinstance(op, (ast.In, ast.NotIn)):
        return by_device.compared(it, node, op, pair, state) or _contained(it, node, pair, state)
    if is_tensor(left) or is_tensor(right):
        return _of_tensors(it, node, pair, state)
    for kind in (Array, Number, Size):
        for side, other in ((left, right), (right, left)):
            for value in options(side):
                if isinstance(value, kind):
                    same = isinstance(op, (ast.Eq, ast.NotEq))
                    test = _test(op, other, side is right)
                    return value if isinstance(value, Array) else Truth(value, other, test, same)
    if SIZE_TEXT in pair and isinstance(op, (ast.Eq, ast.NotEq)):
        it.emit(Converted(it.site(node, state), SIZE_TEXT, "compare"))
    return by_device.compared(it, node, op, pair, state) or _static_comparison(op, left, right)


def _is_number(value: Value) -> bool:
    return isinstance(value, Const) and isinstance(value.value, (int, float))


def _test(op: ast.cmpop, other: Value, reflected: bool) -> Step | None:
    function = _COMPARISONS.get(type(op))
    numeric = isinstance(other, Const) and isinstance(other.value, (int, float))
    return Step(function, other.value, reflected) if function is not None and numeric else None  # type: ignore[attr-defined]


def _contained(it: Interpreter, node: ast.AST, pair: tuple[Value, Value], state: State) -> Value:
    left, right = pair
    asks = isinstance(left, Tensor) and isinstance(right, Sequence) and bool(right.items)
    if asks or (isinstance(left, Number) and _is_compared(left, right)):
        it.emit(Asked(it.site(node, state), left, "in"))
    elif is_tensor(right):
        it.emit(Asked(it.site(node, state), right, "in"))
    elif isinstance(right, (External, Dict)):
        it.emit(Indexed(it.site(node, state), right, left))
    return Static("bool")


def _is_compared(number: Number, container: Value) -> bool:
    """Whether to look for the number in there is to compare it, or to ask it for a hash, which an address has."""
    if "address" in number.how:
        return isinstance(container, Sequence) and container.kind in ("list", "tuple")
    return not number.outside and _is_filled(container)


def _is_filled(value: Value) -> bool:
    """Whether the value surely holds something that another can be compared with, or asks it for a hash."""
    return isinstance(value, Sequence) and (bool(value.items) or (value.items is None and value.kind == "set"))


def _of_tensors(it: Interpreter, node: ast.AST, pair: tuple[Value, Value], state: State) -> Value:
    if NONE in pair:
        return Static("bool")
    _tell_array(it, node, pair[::-1] if isinstance(pair[1], Array) else pair, state)  # numpy answers in any order
    tensors.align(it, node, pair, state)
    return replace(tensors.combine(it, node, pair, state), boolean=True, real=False)


_HALF = ("torch.float16", "torch.half", "torch.bfloat16")


def _static_comparison(op: ast.cmpop, left: Value, right: Value) -> Value:
    half = any(isinstance(v, External) and v.name in _HALF for v in (left, right))
    known = isinstance(left, External) and isinstance(right, External)
    if half and not known and isinstance(op, (ast.Eq, ast.NotEq)):
        return Const(isinstance(op, ast.NotEq))  # models are taken to run in torch's default dtype
    if isinstance(left, Const) and isinstance(right, Const) and isinstance(op, (ast.Eq, ast.NotEq)):
        return Const((left.value == right.value) is isinstance(op, ast.Eq))
    if _is_number(left) and _is_number(right) and type(op) in _COMPARISONS:
        return Const(bool(_COMPARISONS[type(op)](left.value, right.value)))  # type: ignore[attr-defined]
    return UNKNOWN if isinstance(left, Unknown) or isinstance(right, Unknown) else Static("bool")


def _comprehension(it: Interpreter, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, state: State) -> Value:
    inner = state.copy()
    dim = _clauses(it, node.generators, inner)
    value = it.expression(node.elt, inner)
    state.heap = inner.heap
    kind = {"ListComp": "list", "SetComp": "set"}.get(type(node).__name__, "iterator")
    return Sequence(None, value, kind, dim)


def _dict_comprehension(it: Interpreter, node: ast.DictComp, state: State) -> Value:
    inner = state.copy()
    _clauses(it, node.generators, inner)
    it.expression(node.key, inner)
    return Dict(element=it.expression(node.value, inner))


def _clauses(it: Interpreter, clauses: list[ast.comprehension], inner: State) -> Value:
    """Bind the targets of a comprehension; the result is the size that its length comes from, where known."""
    iterable: Value = UNKNOWN
    for clause in clauses:
        iterable = it.expression(clause.iter, inner)
        it.emit(Iterated(it.site(clause.iter, inner), iterable, "comprehension"))
        assign(it, clause.target, element(it, iterable), inner)
        for condition in clause.ifs:
            true, _ = conditions.branch(it, condition, inner, "comprehension")
            inner.become(true)
    whole = len(clauses) == 1 and not clauses[0].ifs
    return iterable.dim if isinstance(iterable, Sequence) and whole else UNKNOWN


def _lambda(it: Interpreter, node: ast.Lambda, state: State) -> Value:
    frame = state.frame
    return Function(node, Closure(frame.module, state.variables, frame.cls))


def _walrus(it: Interpreter, node: ast.NamedExpr, state: State) -> Value:
    value = it.expression(node.value, state)
    assign(it, node.target, value, state)
    return value


def _subscript(it: Interpreter, node: ast.Subscript, state: State) -> Value:
    return subscripts.get(it, node, state)


def _call(it: Interpreter, node: ast.Call, state: State) -> Value:
    return calls.call(it, node, state)


def _yield(it: Interpreter, node: ast.Yield, state: State) -> Value:
    state.frame.yielded.append(it.expression(node.value, state) if node.value is not None else NONE)
    return UNKNOWN


def _yield_from(it: Interpreter, node: ast.YieldFrom, state: State) -> Value:
    state.frame.yielded.append(element(it, it.expression(node.value, state)))
    return UNKNOWN


def _await(it: Interpreter, node: ast.Await, state: State) -> Value:
    return it.expression(node.value, state)


HANDLERS: dict[type[ast.AST], Handler] = {
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Constant: _constant,
    ast.JoinedStr: _formatted,
    ast.Tuple: _elements,
    ast.List: _elements,
    ast.Set: _elements,
    ast.Dict: _dictionary,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _boolean,
    ast.IfExp: _conditional,
    ast.Compare: _comparison,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _dict_comprehension,
    ast.Lambda: _lambda,
    ast.NamedExpr: _walrus,
    ast.Subscript: _subscript,
    ast.Call: _call,
    ast.Yield: _yield,
    ast.YieldFrom: _yield_from,
    ast.Await: _await,
}
