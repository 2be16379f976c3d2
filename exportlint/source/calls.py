"""Calls: who is called, with what, and what comes back."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from exportlint.source import branches, builtin_calls, decorators, moves, operators, saved, tensors
from exportlint.source.events import Asked, Called, Converted
from exportlint.source.facts import facts
from exportlint.source.index import dotted
from exportlint.source.outside import CHOICES, READINGS
from exportlint.source.parameters import OPEN, Arguments
from exportlint.source.tree import children, indices, is_none
from exportlint.source.tree import given as given_to
from exportlint.source.values import (
    NONE,
    UNKNOWN,
    UNREGISTERED,
    Array,
    Class,
    Const,
    Device,
    Dict,
    External,
    Function,
    Instance,
    Loaded,
    Method,
    Number,
    Partial,
    Sequence,
    Shape,
    Size,
    StateDict,
    Static,
    Super,
    Tensor,
    TorchModule,
    Truth,
    Union,
    Unknown,
    Value,
    is_tensor,
    join,
    join_all,
    made_of,
    options,
    sizes,
)
from exportlint.source.values import tensors as tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from exportlint.source.interpreter import Interpreter
    from exportlint.source.state import State

# What these say while a model is captured. The tracing predicates of torch's older ways of capture are false then.
PREDICATES = {
    "torch.compiler.is_compiling": True,
    "torch.compiler.is_exporting": True,
    "torch._dynamo.is_compiling": True,
    "torch._dynamo.external_utils.is_compiling": True,
    "torch.jit.is_scripting": False,
    "torch.jit.is_tracing": False,
    "torch._C._get_tracing_state": False,
    "torch.onnx.is_in_onnx_export": False,
    "torch.overrides.has_torch_function": False,
    "torch.overrides.has_torch_function_unary": False,
    "torch.overrides.has_torch_function_variadic": False,
    "torch.is_grad_enabled": None,
    # Judged is the export on a machine without an accelerator: what is reported there is wrong everywhere.
    **dict.fromkeys(("torch.cuda.is_available", "torch.xpu.is_available", "torch.mps.is_available"), False),
    **dict.fromkeys(("torch.backends.mps.is_available", "torch.accelerator.is_available"), False),
    **dict.fromkeys(("torch.cuda.device_count", "torch.xpu.device_count", "torch.mps.device_count"), 0),
    "torch.accelerator.device_count": 0,
    "torch.cuda.is_bf16_supported": False,
}
# Objects of other libraries that rules want to recognise by their methods.
_MADE = {
    "logging.getLogger": "logging.Logger",
    "ctypes.CDLL": "ctypes.library",
    "ctypes.cdll.LoadLibrary": "ctypes.library",
    "contextvars.ContextVar": "contextvars.variable",
    "pathlib.Path": "pathlib.path",
    **dict.fromkeys(("threading.Lock", "threading.RLock", "threading.Condition"), "threading.lock"),
    **dict.fromkeys(("threading.Semaphore", "threading.BoundedSemaphore"), "threading.lock"),
    "threading.Event": "threading.event",
    **dict.fromkeys(("queue.Queue", "queue.LifoQueue", "queue.PriorityQueue"), "queue.object"),
    "random.Random": "random.Random",
    "random.SystemRandom": "random.SystemRandom",
    "numpy.random.RandomState": "numpy.random.RandomState",
    "numpy.random.default_rng": "numpy.random.Generator",
}
_MADE_OF_TORCH = dict.fromkeys(("torch.Generator", "torch.generator.manual_seed"), External("torch.generator"))
# Those that rules want to recognise only where they are there before the call, since to make one is enough.
_MADE_BEFORE = {
    "concurrent.futures.ThreadPoolExecutor": "concurrent.futures.executor",
    "concurrent.futures.thread.ThreadPoolExecutor": "concurrent.futures.executor",
}
_LAYERS = frozenset({"torch.nn.Linear", "torch.nn.LayerNorm"})
# Functions that ask for a truth as ``bool`` does.
_TRUTHS = dict.fromkeys(("torch.is_nonzero", "operator.truth"), "builtins.bool")
_ASSERTIONS = frozenset({"torch._assert", "torch.testing.assert_close"})
_PROGRESS = frozenset({"tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.trange", "tqdm.auto.trange", "tqdm.rich.tqdm"})
_CACHES = ("lru_cache", "functools.lru_cache", "cache", "functools.cache")
# What numpy surely makes an array: of a list, and of a size.
_ARRAYS = frozenset({"array", "asarray"})
_FILLED = frozenset({"zeros", "ones", "empty", "full", "arange", "linspace", "eye", "identity"})
_HIGHER_ORDER = frozenset({
    "torch.utils.checkpoint.checkpoint", "torch.func.vmap", "torch.vmap", "torch.func.grad",
})  # fmt: skip


def call(it: Interpreter, node: ast.Call, state: State) -> Value:
    """The value of a call expression."""
    if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args and not node.keywords:
        cls, owner = state.frame.cls, state.frame.owner
        return Super(cls, owner) if cls is not None and owner is not None else UNKNOWN
    callee = it.expression(node.func, state)
    given = arguments(it, node, state)
    if isinstance(callee, Unknown) and isinstance(node.func, ast.Attribute) and node.func.attr == "load_state_dict":
        _called(it, node, ".load_state_dict", None, given, UNKNOWN, state)
    found = saved.sure(options(callee))
    results = tuple(apply(it, node, option, given, state) for option in found if option != NONE)
    return join_all(results) if results else UNKNOWN


def arguments(it: Interpreter, node: ast.Call, state: State) -> Arguments:
    """The values of the arguments of a call."""
    positional: list[Value] = []
    keywords: dict[str, Value] = {}
    unknown = False
    for part in node.args:
        if not isinstance(part, ast.Starred):
            positional.append(it.expression(part, state))
            continue
        value = it.expression(part.value, state)
        if isinstance(value, Sequence) and value.items is not None:
            positional += value.items
        elif isinstance(value, Shape):
            positional.append(value)
        else:
            unknown = True
    for keyword in node.keywords:
        value = it.expression(keyword.value, state)
        if keyword.arg is not None:
            keywords[keyword.arg] = value
            continue
        known = isinstance(value, Dict) and all(isinstance(k, str) for k, _ in value.items)
        if isinstance(value, Dict) and known:
            keywords.update(value.items)
        given_more = isinstance(value, Dict) and (value.kept == OPEN or value.kept.startswith("default "))
        unknown = unknown or not known or given_more
    return Arguments(tuple(positional), keywords, unknown)


def apply(it: Interpreter, node: ast.Call, callee: Value, given: Arguments, state: State) -> Value:
    """The result of calling a value."""
    handler = _CALLEES.get(type(callee))
    if isinstance(callee, Number) and callee.outside:
        return callee
    return UNKNOWN if handler is None else handler(it, node, callee, given, state)


def _function(it: Interpreter, node: ast.Call, callee: Function, given: Arguments, state: State) -> Value:
    if callee.entry is not None and f"{callee.entry.module.name}.{callee.entry.name}" in it.project.predicates:
        return Const(True)
    result = it.invoke(callee, given, state, it.site(node, state))
    if callee.entry is not None and any(d in _CACHES for d in callee.entry.decorators):
        _called(it, node, "functools.lru_cache", None, given, result, state)
    return result


def _class(it: Interpreter, node: ast.Call, callee: Class, given: Arguments, state: State) -> Value:
    _, outside = it.project.lineage(callee.entry)
    if "torch.autograd.Function" in outside or "torch.autograd.function.Function" in outside:
        return UNKNOWN
    return it.instance(callee.entry, node, given, state)


def _instance(it: Interpreter, node: ast.Call, callee: Instance, given: Arguments, state: State) -> Value:
    function: Value | None = it.forward(callee) if callee.module else None
    entry = it.project.method(callee.cls, "__call__") if function is None else None
    if function is None and entry is None:
        _, outside = it.project.lineage(callee.cls)
        known = next((o for o in outside if o in facts().modules), None)
        return UNKNOWN if known is None else torch_module(it, node, TorchModule(known), given, state)
    function = it.function(entry, callee) if entry is not None else function
    return it.invoke(function, given, state, it.site(node, state)) if isinstance(function, Function) else UNKNOWN


def torch_module(it: Interpreter, node: ast.Call, callee: TorchModule, given: Arguments, state: State) -> Value:
    """The result of calling a module of ``torch.nn``."""
    kind = facts().modules.get(callee.name, "other")
    if callee.name == "torch.nn.Sequential":
        for part in callee.parts:
            given = Arguments((apply(it, node, part, given, state),))
        return given.positional[0] if callee.parts and given.positional else UNKNOWN
    result: Value = UNKNOWN
    if kind != "container":
        made = tensors.combine(it, node, _computed_with(callee, given.all), state)
        result = _module_result(callee.name, kind, made, given)
    if callee.name in _LAYERS and isinstance(result, Tensor):
        result = replace(result, layered=True)
    _called(it, node, callee.name, callee, given, result, state)
    return result


def _computed_with(callee: TorchModule, taken: tuple[Value, ...]) -> tuple[Value, ...]:
    """What a module computes with: what it is given, and its parameters, which follow the model."""
    own = Tensor("follows", real=True)
    if callee.unknown_to:
        own = Tensor("default", None, scalar=False, home=f"list {callee.unknown_to}", real=True)
    if callee.name in facts().modules_with_parameters:  # which want a dimension of features
        return own, *(replace(v, scalar=False) if isinstance(v, Tensor) else v for v in taken)
    if callee.name == "torch.nn.CTCLoss":
        taken = taken[:2]  # lengths may be elsewhere
    elsewhere = any(t.placement in ("default", "literal") for v in taken for t in tensors_in(options(v)))
    return taken if elsewhere else (own, *taken)


def _module_result(name: str, kind: str, made: Tensor, given: Arguments) -> Value:
    first = given.get(0)
    dims = first.dims if isinstance(first, Tensor) else None
    same = name in facts().module_keeps_shape
    scalar = made.scalar if same else None
    made = replace(made, scalar=scalar, boolean=False, dims=None, counted=isinstance(first, Tensor) and first.counted)
    made = replace(made, full=same or name in facts().modules_with_parameters)
    if name in facts().module_keeps_shape or name.endswith(("Norm", "Norm1d", "Norm2d", "Norm3d")):
        made = replace(made, dims=dims)
    elif name in ("torch.nn.Linear", "torch.nn.LazyLinear") and dims:
        made = replace(made, dims=(*dims[:-1], Static("int")))
    elif name == "torch.nn.Embedding" and dims is not None:
        made = replace(made, dims=(*dims, Static("int")))
    if kind == "tensor":
        return made
    if kind == "recurrent":
        return Sequence((made, Union((made, Sequence((made, made), kind="tuple")))), kind="tuple")
    if name == "torch.nn.MultiheadAttention":
        return Sequence((made, made), kind="tuple")
    return Sequence((made, made), kind="tuple") if name == "torch.nn.LSTMCell" else UNKNOWN


def _called(
    it: Interpreter, node: ast.AST, name: str, receiver: Value | None, given: Arguments, result: Value, state: State
) -> None:
    it.calling = state
    it.emit(
        Called(
            it.site(node, state),
            name,
            receiver,
            given.positional,
            given.keywords,
            result,
            node is not it.statement,
            it.catching > 0,
        )
    )


def _external(it: Interpreter, node: ast.Call, callee: External, given: Arguments, state: State) -> Value:
    name = callee.name
    result = Const(True) if name in it.project.predicates else _external_result(it, node, name, given, state)
    _called(it, node, name, None, given, result, state)
    return result


def _custom_operator(name: str, given: Arguments) -> Value | None:
    """``custom_op("space::name", function)``: an operator under that name, of which the inside is not looked at."""
    named = given.get(0)
    if name != decorators.CUSTOM or len(given.positional) < 2 or not isinstance(named, Const):
        return None
    operator = decorators.operator_name(named.value)
    return External(operator) if operator else None


def _external_result(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value:
    if name in PREDICATES:
        said = PREDICATES[name]
        return Static("bool") if said is None else Const(said)
    name = _TRUTHS.get(name, name)
    space, _, short = name.rpartition(".")
    if space.startswith(("torch", "functorch")):
        known = (
            _MADE_OF_TORCH.get(name)
            or _custom_operator(name, given)
            or saved.made(it, node, name, given, state)
            or branches.result(it, node, name, given, state)
        )
    else:
        known = _elsewhere(it, node, name, given, state)
    if known is not None:
        return known
    if name in facts().modules:
        return TorchModule(name, _registered(name, _parts(given)), bare=moves.is_bare(name, given))
    handler = {"builtins": builtin_calls.call, "math": _math, "operator": operators.call, "functools": _functools}.get(
        space
    )
    if handler is not None:
        return handler(it, node, short, given, state)
    if name.startswith("numpy."):
        return _numpy(it, node, short, given, state)
    if name in _ASSERTIONS and given.positional:
        _asserted(it, node, given.positional[0], state)
    special = _torch(it, node, name, given, state) if space.startswith("torch") else None
    return tensors.call_function(it, node, name, given, state) if special is None else special


def _asserted(it: Interpreter, node: ast.Call, value: Value, state: State) -> None:
    """An assertion of torch asks for the truth of a tensor, and fixes the side of a comparison of sizes."""
    if is_tensor(value):
        it.emit(Asked(it.site(node, state), value, "bool()"))
    elif isinstance(value, Truth) and isinstance(value.of, Size):
        it.emit(Asked(it.site(node, state), value, "assert", validates=True))


def _read_outside(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value | None:
    """What a function reads outside of the model; of several values that one is drawn of, any."""
    reading = "numpy random number" if name.startswith("numpy.random.") else READINGS.get(name)
    if reading is not None:
        return Number(reading, it.site(node, state))
    if name not in CHOICES:
        return None
    first = given.get(0)
    return first.any if isinstance(first, Sequence) else UNKNOWN


def _elsewhere(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value | None:
    """What functions of other libraries, and of Python's, return that rules want to recognise."""
    known = _MADE.get(name) or (_MADE_BEFORE.get(name) if it.lasting else None)
    made = _read_outside(it, node, name, given, state) if known is None else External(known)
    if made is not None:
        return made
    if name in UNREGISTERED:
        return Static(name)
    if name in ("itertools.count", "itertools.cycle", "itertools.repeat"):
        repeated = given.get(0) if name.endswith("repeat") else None
        return Sequence(None, Static("int") if name.endswith("count") else repeated or UNKNOWN, "iterator")
    if name.startswith("collections."):
        return _collection(name, given)
    return (given.get(0) or UNKNOWN) if name in _PROGRESS else None


