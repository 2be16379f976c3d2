"""``dynamic_shapes`` as code, nested as torch wants them."""

from __future__ import annotations

import inspect
from collections import OrderedDict, defaultdict, deque
from typing import TYPE_CHECKING, Any

from exportlint.shapes.contract import children, named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from exportlint.checks.case import Inputs
    from exportlint.shapes.contract import Contract, Leaf


def container_of(value: Any) -> type | None:
    """What the specification of a container must be: its own kind, a list for a registered class; ``None`` for none."""
    from torch.utils import _pytree as pytree

    if type(value) in (dict, OrderedDict, defaultdict):
        return dict
    if type(value) in (tuple, list, deque):
        return type(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return tuple
    return list if type(value) in pytree.SUPPORTED_NODES else None


def names_in(inputs: Inputs) -> dict[str, type]:
    """What the code of a specification may name: `Dim`, and classes of the arguments whose specification is one too."""
    from torch.export import Dim

    found: dict[str, type] = {"Dim": Dim, "deque": deque}

    def walk(value: Any) -> None:
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            found[type(value).__name__] = type(value)
        for _, child, _ in children(value):
            walk(child)

    walk(list(inputs[0]))
    walk(inputs[1])
    return found


def unnamed(model: Any, inputs: Inputs) -> list[str]:
    """The keyword arguments of a call that no parameter of forward is named after, so that ``**kwargs`` takes them.

    torch exports such a call, and takes no ``dynamic_shapes`` for it, whatever they say of these arguments.
    """
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return []
    names = {made.name for made in parameters if made.kind in (made.POSITIONAL_OR_KEYWORD, made.KEYWORD_ONLY)}
    return [name for name in inputs[1] if name not in names]


def written(model: Any, inputs: Inputs, contract: Contract, dims: Mapping[str, str]) -> str:
    """``dynamic_shapes`` as code, by the names of the parameters of forward.

    Args:
        model: Its ``forward`` gives the names.
        inputs: The example call, which gives the structure.
        contract: The tensors in it.
        dims: The code of each dynamic dimension, by torch's words for the size; ``None`` for a static one.
    """
    leaves = {leaf.source: leaf for leaf in contract.leaves}
    items = [f"{name!r}: {_value(value, f'L[{name!r}]', leaves, dims)}" for name, value in named(model, inputs).items()]
    return "{" + ", ".join(items) + "}"


def automatic(model: Any, inputs: Inputs, contract: Contract) -> Any:
    """``dynamic_shapes`` in which each asked dimension, and each number, is `Dim.AUTO`; arguments as for `written`."""
    dims = {leaf.size(d): "Dim.AUTO" for leaf, d, _ in contract.asked}
    return eval(written(model, inputs, contract, dims), names_in(inputs))


def _value(value: Any, source: str, leaves: Mapping[str, Leaf], dims: Mapping[str, str]) -> str:
    leaf = leaves.get(source)
    if leaf is not None:
        said = {d: dims.get(leaf.size(d), "None") for d in leaf.asked}
        if leaf.number:
            return said.get(0, "None")
        inner = ", ".join(f"{d}: {text}" for d, text in said.items() if text != "None")
        return f"{{{inner}}}" if inner else "None"
    parts = [(key, _value(child, source + suffix, leaves, dims)) for key, child, suffix in children(value)]
    return nested(value, parts)


def nested(value: Any, parts: Sequence[tuple[Any, str]]) -> str:
    """The specification of a container as code, from that of each child by its key; ``None`` for what is none."""
    kind, texts = container_of(value), [text for _, text in parts]
    if kind is dict:
        return "{" + ", ".join(f"{key!r}: {text}" for key, text in parts) + "}"
    if kind is tuple and hasattr(value, "_fields"):
        fields = ", ".join(f"{name}={text}" for name, text in zip(value._fields, texts, strict=True))
        return f"{type(value).__name__}({fields})"
    inner = ", ".join(texts)
    if kind is tuple:
        return f"({inner}{',' * (len(parts) == 1)})"
    if kind is deque:
        return f"deque([{inner}])"
    return "None" if kind is None else f"[{inner}]"
