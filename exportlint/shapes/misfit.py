"""Where ``dynamic_shapes`` do not fit the inputs of an example call: the fault of who wrote them, not of the model."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from exportlint.shapes.contract import HINT_MIN, ask_of, between, children, declared, named, of_child
from exportlint.shapes.specification import container_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from exportlint.checks.case import Inputs

WHOLE = "the same nesting is needed, with None for what is fixed"
REWRITE = "Give dynamic_shapes the names and the nesting of the inputs of forward, and of each the dimensions it has."


def nameless(model: torch.nn.Module) -> bool:
    """Whether forward takes ``*args`` or ``**kwargs``, or hides what it takes."""
    try:
        kinds = [parameter.kind for parameter in inspect.signature(model.forward).parameters.values()]
    except (TypeError, ValueError):
        return True
    return any(kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD) for kind in kinds)


def misfit(model: torch.nn.Module, inputs: Inputs, dynamic_shapes: Any) -> str | None:
    """The first misfit, such as ``names dimension 7 of x, which has 2``; ``None`` where none is known.

    Args:
        model: Its ``forward`` gives the names of the inputs.
        inputs: Positional and keyword arguments of the example call.
        dynamic_shapes: As for `torch.export.export`, which refused them.
    """
    if not isinstance(dynamic_shapes, (Mapping, list, tuple)):
        return None  # a class of torch's own, which makes them from the example
    found = itertools.chain(_misfits(model, named(model, inputs), dynamic_shapes), _torn(model, inputs, dynamic_shapes))
    return next(found, None)


def _torn(model: torch.nn.Module, inputs: Inputs, dynamic_shapes: Any) -> Iterator[str]:
    """Dimensions of one name that have different sizes in the example."""
    first: dict[str, tuple[str, int, float]] = {}
    for leaf, d, ask in declared(model, inputs, dynamic_shapes).asked:
        if not ask.name:
            continue
        size, root = leaf.shape[d], (leaf.shape[d] - ask.offset) / ask.scale
        other, known, value = first.setdefault(ask.variable, (leaf.name(d), size, root))
        if value != root:
            yield f"lets {other} and {leaf.name(d)} follow one {ask.variable}, and they are {known} and {size}"


def _misfits(model: torch.nn.Module, by_name: dict[str, Any], shapes: Any) -> Iterator[str]:
    specs = dict(shapes) if isinstance(shapes, Mapping) else dict(zip(by_name, shapes, strict=False))
    if not nameless(model):
        there = ", ".join(by_name)
        unknown = [key for key in specs if key not in by_name]
        if unknown:
            yield f"names {unknown[0]!r}, which is no input of the example call; there are: {there}"
        elif len(shapes) > len(by_name):
            yield f"has {len(shapes)} entries, and the inputs are: {there}"
        elif shapes and len(specs) < len(by_name):
            left_out = next(name for name in by_name if name not in specs)
            yield f"leaves out {left_out}: every input of the example call needs an entry, None for a fixed one"
    for name, value in by_name.items():
        if name in specs:
            yield from _of_input(value, specs[name], name)


def _of_input(value: Any, spec: Any, words: str) -> Iterator[str]:
    """The misfits of what is said of one input, or of what it holds."""
    import torch

    if isinstance(value, torch.Tensor):
        yield from _of_tensor(tuple(value.shape), spec, words)
        return
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        yield from _of_scalar(value, spec, words)
        return
    inner = children(value)
    if (wrong := _wrong_class(value, spec, words)) is not None:
        yield wrong
    elif isinstance(spec, Mapping) and isinstance(value, Mapping):
        yield from (f"names {words}[{key!r}], which is no input" for key in spec if key not in value)
        yield from (f"leaves out {words}[{key!r}]: {WHOLE}" for key in value if key not in spec)
    elif type(value) in (dict, list, tuple) and type(spec) is not type(value):
        yield f"gives {spec!r} for {words}, which is a {type(value).__name__}: {WHOLE}"
    elif type(value) in (list, tuple) and len(spec) != len(value):
        yield f"gives {len(spec)} entries for {words}, which has {len(value)}: {WHOLE}"
    elif not inner and spec and isinstance(spec, (Mapping, list, tuple)):
        yield f"names dimensions of {words}, which is no tensor"
    for key, child, suffix in inner:
        yield from _of_input(child, of_child(spec, key), words + suffix)


def _wrong_class(value: Any, spec: Any, words: str) -> str | None:
    """What is wrong with what is said of an object of another class than Python's own containers."""
    kind, name = container_of(value), type(value).__name__
    if kind is tuple and hasattr(value, "_fields"):
        return None if type(spec) is type(value) else f"gives {spec!r} for {words}: a {name} of them is needed"
    if kind is deque:
        wrong = type(spec) is not deque or len(spec) != len(value)
        return f"gives {spec!r} for {words}: a deque of {len(value)} entries is needed" if wrong else None
    if kind is not list or type(value) is list:
        return None
    parts = [suffix.strip(".[]'") for _, _, suffix in children(value)]
    what = f"{words}, a {name}, which torch takes for a list of {len(parts)}: {', '.join(parts)}"
    dropped = [field for field in _fields(value) if field not in parts]
    what += f" ({', '.join(dropped)} is None, and has no entry)" if dropped else ""
    if not isinstance(spec, list):
        return f"gives {spec!r} for {what}"
    return f"gives {len(spec)} entries for {what}" if len(spec) != len(parts) else None


