"""Where the analysis begins: the forward of each module class, and what its parameters are."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from exportlint.source.calls import annotated
from exportlint.source.facts import facts
from exportlint.source.index import dotted
from exportlint.source.parameters import Arguments, default
from exportlint.source.state import Frame, State
from exportlint.source.tree import FunctionNode, children, descendants, given, is_none, keyword_only, parameters
from exportlint.source.values import (
    LEFT_OUT,
    NONE,
    UNKNOWN,
    Closure,
    Const,
    Device,
    Dict,
    External,
    Function,
    Instance,
    Sequence,
    Static,
    Tensor,
    TorchModule,
    Value,
    join,
    options,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.source.index import ClassEntry, FunctionEntry, ModuleIndex
    from exportlint.source.interpreter import Interpreter
    from exportlint.source.tree import Parameter

_PYTHON = frozenset({*dir(list), *dir(dict), *dir(str), *dir(int), *dir(float), *dir(set)})
_OF_OBJECTS = (ast.In, ast.NotIn, ast.Is, ast.IsNot)
_TENSOR_ONLY = frozenset({"shape", "dtype", "device", "ndim", "is_cuda"})


def written(function: Function) -> tuple[FunctionNode | ast.Lambda, ModuleIndex]:
    """The function as it is written, without what its decorators put around it, and the file that holds it."""
    entry = function.entry
    return (entry.node, entry.module) if entry is not None else (function.node, function.closure.module)


def run_class(it: Interpreter, cls: ClassEntry) -> None:
    """Run the forward of a class of which nothing is known but its source."""
    if it.project.method(cls, "forward") is None and not any(
        "forward" in c.written for c in it.project.lineage(cls)[0]
    ):
        return
    owner = it.instance(cls, None, Arguments(open=True), State(Frame(cls.module, cls)))
    function = it.forward(owner)
    if function is not None:
        run(it, owner, _given(it, function, cls))


def run(it: Interpreter, model: Instance, given: Arguments) -> None:
    """Run the forward of a model."""
    function = it.forward(model)
    if function is not None:
        it.defined(model)
        state = State(Frame(function.closure.module, model.cls, model))
        it.running = True
        it.invoke(function, given, state)
        it.finish(state)


def run_entry(it: Interpreter, entry: FunctionEntry, cls: ClassEntry | None) -> None:
    """Run a function, or a method of a class, that the configuration says is captured."""
    owner = it.instance(cls, None, Arguments(open=True), State(Frame(cls.module, cls))) if cls is not None else None
    function = it.function(entry, owner)
    if not isinstance(function, Function):
        return
    if owner is not None and owner.module:
        it.defined(owner)
    state = State(Frame(function.closure.module, cls, owner))
    given = _given(it, function, cls)
    it.running = True
    it.invoke(function, given, state)
    it.finish(state)


def _given(it: Interpreter, function: Function, cls: ClassEntry | None) -> Arguments:
    node, module = written(function)
    if isinstance(node, ast.Lambda):
        return Arguments(open=True)
    state = State(Frame(module, cls, function.owner))
    first = next(iter(parameters(node)), None) if function.owner is not None else None
    values: list[Value] = []
    named: dict[str, Value] = {}
    only = {p.name for p in keyword_only(node.args)}
    for parameter in parameters(node):
        if parameter == first:
            continue
        value = _parameter(it, parameter, node, state)
        if parameter.name in only:
            named[parameter.name] = value
        else:
            values.append(value)
    return Arguments(tuple(values), named, open=True)


def _parameter(it: Interpreter, parameter: Parameter, node: FunctionNode, state: State) -> Value:
    """What a parameter of an entry is: by annotation, by default, by the way the body uses it."""
    otherwise = default(it, parameter, Arguments(open=True), state)
    if isinstance(otherwise, Device):
        return otherwise
    if parameter.node.annotation is not None:
        value = annotated(it, parameter.node.annotation, state)
        if isinstance(value, Sequence) and isinstance(otherwise, Sequence):
            value = replace(value, kept=otherwise.kept)
        if value != UNKNOWN:
            return join(value, NONE) if is_none(parameter.default) else value
    if isinstance(otherwise, (Tensor, Static, Sequence, Dict)):
        return otherwise
    optional = is_none(parameter.default)
    if parameter.default is not None and (not optional or _is_examined(parameter.name, node)):
        return UNKNOWN
    if not _used_as_tensor(it, parameter.name, node, state):
        return LEFT_OUT if optional else UNKNOWN
    found = Tensor("follows", fed=True, full=True)
    return join(found, NONE) if optional else found


def _is_examined(name: str, function: FunctionNode) -> bool:
    """Whether the body asks what the parameter is: where it is used as a tensor it may be one, and else not."""
    for node in descendants(function):
        if isinstance(node, ast.Call) and dotted(node).rpartition(".")[2] in ("isinstance", "is_tensor", "hasattr"):
            first = next(iter(given(node)), None)
            if isinstance(first, ast.Name) and first.id == name:
                return True
    return False


def _used_as_tensor(it: Interpreter, name: str, function: FunctionNode, state: State, depth: int = 3) -> bool:
    """Whether the body does with the name what works for tensors alone, or a function that it hands the name to does.

    Args:
        it: Resolves names.
        name: The parameter.
        function: The function.
        state: A state of the function, from before its first line.
        depth: How many calls are followed from here.
    """
    parameter = _Parameter(it, name, function, state)
    for node in (use for statement in function.body for use in _uses(statement)):
        if isinstance(node, ast.Attribute) and _is_of_tensors(node.attr) and parameter.decides(node.value):
            return True
        if not isinstance(node, ast.Call) or not given(node):
            continue
        handed, first = any(map(parameter.stands, given(node))), parameter.decides(given(node)[0])
        callees = options(_callee(it, node.func, function, state)) if handed or first else ()
        callees = tuple(each for each in callees if each != NONE)
        if first and any(map(_takes_tensor, callees)):
            return True
        followed = callees if handed and depth else ()
        if followed and all(_helper_takes_tensor(it, name, node, each, depth - 1) for each in followed):
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A parameter of a function, and the expressions that are tensors if it is one, and are none if it is none.

    Attributes:
        it: Resolves names.
        name: The parameter.
        function: The function.
        state: A state of the function, from before its first line.
    """

    it: Interpreter
    name: str
    function: FunctionNode
    state: State

    def stands(self, node: ast.expr) -> bool:
        """Whether this is the parameter itself."""
        return isinstance(node, ast.Name) and node.id == self.name

    def decides(self, node: ast.expr) -> bool:
        """Whether this is the parameter, or made of it and constants by operators: ``x >= 0``, ``x * 2``, ``-x``."""
        if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
            return self.decides(node.operand)
        if isinstance(node, ast.Compare) and not any(isinstance(op, _OF_OBJECTS) for op in node.ops):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.BinOp):
            sides = [node.left, node.right]
        else:
            return self.stands(node)
        others = [side for side in sides if not self.decides(side)]
        return len(others) < len(sides) and all(map(self._is_number, others))

    def _is_number(self, node: ast.expr) -> bool:
        number = _before(self.it, node, self.function, self.state)
        return isinstance(number, Const) and isinstance(number.value, (int, float))


