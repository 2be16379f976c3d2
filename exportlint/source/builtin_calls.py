"""Python's own functions, and methods of lists, dictionaries and objects."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from exportlint.source import attributes, moves
from exportlint.source.events import Asked, Changed, Converted, Identified, Indexed, Iterated
from exportlint.source.parameters import is_input
from exportlint.source.saved import is_parallel
from exportlint.source.values import (
    NONE,
    SIZE_TEXT,
    UNKNOWN,
    Array,
    Class,
    Const,
    Dict,
    External,
    Function,
    Instance,
    Method,
    Module,
    Number,
    Sequence,
    Setting,
    Shape,
    Size,
    StateDict,
    Static,
    Tensor,
    TorchModule,
    Truth,
    Unknown,
    Value,
    is_exact,
    is_setting,
    is_tensor,
    join,
    join_all,
    options,
    sizes,
    the_tensor,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from exportlint.source.events import Asker
    from exportlint.source.interpreter import Interpreter
    from exportlint.source.parameters import Arguments
    from exportlint.source.state import State

    Builtin = Callable[[Interpreter, ast.Call, str, Arguments, State], Value]

_GROWING = frozenset(
    {"append", "extend", "insert", "add", "update", "pop", "clear", "remove", "setdefault", "appendleft"}
)


def call(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value:
    """The result of a function of ``builtins``."""
    handler = _BUILTINS.get(name)
    return UNKNOWN if handler is None else handler(it, node, name, given, state)


def _number(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value:
    value = given.get(0)
    if value is None or is_exact(value):
        return Const(0) if value is None else Static(name)
    it.emit(Converted(it.site(node, state), value, name))
    if is_tensor(value):
        return Number(name, it.site(node, state), name == "float", is_input(it, node.args[0] if node.args else node))
    if isinstance(value, Array):
        return Number("array", value.site) if value.site is not None and not value.of_size else Static(name)
    if isinstance(value, Const) and isinstance(value.value, (int, float)):
        return Const(int(value.value) if name == "int" else float(value.value))
    if isinstance(value, Number):
        return value
    return Static("size" if isinstance(value, Size) and name == "int" else name, is_setting(value))


def _bool(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value:
    value = given.get(0) or UNKNOWN
    it.emit(Asked(it.site(node, state), value, "bool()"))
    if is_tensor(value):
        return Number("bool", it.site(node, state))
    return value if isinstance(value, Const) and isinstance(value.value, bool) else Static("bool")


def _len(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value:
    value = given.get(0) or UNKNOWN
    it.emit(Converted(it.site(node, state), value, "len"))
    if isinstance(value, Tensor):
        from exportlint.source.tensors import size_of

        return size_of(value, 0)
    if isinstance(value, Sequence):
        return Const(len(value.items)) if value.items is not None and value.kind == "tuple" else Static("int")
    return Static("int") if isinstance(value, (Shape, TorchModule, Dict)) or value == SIZE_TEXT else UNKNOWN


def _range(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value:
    bounds = given.positional
    for bound in bounds:
        if is_tensor(bound):
            it.emit(Converted(it.site(node, state), bound, name))
            return Sequence(None, Static("int"), "range")
    for kind in (Number, Size):
        for bound in bounds:
            if isinstance(bound, kind):
                return Sequence(None, Static("int"), "range", bound)
    return UNKNOWN if any(isinstance(b, Unknown) for b in bounds) else Sequence(None, Static("int"), "range")


def _zip(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value:
    from exportlint.source.statements import element

    for value in given.positional:
        it.emit(Iterated(it.site(node, state), value, "zip"))
    items = tuple(element(it, value) for value in given.positional)
    return Sequence(None, Sequence(items, kind="tuple"), "iterator")


def _enumerate(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value:
    from exportlint.source.statements import element

    value = given.get(0) or UNKNOWN
    it.emit(Iterated(it.site(node, state), value, "zip"))
    return Sequence(None, Sequence((Static("int"), element(it, value)), kind="tuple"), "iterator")


def _same_elements(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value:
    from exportlint.source.statements import element

    value = given.get(0)
    kind = "set" if name == "frozenset" else name if name in ("list", "tuple", "set") else "list"
    if value is None:
        return Sequence((), kind=kind)
    it.emit(Iterated(it.site(node, state), value, "zip"))
    if name == "sorted":
        _order(it, node, value, given, state)
    if isinstance(value, Sequence):
        items = value.items[::-1] if value.items is not None and name == "reversed" else value.items
        return replace(value, items=None if kind == "set" else items, element=value.any, kind=kind, kept="")
    if isinstance(value, Shape):
        return value
    if isinstance(value, TorchModule):
        return Sequence(None, join_all(value.parts))
    if isinstance(value, Setting):
        return value
    return UNKNOWN if isinstance(value, Unknown) else Sequence(None, element(it, value), kind)


def _order(it: Interpreter, node: ast.Call, value: Value, given: Arguments, state: State) -> None:
    """To sort tensors, what is in one, or what a key makes tensors of, is to ask for the truth of comparisons."""
    if _has_key(given):
        _order_by(it, node, value, given, state)
    elif isinstance(value, Sequence) and _several(value) and _is_open(_first_of(value.any)):
        it.emit(Asked(it.site(node, state), _first_of(value.any), "sorted"))
    else:
        _ask_elements(it, node, value, "sorted", state)


def _has_key(given: Arguments) -> bool:
    return given.keywords.get("key", NONE) != NONE


def _order_by(it: Interpreter, node: ast.Call, value: Value, given: Arguments, state: State) -> None:
    """What ``key`` makes of each element is compared."""
    from exportlint.source.calls import apply
    from exportlint.source.parameters import Arguments as Given
    from exportlint.source.statements import element

    elements = Given((element(it, value),))
    for key in options(given.keywords["key"]):
        made = _first_of(apply(it, node, key, elements, state))
        if _several(value) or not isinstance(value, Sequence):
            it.emit(Asked(it.site(node, state), made, "sorted"))


def _several(value: Value) -> bool:
    """Whether the value is a sequence that may hold more than one element."""
    return isinstance(value, Sequence) and (value.items is None or len(value.items) > 1)


def _is_open(value: Value) -> bool:
    """Whether a comparison with the value may have no answer while a model is captured."""
    return any(isinstance(option, (Tensor, Number)) for option in options(value))


def _first_of(value: Value) -> Value:
    """What two values like this are compared by: of tuples, the first in them that is no constant."""
    if isinstance(value, Sequence) and value.items:
        return next((_first_of(part) for part in value.items if not isinstance(part, Const)), value)
    return value


def _ask_elements(it: Interpreter, node: ast.Call, value: Value, by: Asker, state: State) -> None:
    """Python's own functions take a tensor apart, and ask for the truth of its elements or of comparisons of them."""
    tensor = the_tensor(value)
    if tensor is not None and not (tensor.dims and tensor.dims[0] == Const(1) and by == "sorted"):
        # What is taken out of a tensor is not known any more, whatever it was made of.
        it.emit(Asked(it.site(node, state), replace(tensor, exact=False), by))