def _functools(it: Interpreter, node: ast.Call, short: str, given: Arguments, state: State) -> Value:
    """``partial``: a function with arguments. One that makes modules is left alone: they hang on later arguments."""
    callee = given.get(0) if short in ("partial", "partialmethod") else None
    plain = isinstance(callee, Function) or (isinstance(callee, External) and callee.name not in facts().modules)
    if callee is None or given.open or not plain:
        return UNKNOWN
    return Partial(callee, given.positional[1:], tuple(given.keywords.items()), short == "partialmethod")


def _partial(it: Interpreter, node: ast.Call, callee: Partial, given: Arguments, state: State) -> Value:
    merged = Arguments((*callee.positional, *given.positional), {**dict(callee.keywords), **given.keywords}, given.open)
    result = apply(it, node, callee.callee, merged, state)
    if callee.method:
        _called(it, node, "functools.partialmethod", None, given, result, state)
    return result


def _collection(name: str, given: Arguments) -> Value | None:
    """What a class of ``collections`` makes."""
    if name == "collections.deque":
        first = given.get(0)
        return Sequence(None, first.any) if isinstance(first, Sequence) else Sequence(()) if first is None else None
    if name == "collections.Counter":
        return Dict(element=Static("int"))
    if name == "collections.defaultdict":
        made = given.get(0)
        of = made.name.rpartition(".")[2] if isinstance(made, External) else ""
        return Dict(element=Static(of)) if of in ("int", "float") else Dict()
    return Dict() if name == "collections.OrderedDict" else None