def _fields(value: Any) -> list[str]:
    """The names of the fields of a dataclass, those that are ``None`` included."""
    return [field.name for field in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []


def fitted(model: torch.nn.Module, inputs: Inputs, dynamic_shapes: Any) -> dict[str, Any]:
    """What can be understood of dynamic shapes that do not fit, nested as the inputs are.

    Args:
        model: Its ``forward`` gives the names of the inputs.
        inputs: Positional and keyword arguments of the example call.
        dynamic_shapes: As for `torch.export.export`, which refused them.
    """
    by_name = named(model, inputs)
    specs = dynamic_shapes if isinstance(dynamic_shapes, Mapping) else dict(zip(by_name, dynamic_shapes, strict=False))
    return {name: _fitted(value, specs.get(name)) for name, value in by_name.items()}


def _fitted(value: Any, spec: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        items = spec.items() if isinstance(spec, Mapping) else enumerate(spec if _is_sequence(spec) else ())
        return {d: dim for d, dim in items if not [*_of_tensor(tuple(value.shape), {d: dim}, "")]}
    if not children(value):
        return None if [*_of_scalar(value, spec, "")] else spec
    named_parts = _by_name(value, spec)
    parts = {
        key: _fitted(child, named_parts.get(suffix.strip(".[]'"), of_child(spec, key)))
        for key, child, suffix in children(value)
    }
    return parts if isinstance(value, Mapping) else list(parts.values())


def _is_sequence(spec: Any) -> bool:
    return isinstance(spec, (list, tuple, deque))


def _by_name(value: Any, spec: Any) -> dict[str, Any]:
    """What is said of the fields of an object, by their names, where it is said of all of them or by name."""
    fields = _fields(value) or list(getattr(value, "_fields", ()))
    if isinstance(spec, Mapping):
        return {str(key): said for key, said in spec.items()}
    if _is_sequence(spec) and len(spec) == len(fields):
        return dict(zip(fields, spec, strict=True))
    return {field: getattr(spec, field) for field in fields if hasattr(spec, field)}


def _of_scalar(value: Any, spec: Any, words: str) -> Iterator[str]:
    """The misfits of what is said of an input that is no tensor: integers may vary, without a name."""
    hint = getattr(getattr(spec, "type", None), "name", "")
    if spec is None or (hint and type(value) is int) or (hint == "STATIC" and isinstance(value, bool)):
        return
    if isinstance(spec, (Mapping, list, tuple)) and spec:
        yield f"names dimensions of {words}, which is no tensor"
    elif type(value) is not int:
        kind = "None" if value is None else f"a {type(value).__name__}"
        yield f"gives {spec!r} for {words}, which is {kind}: only tensors and integers can vary, None is needed"
    elif hasattr(spec, "__name__"):
        yield f"gives a Dim for {words}, a number: Dim.AUTO or Dim.DYNAMIC lets it vary"
    else:
        yield f"gives {spec!r} for {words}, a number: Dim.AUTO, Dim.DYNAMIC or None is needed"


def _of_tensor(shape: tuple[int, ...], spec: Any, words: str) -> Iterator[str]:
    rank = len(shape)
    if spec is None:
        return
    if isinstance(spec, Mapping):
        items = list(spec.items())
    elif isinstance(spec, (list, tuple)):
        items = list(enumerate(spec))
        if len(items) != rank:
            yield f"gives {len(items)} dimensions for {words}, which has {rank}"
    else:
        yield f"gives {spec!r} for {words}: a mapping from dimensions, or a tuple with all of them, is needed"
        return
    for d, dim in items:
        if dim is not None and (not isinstance(d, int) or not -rank <= d < rank):
            yield f"names dimension {d!r} of {words}, which has {rank}"
        elif isinstance(dim, (str, float)):
            yield f"gives {dim!r} for dimension {d} of {words}: a Dim, an int or None is needed"
        elif dim is not None and (wish := _wish(dim, shape[d])):
            yield f"wants dimension {d} of {words} {wish}, and it has {shape[d]}"
        elif hasattr(dim, "root") and (least := -(int(dim.fn(0)) // (int(dim.fn(1)) - int(dim.fn(0))))) > dim.root.min:
            root = dim.root.__name__
            yield f"gives {dim.__name__} for dimension {d} of {words}, which may be below 0: {root} needs min={least}"


def _wish(dim: Any, size: int) -> str | None:
    """What a size of the example should be, where it is not; hints have bounds that torch does not hold it to."""
    if isinstance(dim, int):
        return f"to be {dim}" if dim != size else None
    ask = ask_of(dim)
    if ask is None or not ask.name:
        return None
    if (size - ask.offset) % ask.scale:
        return f"to be {ask.name}"
    apart = size < ask.minimum and ask.minimum > HINT_MIN  # 0 and 1 are another matter
    return between(ask.minimum, ask.maximum) if apart or (ask.maximum or size) < size else None
