"""``value.name``: reading and binding attributes."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from exportlint.source import tensors
from exportlint.source.events import Called, Changed, Unwrapped
from exportlint.source.facts import facts
from exportlint.source.index import dotted
from exportlint.source.parameters import Arguments
from exportlint.source.project import Assigned, canonical
from exportlint.source.saved import is_parallel
from exportlint.source.values import (
    COMPILED,
    NONE,
    UNKNOWN,
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
    Module,
    Number,
    Partial,
    Sequence,
    Setting,
    Shape,
    Size,
    Static,
    Super,
    Tensor,
    TorchModule,
    Truth,
    Unknown,
    Value,
    is_tensor,
    join_all,
    options,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from exportlint.source.index import ClassEntry, Extent, FunctionEntry
    from exportlint.source.interpreter import Interpreter
    from exportlint.source.state import State

_TENSOR_SELF = frozenset({"data", "T", "mT", "H", "mH", "real", "imag", "grad"})
_TENSOR_STATIC = frozenset({
    "dtype", "ndim", "layout", "requires_grad", "is_cuda", "is_cpu", "is_meta", "is_mps", "is_xpu", "is_sparse",
    "is_quantized", "is_leaf", "is_nested", "itemsize", "names",
})  # fmt: skip
_PROPERTIES = ("property", "cached_property", "functools.cached_property")


def get(it: Interpreter, base: Value, name: str, state: State) -> Value:
    """The value of an attribute of a value."""
    found = join_all(tuple(_of(it, option, name, state) for option in options(base) if option != NONE) or (UNKNOWN,))
    # What is exported is the model for inference, whatever object is asked.
    return Const(False) if name == "training" and isinstance(found, Unknown) else found


def unwrapped(it: Interpreter, node: ast.AST, read: tuple[Value, Value], state: State) -> Value:
    """What the ``data`` of a value is: of a tensor, the same one, past what a capture records."""
    base, found = read
    if it.lasting or not isinstance(base, Tensor) or not isinstance(found, Tensor):
        return found
    return replace(found, raw=it.site(node, state))


def _of(it: Interpreter, base: Value, name: str, state: State) -> Value:
    reader = _READERS.get(type(base))
    return UNKNOWN if reader is None else reader(it, base, name, state)


def _of_tensor(it: Interpreter, base: Tensor, name: str, state: State) -> Value:
    if name == "shape":
        return tensors.shape(base)
    if name == "device":
        literal = base.placement == "literal" and base.kept.startswith("device ")
        return Device(base.placement, base.kept.removeprefix("device ") if literal else "", base.site)
    if name in _TENSOR_STATIC:
        return Static(name)
    if name == "data":
        # What a constructor takes out of a parameter is a plain tensor: nothing moves it.
        plain = it.constructing and base.kept == "parameter"
        return replace(base, placement="default", kept="") if plain else base
    if name in _TENSOR_SELF:
        return replace(base, dims=None, kept="")
    return Method(base, name)


def _of_device(it: Interpreter, base: Device, name: str, state: State) -> Value:
    if name == "type":
        return Device(base.placement, base.name, base.site)
    return Static("int") if name == "index" else UNKNOWN


def _of_torch_module(it: Interpreter, base: TorchModule, name: str, state: State) -> Value:
    if name in ("weight", "bias", "in_proj_weight", "in_proj_bias", "running_mean", "running_var"):
        return Tensor("follows", kept="parameter")
    if base.parts and ((name == "module" and is_parallel(base)) or (name == "_orig_mod" and base.name == COMPILED)):
        return base.parts[0]
    return Const(False) if name == "training" else Method(base, name)


def of_instance(it: Interpreter, base: Instance, name: str, state: State) -> Value:
    """An attribute of an object: bound in this call, by ``__init__``, by a property, or by its class."""
    if base.module and name == "training":
        return Const(False)  # what is exported is the model for inference
    if name == "__class__":
        return Class(base.cls)
    initial = it.initial(base, name)
    key = (base.key, name)
    if initial is None and key in state.heap:
        initial = _class_attribute(it, base.cls, name, state) or it.left_behind(base, name)
    if initial is not None:
        return it.read(key, initial, state)
    entry = it.project.method(base.cls, name)
    if entry is not None:
        return _bound(it, entry, base, state)
    inherited = _class_attribute(it, base.cls, name, state)
    if inherited is not None:
        inherited = it.read(key, inherited, state)
    if isinstance(inherited, Partial) and inherited.method and isinstance(inherited.callee, Function):
        return replace(inherited, callee=replace(inherited.callee, owner=base))
    if inherited is None and any(name in c.written for c in it.project.lineage(base.cls)[0]):
        inherited = it.read(key, it.left_behind(base, name), state)
    return Method(base, name) if inherited is None else inherited


def _bound(it: Interpreter, entry: FunctionEntry, base: Instance, state: State) -> Value:
    """A method, or the value of a property."""
    bound = it.function(entry, base)
    if not any(d.endswith(_PROPERTIES) for d in entry.decorators):
        return bound
    return it.invoke(bound, Arguments(), state) if isinstance(bound, Function) else UNKNOWN


def _class_attribute(it: Interpreter, cls: ClassEntry, name: str, state: State) -> Value | None:
    """What the body of the class, or of a base, binds the name to."""
    for each in it.project.lineage(cls)[0]:
        extent = each.attributes.get(name)
        if extent is not None:
            key = (id(extent), name)
            if key not in it.globals:
                it.globals[key] = UNKNOWN
                it.globals[key] = it.statement_value(extent, name, _methods_in(it, each, extent))
            return it.read((each, name), it.globals[key], state)
    return None


def _methods_in(it: Interpreter, cls: ClassEntry, extent: Extent) -> dict[str, Value]:
    """The methods that ``partialmethod`` is given in the body of a class; others are not looked for there."""
    value = getattr(extent.statement, "value", None)
    if not isinstance(value, ast.Call) or dotted(value.func).rpartition(".")[2] != "partialmethod":
        return {}
    named = (part.id for part in value.args[:1] if isinstance(part, ast.Name))
    return {name: it.function(cls.methods[name]) for name in named if name in cls.methods}


def _of_class(it: Interpreter, base: Class, name: str, state: State) -> Value:
    cls = base.entry
    entry = it.project.method(cls, name)
    if entry is not None:
        return it.function(entry, base if "classmethod" in entry.decorators else None)
    found = _class_attribute(it, cls, name, state)
    return Method(base, name) if found is None else found


def _of_super(it: Interpreter, base: Super, name: str, state: State) -> Value:
    cls = base.instance.cls if isinstance(base.instance, Instance) else base.cls
    entry = it.project.method(cls, name, base.cls)
    return Method(base.instance, name) if entry is None else it.function(entry, base.instance)


def put(
    it: Interpreter, base: Value, node: ast.AST, name: str, value: Value, state: State, *, how: str = "set"
) -> None:
    """Bind an attribute of an object."""
    if isinstance(base, Class):
        _put_on_class(it, base, node, name, value, state, how)
    if isinstance(base, Function):
        _put_on_function(it, base, node, name, value, state, how)
    if isinstance(base, Module):
        _put_on_module(it, base, node, name, value, state, how)
    if isinstance(base, Tensor) and name == "requires_grad":
        it.emit(Called(it.site(node, state), ".requires_grad=", base, (value,), {}, NONE))
    if isinstance(base, Tensor) and name == "data" and base.kept in ("parameter", "buffer"):
        it.emit(Unwrapped(it.site(node, state), base, "bound"))
    if not isinstance(base, Instance):
        return
    initial = it.initial(base, name)
    slot = state.heap.get((base.key, name))
    old = slot.value if slot is not None else initial
    old = UNKNOWN if old is None else old
    registered = it.registered.get((base.key, name))
    if registered is not None and isinstance(value, Tensor):
        value = replace(value, kept=registered, placement="follows", site=None, home="")
    change = Changed(it.site(node, state), base, name, at_home(value, old, name), old, how)
    it.write((base.key, name), _guarded(change, state), state)


def _guarded(change: Changed, state: State) -> Changed:
    """The change with the test that it hangs on."""
    guard = state.frame.guards[-1] if state.frame.guards else None
    return change if guard is None else replace(change, guard=guard.site, decides=guard.decides)


def entry_of(base: Value, key: Value) -> tuple[Instance, str] | None:
    """The object and the attribute that an entry of the object's ``__dict__`` is."""
    owner = base.receiver if isinstance(base, Method) and base.name == "__dict__" else None
    named = isinstance(key, Const) and isinstance(key.value, str)
    return (owner, key.value) if isinstance(owner, Instance) and named else None  # type: ignore[attr-defined]