def _parts(given: Arguments) -> tuple[Value, ...]:
    """The modules that a container is made of."""
    found: list[Value] = []
    for value in given.positional:
        for option in options(value):
            if isinstance(option, Sequence):
                found += option.items if option.items is not None else (option.element,)
            elif isinstance(option, Dict):
                found += [v for _, v in option.items] or [option.element]
            else:
                found.append(option)
    return tuple(found)


def _registered(name: str, parts: tuple[Value, ...]) -> tuple[Value, ...]:
    """What a container of modules makes of what it is given: one of parameters makes parameters of tensors."""
    if name not in ("torch.nn.ParameterList", "torch.nn.ParameterDict"):
        return parts
    moved = {"placement": "follows", "site": None, "kept": "parameter", "home": ""}
    return tuple(replace(v, **moved) if isinstance(v, Tensor) else v for v in parts)  # type: ignore[arg-type]


def _math(it: Interpreter, node: ast.Call, short: str, given: Arguments, state: State) -> Value:
    for value in given.positional:
        for option in options(value):
            it.emit(Converted(it.site(node, state), option, f"math.{short}"))
    if short == "prod" and given.positional:
        first = given.positional[0]
        items = first.items if isinstance(first, Sequence) else None
        given = replace(given, positional=items or given.positional)
    numbers = [v for v in given.positional if isinstance(v, Number)]
    if numbers or tensors_in(given.positional):
        return numbers[0] if numbers else Number(f"math.{short}", it.site(node, state), real=True)
    found = [v for v in given.positional if isinstance(v, (Size, Shape))]
    symbolic = short in ("ceil", "floor", "prod", "trunc")
    return _product(found) if found and symbolic else Static("float")


