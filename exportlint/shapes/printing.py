"""Calls as code that needs torch alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from exportlint.checks.case import Inputs


def call(inputs: Inputs, tensors: Mapping[int, str], function: str = "model") -> str:
    """The call of a function, such as ``model(torch.zeros([2, 3]), scale=2.0)``.

    A tensor that is given several times has a name: ``t = ...; model(t, t)``. Objects of the model's own classes are
    written as calls of these.

    Args:
        inputs: Positional and keyword arguments.
        tensors: The expression of each tensor that has one, by its place among the flattened arguments.
        function: What is called.
    """
    from torch.utils import _pytree as pytree

    flat = pytree.tree_leaves(inputs)
    names: dict[int, str] = {}
    defined = []
    for index, expression in tensors.items():
        many = sum(leaf is flat[index] for leaf in flat) > 1
        names[id(flat[index])] = name = f"t{index}" if many else expression
        if many:
            defined.append(f"{name} = {expression}; ")
    args = [_value(value, names) for value in inputs[0]]
    args += [f"{key}={_value(value, names)}" for key, value in inputs[1].items()]
    return f"{''.join(defined)}{function}({', '.join(args)})"


def _value(value: Any, names: Mapping[int, str]) -> str:
    if id(value) in names:
        return names[id(value)]
    kind = type(value).__name__
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return f"{kind}({', '.join(_value(item, names) for item in value)})"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(_value(item, names) for item in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner},)" if len(value) == 1 else f"({inner})"
    if type(value) is dict:
        return "{" + ", ".join(f"{key!r}: {_value(item, names)}" for key, item in value.items()) + "}"
    if dataclasses.is_dataclass(value) or isinstance(value, Mapping):
        fields = (
            value if isinstance(value, Mapping) else {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        )
        return f"{kind}({', '.join(f'{name}={_value(item, names)}' for name, item in fields.items())})"
    return _leaf(value, names)


def _leaf(value: Any, names: Mapping[int, str]) -> str:
    """A value that is no container known to Python; the tensors inside one that torch knows are listed."""
    import torch
    from torch.utils import _pytree as pytree

    if isinstance(value, torch.Tensor):
        return f"<tensor of shape {list(value.shape)}>"
    if type(value) in pytree.SUPPORTED_NODES:
        inner = ", ".join(_value(leaf, names) for leaf in pytree.tree_leaves(value))
        return f"<{type(value).__name__} of {inner}>"
    return repr(value)
