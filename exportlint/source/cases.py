"""Model cases as the linter reads them: what is run on which inputs, and which of their dimensions vary.

A file holds a case where it follows the plain convention (``build()``, ``inputs()``), decorates a factory with
``export_case``, or calls ``ModelCase`` or the fixture ``export_check``. What cannot be read from the text says nothing.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from exportlint.source.entries import run, written
from exportlint.source.events import Given
from exportlint.source.index import ClassEntry, FunctionEntry, dotted
from exportlint.source.layout import may_declare
from exportlint.source.parameters import Arguments
from exportlint.source.project import Outside
from exportlint.source.sites import Site
from exportlint.source.state import Frame, State
from exportlint.source.tree import parameters
from exportlint.source.values import (
    NONE,
    UNKNOWN,
    Class,
    Const,
    Dict,
    External,
    Function,
    Instance,
    Sequence,
    Size,
    Static,
    Tensor,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from exportlint.source.index import ModuleIndex
    from exportlint.source.interpreter import Interpreter

_CASES = frozenset({"exportlint.ModelCase", "exportlint.checks.case.ModelCase"})
_DECORATORS = frozenset({"exportlint.export_case", "exportlint.checks.case.export_case"})
_FIXTURE = "export_check"
_ARGUMENTS = ("model", "args", "kwargs")
_MOST = 64  # cases of one file that are run
_ANY_SIZE = (External("torch.export.Dim.DYNAMIC"), External("torch.export.Dim.AUTO"))
_ONE_SIZE = (NONE, External("torch.export.Dim.STATIC"))


@dataclass(frozen=True, slots=True)
class _Case:
    """What a case gives, as far as it is known.

    Attributes:
        model: The model.
        args: Positional arguments of the example call.
        kwargs: Its keyword arguments.
        second: Positional arguments of another call.
        shapes: What is asked of the dimensions.
    """

    model: Value
    args: Value
    kwargs: Value = UNKNOWN
    second: Value = UNKNOWN
    shapes: Value = NONE


def runs(it: Interpreter, module: ModuleIndex) -> Iterator[tuple[str, Callable[[], None]]]:
    """The cases of a file, each with its name, to be run."""
    if "build" in module.functions and "inputs" in module.functions:
        yield "build", lambda: _run(it, _plain(it, module))
    if may_declare(module.source.text):
        for i, declared in enumerate(_declared(it, module)):
            if i == _MOST:
                return
            yield f"the case in line {declared.line}", partial(_run_declared, it, module, declared)


# What a file declares


@dataclass(frozen=True, slots=True)
class _Declared:
    """A call that makes a case.

    Attributes:
        call: The call.
        names: What its positional arguments are.
        target: What it decorates; nothing for other calls.
        function: The function around it, and the statements of its block that come before.
    """

    call: ast.Call
    names: tuple[str, ...] = _ARGUMENTS
    target: ClassEntry | FunctionEntry | None = None
    function: FunctionEntry | None = None
    before: tuple[ast.stmt, ...] = ()

    @property
    def line(self) -> int:
        return self.call.lineno


def _declared(it: Interpreter, module: ModuleIndex) -> Iterator[_Declared]:
    """The calls in a file that make cases: decorators, then those of the file itself, then those in functions."""
    targets: list[ClassEntry | FunctionEntry] = [*module.functions.values(), *module.classes.values()]
    for target in targets:
        for decorator in getattr(target.extent.statement, "decorator_list", ()):
            if isinstance(decorator, ast.Call) and _means(it, module, decorator) in _DECORATORS:
                yield _Declared(decorator, _ARGUMENTS[1:], target)
    for extent in (extent for extents in module.assigned.values() for extent in extents):
        yield from (_Declared(call) for call in _calls(extent.statement) if _means(it, module, call) in _CASES)
    methods = [method for cls in module.all_classes for method in cls.methods.values()]
    for function in (*module.functions.values(), *methods):
        yield from _inside(it, module, function)


def _inside(it: Interpreter, module: ModuleIndex, function: FunctionEntry) -> Iterator[_Declared]:
    """The calls in a function that make cases, or that a test gives one to the fixture by."""
    taken = {parameter.name for parameter in parameters(function.node)}
    for i, statement in enumerate(function.node.body):
        for call in _calls(statement):
            name = dotted(call.func)
            if name == _FIXTURE in taken or (name not in taken and _means(it, module, call) in _CASES):
                yield _Declared(call, _ARGUMENTS, None, function, tuple(function.node.body[:i]))


def _calls(statement: ast.stmt) -> Iterator[ast.Call]:
    return (node for node in ast.walk(statement) if isinstance(node, ast.Call))


def _means(it: Interpreter, module: ModuleIndex, call: ast.Call) -> str:
    """The dotted name of what is called, whether it lies in the project or not."""
    name = dotted(call.func)
    target = it.project.resolve(module, name) if may_declare(name) else None
    if isinstance(target, (ClassEntry, FunctionEntry)):
        return f"{target.module.name}.{target.name}"
    return target.dotted if isinstance(target, Outside) else ""


def _run_declared(it: Interpreter, module: ModuleIndex, declared: _Declared) -> None:
    state = State(Frame(module))
    it.silent += 1
    try:
        if declared.function is not None:
            state.variables.update((p.name, UNKNOWN) for p in parameters(declared.function.node))
            it.block(declared.before, state)
        case = _read(it, declared, state)
    finally:
        it.silent -= 1
    if case is not None:
        _run(it, case)


def _read(it: Interpreter, declared: _Declared, state: State) -> _Case | None:
    """What a call gives; ``None`` where it hands over more than is written, or gives methods instead of a call."""
    call = declared.call
    if state.dead or any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        return None
    nodes = dict(zip(declared.names, call.args, strict=False)) | {str(k.arg): k.value for k in call.keywords}
    if "methods" in nodes or not nodes.keys() & {"args", "kwargs"}:
        return None
    found = {name: it.expression(nodes[name], state) for name in _READ if name in nodes}
    if isinstance(declared.target, ClassEntry):
        found["model"] = Class(declared.target)
    elif declared.target is not None:
        found["model"] = it.function(declared.target)
    further = _made(it, found.get("more_inputs", UNKNOWN), state)
    first_of_more = next(iter(further.items or ()), UNKNOWN) if isinstance(further, Sequence) else UNKNOWN
    args = _made(it, found.get("args", Sequence((), kind="tuple")), state)
    kwargs = _made(it, found.get("kwargs", Dict()), state)
    if isinstance(args, Dict):  # a function that makes keyword arguments alone
        args, kwargs = Sequence((), kind="tuple"), args
    if not isinstance(kwargs, Dict):
        return None
    return _Case(
        _model(it, found.get("model", UNKNOWN), call, state),
        _as_call(args),
        kwargs,
        _as_call(_made(it, found.get("inputs2", first_of_more), state)),
        found.get("dynamic_shapes", NONE),
    )


_READ = (*_ARGUMENTS, "dynamic_shapes", "inputs2", "more_inputs")


def _made(it: Interpreter, value: Value, state: State) -> Value:
    """The value, or what it returns where it is a function that makes it."""
    return it.invoke(value, Arguments(), state) if isinstance(value, Function) else value


def _model(it: Interpreter, value: Value, call: ast.Call, state: State) -> Value:
    made = _made(it, value, state)
    if isinstance(made, Class) and made == value and it.project.is_module(made.entry):
        return it.instance(made.entry, call, Arguments(), state)
    return made


def _as_call(value: Value) -> Value:
    """The positional arguments of a call, which may be one tensor, or a pair of arguments and keyword arguments."""
    if isinstance(value, Tensor):
        return Sequence((value,), kind="tuple")
    if isinstance(value, Sequence) and value.items is not None and len(value.items) == 2:
        first, second = value.items
        if isinstance(first, Sequence) and first.kind == "tuple" and isinstance(second, Dict):
            return first
    return value


# The plain convention


def _plain(it: Interpreter, module: ModuleIndex) -> _Case:
    model, state = _call(it, module, "build")
    shapes: Value = NONE
    if state is not None and "DYNAMIC_SHAPES" in module.assigned:
        shapes = it.global_value(module, "DYNAMIC_SHAPES", state)
    args, kwargs, second = (_call(it, module, name)[0] for name in ("inputs", "kwargs", "inputs2"))
    return _Case(model, args, kwargs, second, shapes)


def _call(it: Interpreter, module: ModuleIndex, name: str) -> tuple[Value, State | None]:
    """The result of a function of the file without arguments, as one path through it knows it."""
    entry = module.functions.get(name)
    function = it.function(entry) if entry is not None else UNKNOWN
    if not isinstance(function, Function):
        return UNKNOWN, None
    state = State(Frame(module))
    it.silent += 1
    try:
        return it.invoke(function, Arguments(), state), state
    finally:
        it.silent -= 1


# The run


def _run(it: Interpreter, case: _Case) -> None:
    """Run the model of a case, if that and its inputs are known."""
    model, first = case.model, case.args
    if not isinstance(model, Instance) or not isinstance(first, Sequence) or first.items is None:
        return
    function = it.forward(model)
    names = _parameters(function) if function is not None else []
    wanted = _wanted(case.shapes, [node.arg for node in names])
    others = case.second.items if isinstance(case.second, Sequence) and case.second.items is not None else ()
    positional = tuple(
        _as_input(
            it,
            value,
            others[i] if i < len(others) else None,
            wanted.get(names[i].arg) if i < len(names) else None,
            names[i].arg if i < len(names) else "",
        )
        for i, value in enumerate(first.items)
    )
    named = case.kwargs.items if isinstance(case.kwargs, Dict) else ()
    keywords = {str(key): _as_input(it, value, None, wanted.get(str(key)), str(key)) for key, value in named}
    if function is not None:
        _, module = written(function)
        for node, value in zip(names, positional, strict=False):
            it.emit(Given(Site(module.source, node), value))
    it.of_case = True
    try:
        run(it, model, Arguments(positional, keywords))
    finally:
        it.of_case = False


def _parameters(function: Function) -> list[ast.arg]:
    """The parameters of a forward, without the object itself."""
    node, _ = written(function)
    return [parameter.node for parameter in parameters(node)][function.owner is not None :]


def _wanted(shapes: Value, names: list[str]) -> Mapping[str, Value]:
    """What is asked of each input, by the name of its parameter: dynamic shapes name inputs, or are in their order."""
    if isinstance(shapes, Dict):
        return {str(key): value for key, value in shapes.items}
    return dict(zip(names, shapes.items or (), strict=False)) if isinstance(shapes, Sequence) else {}


def _as_input(it: Interpreter, value: Value, other: Value | None, wanted: Value | None, words: str = "") -> Value:
    """An example input as `forward` sees it; which dimensions vary follows from a second example or from a request.

    `words` are the user's for it, such as ``batch['ids']``; empty where there are none.
    """
    if isinstance(value, Sequence) and value.items is not None:
        others, asked = _parts(other), _parts(wanted)
        items = tuple(
            _as_input(it, v, others.get(i), asked.get(i), f"{words}[{i}]" if words else "")
            for i, v in enumerate(value.items)
        )
        return replace(value, items=items, kept="")
    if isinstance(value, Instance):
        known = it.attributes[value.key]
        known.update({name: _as_input(it, v, None, None) for name, v in known.items()})
        return value
    if isinstance(value, Dict):
        others, asked = _parts(other), _parts(wanted)
        entries = tuple(
            (k, _as_input(it, v, others.get(k), asked.get(k), f"{words}[{k!r}]" if words else ""))
            for k, v in value.items
        )
        return Dict(entries, value.element)
    if not isinstance(value, Tensor):
        return Static(type(value.value).__name__) if isinstance(value, Const) and value != NONE else value
    dims = None
    if value.dims is not None:
        dims = tuple(_dim(i, d, len(value.dims), other, wanted, words) for i, d in enumerate(value.dims))
    found = Tensor("follows", dims=dims, scalar=value.scalar, fed=True, full=True)
    return replace(found, boolean=value.boolean, real=value.real)


def _parts(value: Value | None) -> dict[Any, Value]:
    """What is in a container, by position or key."""
    if isinstance(value, Dict):
        return dict(value.items)
    return dict(enumerate(value.items or ())) if isinstance(value, Sequence) else {}


def _dim(i: int, size: Value, rank: int, other: Value | None, wanted: Value | None, words: str) -> Value:
    example = _example(size)
    others = other.dims or () if isinstance(other, Tensor) else ()
    second = _example(others[i]) if len(others) == rank else None
    dynamic: bool | None = None
    unbounded = True
    if wanted is not None and (wanted == NONE or isinstance(wanted, (Dict, Sequence))):
        asked = _parts(wanted).get(i, NONE)
        dynamic = not (asked in _ONE_SIZE or isinstance(asked, Const))
        unbounded = not dynamic or asked in _ANY_SIZE  # a named Dim may have bounds, or be a multiple
    elif second is not None and example is not None:
        dynamic = second != example
    of = frozenset({f"{words}.shape[{i}]"}) if words else frozenset[str]()
    return Size(dynamic, i, rank, example, second, unbounded=unbounded, steps=(), of=of)


def _example(size: Value) -> int | None:
    return size.value if isinstance(size, Const) and isinstance(size.value, int) else None
