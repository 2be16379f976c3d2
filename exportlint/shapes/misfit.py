"""Where ``dynamic_shapes`` do not fit the inputs of an example call: the fault of who wrote them, not of the model."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from exportlint.shapes.contract import children, named, of_child

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from exportlint.checks.case import Inputs

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
    return next(_misfits(model, named(model, inputs), dynamic_shapes), None)


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
        yield from _of_input(value, specs.get(name), name)


def _of_input(value: Any, spec: Any, words: str) -> Iterator[str]:
    """The misfits of what is said of one input, or of what it holds."""
    import torch

    if isinstance(value, torch.Tensor):
        yield from _of_tensor(value.dim(), spec, words)
        return
    inner = children(value)
    if not inner and spec and isinstance(spec, (Mapping, list, tuple)):
        yield f"names dimensions of {words}, which is no tensor"
    if isinstance(spec, Mapping) and isinstance(value, Mapping):
        yield from (f"names {words}[{key!r}], which is no input" for key in spec if key not in value)
    for key, child, suffix in inner:
        yield from _of_input(child, of_child(spec, key), words + suffix)


def _of_tensor(rank: int, spec: Any, words: str) -> Iterator[str]:
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