def _callee(it: Interpreter, node: ast.expr, function: FunctionNode, state: State) -> Value:
    """What is called, where a dotted name says it: a function inside of this one, or something from outside of it."""
    name = dotted(node)
    if not name:
        return UNKNOWN
    for inner in descendants(function):
        if isinstance(inner, FunctionNode) and inner.name == name:
            return Function(inner, Closure(state.frame.module, _known(function, state), state.frame.cls))
    return _before(it, node, function, state)


def _known(function: FunctionNode, state: State) -> dict[str, Value]:
    """The variables of a function before its first line, of which nothing is known but the object."""
    own = [p.name for p in parameters(function)]
    known = {**state.variables, **dict.fromkeys(own, UNKNOWN)}
    if own and state.frame.owner is not None:
        known[own[0]] = state.frame.owner
    return known


def _before(it: Interpreter, node: ast.expr, function: FunctionNode, state: State) -> Value:
    """The value of an expression before the first line of a function."""
    known = _known(function, state)
    it.silent += 1
    try:
        return it.expression(node, State(state.frame, known))
    finally:
        it.silent -= 1


def _helper_takes_tensor(it: Interpreter, name: str, node: ast.Call, callee: Value, depth: int) -> bool:
    """Whether the call is one of a function or module of the project that uses what it is given as a tensor."""
    if isinstance(callee, Instance):
        callee = (it.forward(callee) if callee.module else None) or UNKNOWN
    if not isinstance(callee, Function):
        return False
    function, module = written(callee)
    if isinstance(function, ast.Lambda):
        return False
    names: list[str | int | None] = [*range(len(node.args)), *(keyword.arg for keyword in node.keywords)]
    if None in names or any(isinstance(part, ast.Starred) for part in node.args):
        return False
    parts = zip(names, given(node), strict=True)
    places = [place for place, part in parts if isinstance(part, ast.Name) and part.id == name]
    wanted = [p.name for p in parameters(function)][callee.owner is not None :]
    frame = Frame(module, callee.closure.cls, callee.owner)
    inner = State(frame, dict(callee.closure.variables))
    for place in places:
        taken = place if not isinstance(place, int) else wanted[place] if place < len(wanted) else None
        if taken not in wanted or _is_examined(str(taken), function):
            continue
        if _used_as_tensor(it, str(taken), function, inner, depth):
            return True
    return False


def _is_of_tensors(attribute: str) -> bool:
    """Whether tensors have the attribute, and Python's own objects have none of that name."""
    return attribute in _TENSOR_ONLY or (attribute in facts().methods and attribute not in _PYTHON)


def _takes_tensor(callee: Value) -> bool:
    """Whether this is a function of torch that wants a tensor first, or a module of ``torch.nn``."""
    if isinstance(callee, TorchModule):
        return facts().modules.get(callee.name) in ("tensor", "recurrent")
    operator = facts().functions.get(callee.name) if isinstance(callee, External) else None
    return operator is not None and operator.takes_tensor and not operator.factory and operator.returns == "tensor"


def _uses(node: ast.AST) -> Iterator[ast.AST]:
    for child in children(node):
        if isinstance(child, (ast.Attribute, ast.Call)):
            yield child
        yield from _uses(child)