def refill(it: Interpreter, node: ast.Attribute, value: Value, state: State) -> None:
    """Note what a container that a constructor binds holds now; what a call does to one is not followed."""
    owner = it.expression(node.value, state) if it.constructing else UNKNOWN
    slot = state.heap.get((owner.key, node.attr)) if isinstance(owner, Instance) else None
    if isinstance(owner, Instance) and slot is not None and slot.sure:
        state.heap[owner.key, node.attr] = replace(slot, value=value)


def _put_on_class(
    it: Interpreter, base: Class, node: ast.AST, name: str, value: Value, state: State, how: str
) -> None:  # fmt: skip
    change = Changed(it.site(node, state), None, f"{base.entry.name}.{name}", value, UNKNOWN, how)
    it.write((base.entry, name), change, state)


def _of_function(it: Interpreter, base: Function, name: str, state: State) -> Value:
    """An attribute that a function was given: of what kind it is, where the file gives it one outside of functions."""
    entry = base.entry
    if entry is None or name.startswith("__"):
        return UNKNOWN
    given = re.search(rf"^{entry.name}\.{name}\s*(?::.+)?=(?!=)", entry.module.source.text, re.MULTILINE)
    return it.read((entry, name), UNKNOWN if given is None else Static(), state)


def _put_on_function(
    it: Interpreter, base: Function, node: ast.AST, name: str, value: Value, state: State, how: str
) -> None:  # fmt: skip
    if base.entry is not None:
        where = f"{base.entry.name}.{name}"
        change = Changed(it.site(node, state), None, where, value, UNKNOWN, how, of_function=True)
        it.write((base.entry, name), _guarded(change, state), state)