def _extreme(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value:
    values = given.positional
    if _has_key(given):
        _order_by(it, node, values[0] if len(values) == 1 else Sequence(values), given, state)
    elif len(values) == 1 and isinstance(values[0], Sequence) and isinstance(values[0].any, Sequence):
        _order(it, node, values[0], given, state)
    elif len(values) == 1:
        _ask_elements(it, node, values[0], "max" if name == "max" else "min", state)
    if len(values) == 1:
        values = (values[0].any,) if isinstance(values[0], Sequence) else values
    for value in values if not _has_key(given) else ():
        it.emit(Converted(it.site(node, state), value, name))
    found = [v for value in values for v in options(value)]
    for kind in (Tensor, Number, Size):
        for value in found:
            if isinstance(value, Tensor) and not all(isinstance(v, Tensor) for v in found):
                return replace(value, placement="unknown", site=None)  # or the number, which has no device
            if isinstance(value, kind):
                return value.opaque if isinstance(value, Size) else value
    fixed = all(is_setting(v) for v in found)
    return Static(given=fixed) if fixed or all(isinstance(v, (Const, Static)) for v in found) else UNKNOWN


def _arithmetic(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value:
    value = given.get(0) or UNKNOWN
    if isinstance(value, Sequence):
        value = value.any
    found = options(value)
    chosen = next((v for v in found if isinstance(v, (Tensor, Number))), None)
    if chosen is not None:
        return chosen
    if isinstance(value, Size) and name in ("abs", "sum"):
        return value.opaque
    return value if name == "sum" else Static()


def _divmod(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value:
    """Both parts at once, which no symbol has: each must be a number."""
    for value in given.positional:
        if not is_exact(value):
            it.emit(Converted(it.site(node, state), value, name))
    number = next((v for v in given.positional if isinstance(v, Number)), Static())
    part = Number(name, it.site(node, state)) if any(is_tensor(v) for v in given.positional) else number
    return Sequence((part, part), kind="tuple")


def _isinstance(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value:
    wanted = given.get(1)
    classes = (wanted.items or ()) if isinstance(wanted, Sequence) else (wanted,)
    owner = given.get(0)
    if is_parallel(owner) and External(owner.name) in classes:
        return Const(True)
    return Static("bool")


def _hasattr(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value:
    owner, attribute = given.get(0), given.get(1)
    if is_parallel(owner) and attribute == Const("module"):
        return Const(True)
    if isinstance(owner, Instance) and isinstance(attribute, Const) and isinstance(attribute.value, str):
        it.read((owner.key, attribute.value), UNKNOWN, state)
    return Static("bool")


def _getattr(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value:
    owner, attribute = given.get(0), given.get(1)
    text = attribute.value if isinstance(attribute, Const) else None
    if isinstance(attribute, Number) and (attribute.outside or isinstance(owner, Instance)):
        it.emit(Indexed(it.site(node, state), owner or UNKNOWN, attribute))
    if not isinstance(owner, Instance) or not isinstance(text, str):
        return _attribute_of(it, node, owner, text, given, state)
    if text == "module" and owner.module and given.get(2) == owner and it.initial(owner, text) is None:
        return owner  # what unwraps a wrapper leaves all other modules as they are
    found = attributes.of_instance(it, owner, text, state)
    if len(given.positional) == 2 or isinstance(found, Static):  # a number that the constructor binds is there
        return found
    # Where no constructor binds it, the first call begins with what is given instead, and later ones go on from there.
    return _counted(given.get(2)) if isinstance(found, Unknown) and owner.module else UNKNOWN


def _attribute_of(
    it: Interpreter, node: ast.Call, owner: Value | None, text: object, given: Arguments, state: State
) -> Value:  # fmt: skip
    """An attribute, asked for by a name, of what is no object of the project."""
    if isinstance(owner, Setting):
        return owner
    if isinstance(owner, Function) and isinstance(text, str):
        found = attributes.get(it, owner, text, state)
        return _counted(given.get(2)) if isinstance(found, Unknown) else found
    if isinstance(owner, Tensor) and text in ("data", "data_ptr"):
        return attributes.unwrapped(it, node, (owner, owner), state) if text == "data" else Method(owner, "data_ptr")
    return attributes.get(it, owner, "module", state) if is_parallel(owner) and text == "module" else UNKNOWN


def _setattr(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value:
    return _bind(it, node, given.get(0), given.get(1), given.get(2), state)


def _bind(
    it: Interpreter, node: ast.Call, owner: Value | None, name: Value | None, value: Value | None, state: State
) -> Value:
    """``setattr``, however it is spelt."""
    from exportlint.source.statements import reads_attribute

    if isinstance(owner, (Instance, Module)) and isinstance(name, Const) and value is not None:
        advances = not it.silent and bool(node.args) and reads_attribute(node.args[-1], str(name.value))
        how = "advance" if advances else "set"
        attributes.put(it, owner, node, str(name.value), value, state, how=how)
    return NONE


def _vars(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value:
    owner = given.get(0)
    return Method(owner, "__dict__") if isinstance(owner, Instance) else UNKNOWN


def _text(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value:
    if given.positional:
        it.emit(Converted(it.site(node, state), given.positional[0], name))
        if isinstance(given.positional[0], Number):
            return replace(given.positional[0], given=False)  # torch.compile knows no text of a number that it guards
        if any(size.varies for size in sizes(given.positional[:1])):
            return SIZE_TEXT
    return Static("str")


def _identity(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value:
    value = given.get(0) or UNKNOWN
    if is_tensor(value):
        it.emit(Identified(it.site(node, state), value, value))
    return Static("int")


def _all(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value:
    value = given.get(0) or UNKNOWN
    if isinstance(value, Sequence):
        it.emit(Asked(it.site(node, state), value.any, "and/or"))
        if any(isinstance(v, Truth) for v in options(value.any)):
            return value.any
    _ask_elements(it, node, value, "all" if name == "all" else "any", state)
    return Static("bool")


def _map(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value:
    from exportlint.source.calls import apply
    from exportlint.source.parameters import Arguments as Given
    from exportlint.source.statements import element

    if len(given.positional) < 2:
        return UNKNOWN
    it.emit(Iterated(it.site(node, state), given.positional[1], "zip"))
    items = tuple(element(it, value) for value in given.positional[1:])
    if given.positional[0] == NONE and name == "filter":  # which asks the elements themselves
        it.emit(Asked(it.site(node, state), items[0], "comprehension"))
        return Sequence(None, items[0], "iterator")
    if given.positional[0] == NONE:
        return UNKNOWN
    results = tuple(apply(it, node, callee, Given(items), state) for callee in options(given.positional[0]))
    if name == "filter":
        it.emit(Asked(it.site(node, state), join_all(results), "comprehension"))
        return Sequence(None, items[0], "iterator")
    return Sequence(None, join_all(results), "iterator")


def _next(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value:
    from exportlint.source.statements import note_change

    value = given.get(0) or UNKNOWN
    if name == "iter":
        return replace(value, kind="iterator", items=None, element=value.any) if isinstance(value, Sequence) else value
    if not isinstance(value, Sequence):
        return UNKNOWN
    note_change(it, node, value, value.any, "next", state)
    return value.any


def _type(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value:
    owner = given.get(0)
    return Class(owner.cls) if isinstance(owner, Instance) and len(given.positional) == 1 else Static()


def _static(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value:
    return Static()


def _dict(it: Interpreter, node: ast.Call, name: str, given: Arguments, state: State) -> Value:
    return Dict(tuple(given.keywords.items())) if not given.positional and not given.open else Dict()


_BUILTINS: dict[str, Builtin] = {
    "int": _number,
    "float": _number,
    "round": _number,
    "bool": _bool,
    "len": _len,
    "range": _range,
    "zip": _zip,
    "enumerate": _enumerate,
    "list": _same_elements,
    "tuple": _same_elements,
    "set": _same_elements,
    "frozenset": _same_elements,
    "sorted": _same_elements,
    "reversed": _same_elements,
    "max": _extreme,
    "min": _extreme,
    "sum": _arithmetic,
    "abs": _arithmetic,
    "pow": _arithmetic,
    "divmod": _divmod,
    "isinstance": _isinstance,
    "hasattr": _hasattr,
    "getattr": _getattr,
    "setattr": _setattr,
    "vars": _vars,
    "str": _text,
    "format": _text,
    "repr": _text,
    "id": _identity,
    "all": _all,
    "any": _all,
    "map": _map,
    "filter": _map,
    "next": _next,
    "iter": _next,
    "dict": _dict,
    "print": _static,
    "type": _type,
    "callable": _static,
    "issubclass": _static,
    "hash": _static,
    "ord": _static,
    "open": _static,
}


def object_method(it: Interpreter, node: ast.Call, owner: Instance, name: str, given: Arguments, state: State) -> Value:
    """A method that the project does not define: one of ``nn.Module``, for modules."""
    if name == "__setattr__":
        return _bind(it, node, owner, given.get(0), given.get(1), state)
    if not owner.module:
        return UNKNOWN
    first, second = given.get(0, "name"), given.get(1, "tensor")
    if name in ("register_buffer", "register_parameter", "add_module", "register_module"):
        if isinstance(first, Const) and isinstance(first.value, str):
            if name in ("register_buffer", "register_parameter"):
                it.registered[owner.key, first.value] = name.removeprefix("register_")
            value = _registered(name, second if second is not None else given.get(1, "param") or given.get(1, "module"))
            change = Changed(it.site(node, state), owner, first.value, value, UNKNOWN, name)
            it.write((owner.key, first.value), change, state)
        return NONE
    if name in moves.RETURNS_ITSELF:
        return owner
    if name in TENSORS_OF_MODULES:
        return tensors_of_module(name)
    return StateDict(owner) if name == "state_dict" else UNKNOWN


TENSORS_OF_MODULES = frozenset({"parameters", "buffers", "named_parameters", "named_buffers"})


def tensors_of_module(method: str) -> Value:
    """What a method of a module hands out of its parameters or buffers, alone or each after its name."""
    tensor = Tensor("follows", kept="parameter")
    named = Sequence((Static("str"), tensor), kind="tuple")
    return Sequence(None, named if method.startswith("named_") else tensor, "iterator")


def _registered(how: str, value: Value | None) -> Value:
    if value is None or how in ("add_module", "register_module"):
        return UNKNOWN if value is None else value
    kept = "buffer" if how == "register_buffer" else "parameter"
    found = tuple(
        replace(v, kept=kept, placement="follows", site=None) if isinstance(v, Tensor) else v for v in options(value)
    )
    if found == (NONE,):
        return NONE
    return join_all(tuple(Tensor("follows", kept=kept) if isinstance(v, (Unknown, Static)) else v for v in found))


def container_method(
    it: Interpreter, node: ast.Call, receiver: Sequence | Dict | Shape, name: str, given: Arguments, state: State
) -> Value:
    """A method of a list, tuple, set, dictionary or ``torch.Size``."""
    if name in _GROWING:
        return _grow(it, node, receiver, name, given, state)
    if name == "numel":
        return Size()
    if name == "sort":
        _order(it, node, receiver, given, state)
        return NONE
    if name == "copy" and isinstance(receiver, (Sequence, Dict)):
        return replace(receiver, kept="")
    if isinstance(receiver, Dict):
        if name == "get" and given.positional:
            it.emit(Indexed(it.site(node, state), receiver, given.positional[0]))
        return _of_dict(receiver, name, given)
    return Static("int") if name in ("index", "count") else UNKNOWN


def _of_dict(receiver: Dict, name: str, given: Arguments) -> Value:
    every = join_all((*(v for _, v in receiver.items), *((receiver.element,) if not receiver.items else ())))
    if name == "values":
        return Sequence(None, every, "iterator")
    if name == "items":
        return Sequence(None, Sequence((Static("str"), every), kind="tuple"), "iterator")
    if name == "keys":
        return Sequence(None, Static("str"), "iterator")
    if name in ("get", "pop"):
        key = given.get(0)
        found = next((v for k, v in receiver.items if isinstance(key, Const) and k == key.value), None)
        if found is None and receiver.items and not receiver.kept and not isinstance(key, Const):
            return join(every, given.get(1) or NONE)
        return _fallback(receiver, given.get(1)) if found is None else found
    return UNKNOWN


def _fallback(receiver: Dict, default: Value | None) -> Value:
    """What is got for a key that the dictionary did not have: the default, or what an earlier call put there."""
    return _counted(default) if receiver.kept else UNKNOWN


def _counted(default: Value | None) -> Value:
    """What earlier calls made of a number that the first one begins with."""
    if isinstance(default, Const) and isinstance(default.value, (int, float)):
        return Static(type(default.value).__name__)
    return UNKNOWN


def _grow(
    it: Interpreter, node: ast.Call, receiver: Sequence | Dict | Shape, name: str, given: Arguments, state: State
) -> Value:
    from exportlint.source.statements import note_change

    value = given.positional[-1] if given.positional else UNKNOWN
    if isinstance(receiver, Dict) and name == "setdefault" and given.positional:
        it.emit(Indexed(it.site(node, state), receiver, given.positional[0], stored=True))
    note_change(it, node, receiver, value, name, state)
    result = receiver.any if isinstance(receiver, Sequence) and name == "pop" else NONE if name != "pop" else UNKNOWN
    variable = node.func.value if isinstance(node.func, ast.Attribute) else None
    if isinstance(variable, ast.Name) and variable.id in state.variables:
        state.variables[variable.id] = _grown(receiver, name, value)
    elif isinstance(variable, ast.Attribute):
        attributes.refill(it, variable, _grown(receiver, name, value), state)
    return result


def _grown(receiver: Sequence | Dict | Shape, name: str, value: Value) -> Value:
    if not isinstance(receiver, Sequence):
        return Dict(element=UNKNOWN, kept=receiver.kept) if isinstance(receiver, Dict) else UNKNOWN
    if name in ("append", "add", "insert", "appendleft"):
        if receiver.items is not None and name == "append" and len(receiver.items) < 8:
            return replace(receiver, items=(*receiver.items, value))
        empty = receiver.items == ()
        return replace(receiver, items=None, element=value if empty else join(receiver.any, value))
    if name == "extend":
        added = value.any if isinstance(value, Sequence) else UNKNOWN
        return replace(receiver, items=None, element=added if receiver.items == () else join(receiver.any, added))
    return replace(receiver, items=None, element=receiver.any)