def _product(found: list[Size | Shape]) -> Value:
    """The number computed from sizes; it varies where one of them does."""
    known = [size for size in found if isinstance(size, Size)]
    varying = next((size for size in known if size.varies), None)
    of = made_of(known if len(known) == len(found) else ())
    return replace((varying or known[0]).opaque, of=of) if known else Size()


def _numpy(it: Interpreter, node: ast.Call, short: str, given: Arguments, state: State) -> Value:
    """A numpy function: what it makes of tensors, sizes and arrays holds what they held."""
    found = [v for value in given.all for v in options(value)]
    arrays = [v for v in found if isinstance(v, Array)]
    if arrays:
        return arrays[0]
    if tensors_in(given.all):
        return Array(it.site(node, state))
    varies = any(size.varies for size in sizes(given.all))
    if varies:
        return Array(it.site(node, state), of_size=True)
    return Array(whole=(short in _ARRAYS and not isinstance(given.get(0), (Const, Static))) or short in _FILLED)


def _torch(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value | None:
    """Names of torch that make no tensor, or keep one."""
    first = given.get(0)
    if name == "torch.device":
        if isinstance(first, Const) and isinstance(first.value, str):
            return Device("unknown") if first.value == "meta" else Device("literal", first.value, it.site(node, state))
        return first if isinstance(first, Device) else Device("unknown")
    if name in ("torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.nn.Buffer"):
        kept = "buffer" if name.endswith("Buffer") else "parameter"
        base = first if isinstance(first, Tensor) else Tensor()
        return replace(base, placement="follows", site=None, kept=kept)
    if name in _HIGHER_ORDER and given.positional and isinstance(given.positional[0], (Function, Instance)):
        return apply(it, node, given.positional[0], replace(given, positional=given.positional[1:]), state)
    if name == "torch._check" or name.startswith("torch._check_"):
        return _checked(node, state)
    return Static("bool") if name == "torch.is_tensor" else None


def _checked(node: ast.Call, state: State) -> Value:
    """What ``torch._check`` was told about is known from then on: a decision on it may be certain."""
    for part in given_to(node)[:1]:
        for name in names_in(part):
            if isinstance(state.variables.get(name), Number):
                state.variables[name] = Static("int")
    return NONE


def names_in(node: ast.AST) -> list[str]:
    """The variables that an expression mentions."""
    if isinstance(node, ast.Name):
        return [node.id]
    return [name for child in children(node) for name in names_in(child)]


def _method(it: Interpreter, node: ast.Call, callee: Method, given: Arguments, state: State) -> Value:
    receiver = callee.receiver
    known = operators.special(it, node, receiver, callee.name, given, state)
    if known is not None:
        return known
    if isinstance(receiver, Tensor):
        if callee.name.endswith("_") and not callee.name.endswith("__"):
            receiver = tensors.written(it, receiver)
            tensors.put_by_method(it, node, callee, given, state)
        result = tensors.call_method(it, node, receiver, callee.name, given, state)
    elif isinstance(receiver, Instance):
        result = builtin_calls.object_method(it, node, receiver, callee.name, given, state)
    elif isinstance(receiver, (Sequence, Dict, Shape)):
        result = builtin_calls.container_method(it, node, receiver, callee.name, given, state)
    elif isinstance(receiver, TorchModule):
        result = _module_method(receiver, callee.name)
    elif isinstance(receiver, Array) or (isinstance(receiver, Loaded) and callee.name in saved.PARTS):
        result = receiver
    elif isinstance(receiver, Class) and callee.name == "apply":
        result = _applied(it, receiver, given, state)
    else:
        result = Static() if isinstance(receiver, (Const, Static)) else UNKNOWN
    _called(it, node, f".{callee.name}", receiver, given, result, state)
    moves.note(it, node, callee, given, state)
    if isinstance(receiver, Tensor) and callee.name.endswith("_") and isinstance(result, Tensor):
        _in_place(it, node, receiver, result, state)
    return result


def _applied(it: Interpreter, receiver: Class, given: Arguments, state: State) -> Value:
    """``Function.apply`` runs the static ``forward``, with a context before the arguments."""
    entry = it.project.method(receiver.entry, "forward")
    function = it.function(entry) if entry is not None else UNKNOWN
    if not isinstance(function, Function):
        return UNKNOWN
    separate = it.project.method(receiver.entry, "setup_context") is not None
    positional = given.positional if separate else (External("torch.autograd.context"), *given.positional)
    return it.invoke(function, replace(given, positional=positional), state)


def _in_place(it: Interpreter, node: ast.Call, receiver: Tensor, result: Tensor, state: State) -> None:
    from exportlint.source.statements import note_change

    note_change(it, node, receiver, result, "item", state)


def _module_method(receiver: TorchModule, name: str) -> Value:
    if name in moves.RETURNS_ITSELF:
        return receiver
    if name == "state_dict":
        return StateDict(receiver)
    if name in builtin_calls.TENSORS_OF_MODULES:
        return builtin_calls.tensors_of_module(name)
    if name in ("values", "children", "modules", "__iter__"):
        return Sequence(None, join_all(receiver.parts), "iterator")
    if name == "items":
        return Sequence(None, Sequence((Static("str"), join_all(receiver.parts)), kind="tuple"), "iterator")
    return UNKNOWN


def annotated(it: Interpreter, node: ast.expr, state: State) -> Value:
    """What an annotation says of a value: tensors, numbers, sequences of them; ``Optional`` and ``|`` of these."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            node = ast.parse(node.value, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return UNKNOWN
    if is_none(node):
        return NONE
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return join(annotated(it, node.left, state), annotated(it, node.right, state))
    named = node.value if isinstance(node, ast.Subscript) else node
    if it.project.tensor_types and it.project.is_tensor_type(state.frame.module, dotted(named)):
        return Tensor("follows", fed=True, full=True)
    if isinstance(node, ast.Subscript):
        return _of_generic(it, node, state)
    return _of_named(it, node, state) if isinstance(node, (ast.Name, ast.Attribute)) else UNKNOWN


def _of_named(it: Interpreter, node: ast.Name | ast.Attribute, state: State) -> Value:
    it.silent += 1
    value = it.expression(node, state)
    it.silent -= 1
    if isinstance(value, External):
        space, _, short = value.name.rpartition(".")
        if value.name == "torch.Tensor" or value.name in facts().constructors:
            return Tensor("follows", fed=True, full=True)
        if space == "builtins" and short in ("int", "float", "bool", "str"):
            return Static(short)
    return UNKNOWN


def _of_generic(it: Interpreter, node: ast.Subscript, state: State) -> Value:
    name = node.value.id if isinstance(node.value, ast.Name) else getattr(node.value, "attr", "")
    parts = indices(node)
    inner = [annotated(it, part, state) for part in parts if not isinstance(part, ast.Slice)] or [UNKNOWN]
    if name == "Optional":
        return join(inner[0], NONE)
    if name == "Union":
        return join_all(tuple(inner))
    if name in ("list", "List", "Sequence", "Iterable"):
        return Sequence(None, inner[0])
    if name in ("tuple", "Tuple"):
        open_ended = any(isinstance(part, ast.Constant) and part.value is ... for part in parts)
        return Sequence(None, inner[0], "tuple") if open_ended else Sequence(tuple(inner), kind="tuple")
    return UNKNOWN


_SPACES: dict[str, Callable[[Interpreter, ast.Call, str, Arguments, State], Value]] = {
    "builtins": builtin_calls.call,
    "math": _math,
    "operator": operators.call,
    "functools": _functools,
}
_CALLEES: dict[type[Value], Callable[[Interpreter, ast.Call, Any, Arguments, State], Value]] = {
    Function: _function,
    External: _external,
    Method: _method,
    Instance: _instance,
    TorchModule: torch_module,
    Class: _class,
    Partial: _partial,
}