def _put_on_module(
    it: Interpreter, base: Module, node: ast.AST, name: str, value: Value, state: State, how: str
) -> None:  # fmt: skip
    """Bind a global of another file, which is where that file's functions read it."""
    target = it.project.member(base.index, name)
    if not isinstance(target, Assigned):
        return
    it.silent += 1  # to bind a name is not to read it
    old = it.meant(target, state)
    it.silent -= 1
    where = f"{base.index.name.rpartition('.')[2]}.{name}"
    change = Changed(it.site(node, state), None, where, value, old, how)
    it.write((target.module, target.name), _guarded(change, state), state)


def at_home(value: Value, old: Value, name: str) -> Value:
    """The value as an attribute: a new tensor is a plain one, a parameter or buffer stays what it is."""
    if isinstance(value, Tensor):
        if isinstance(old, Tensor) and old.kept in ("parameter", "buffer"):
            return replace(value, kept=old.kept, placement="follows", site=None)
        if value.kept.startswith("attribute") or not value.kept or value.kept.startswith("device"):
            return replace(value, kept=f"attribute {name}")
    if isinstance(value, (Sequence, Dict, Array)):
        return replace(value, kept=f"attribute {name}")
    return value


def moved_by_its_class(it: Interpreter, cls: ClassEntry) -> frozenset[str]:
    """The attributes that the class moves itself: its own ``to`` or ``_apply`` binds them."""
    entries = [entry for name in ("to", "_apply") if (entry := it.project.method(cls, name)) is not None]
    nodes = [node for entry in entries for node in ast.walk(entry.node)]
    bound = [target for node in nodes if isinstance(node, ast.Assign) for target in node.targets]
    return frozenset(target.attr for target in bound if isinstance(target, ast.Attribute))


def fields(it: Interpreter, cls: ClassEntry, arguments: Arguments) -> dict[str, Value]:
    """The attributes that a generated ``__init__`` (of a dataclass, a named tuple) binds."""
    names = [name for c in reversed(it.project.lineage(cls)[0]) for name in c.fields]
    found: dict[str, Value] = dict.fromkeys(names, UNKNOWN)
    if not arguments.open:
        found.update((name, _text_default(it, cls, name)) for name in names)
        found.update(zip(names, arguments.positional, strict=False))
        found.update((k, v) for k, v in arguments.keywords.items() if k in found)
    return found


def _text_default(it: Interpreter, cls: ClassEntry, name: str) -> Value:
    """The text that a field of a dataclass is where nothing else is given: a device, for instance."""
    for each in it.project.lineage(cls)[0]:
        extent = each.attributes.get(name)
        value = getattr(extent.statement, "value", None) if extent is not None else None
        if extent is not None:
            return Const(value.value) if isinstance(value, ast.Constant) and isinstance(value.value, str) else UNKNOWN
    return UNKNOWN


def _of_external(it: Interpreter, base: External, name: str, state: State) -> Value:
    return External(canonical(f"{base.name}.{name}"))


def _of_module(it: Interpreter, base: Module, name: str, state: State) -> Value:
    return it.meant(it.project.member(base.index, name), state)


def _of_array(it: Interpreter, base: Array, name: str, state: State) -> Value:
    return Static() if name in ("shape", "dtype", "ndim", "size") else Method(base, name)


def _of_setting(it: Interpreter, base: Setting, name: str, state: State) -> Value:
    return base


def _method(it: Interpreter, base: Value, name: str, state: State) -> Value:
    return Method(base, name)


def _special(it: Interpreter, base: Number | Truth, name: str, state: State) -> Value:
    if isinstance(base, Number) and base.outside:
        return base  # a part of what was read, or what a method makes of it
    return Method(base, name) if name.startswith("__") else UNKNOWN


def _of_sequence(it: Interpreter, base: Sequence, name: str, state: State) -> Value:
    """A method, or a part of several results of torch that has a name: ``x.max(0).values``."""
    if base.kind != "tuple" or name not in facts().result_fields or not is_tensor(base.any):
        return Method(base, name)
    position = {"values": 0, "indices": 1}.get(name)
    known = position is not None and base.items is not None and position < len(base.items)
    return base.items[position] if known else base.any  # type: ignore[index]


_READERS: dict[type[Value], Callable[[Interpreter, Any, str, State], Value]] = {
    Tensor: _of_tensor,
    Instance: of_instance,
    External: _of_external,
    Module: _of_module,
    Class: _of_class,
    Super: _of_super,
    TorchModule: _of_torch_module,
    Device: _of_device,
    Array: _of_array,
    Sequence: _of_sequence,
    Dict: _method,
    Loaded: _method,
    Shape: _method,
    Size: _method,
    Number: _special,
    Truth: _special,
    Const: _method,
    Static: _method,
    Setting: _of_setting,
    Function: _of_function,
}
