"""The dynamic-shape contract of a case: which dimensions were asked to be dynamic, and what the program grants.

What is asked comes from ``dynamic_shapes`` in the forms that torch accepts, or from two example calls: dimensions that
vary between them are dynamic. What is granted is read from the program's inputs.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

    from exportlint.checks.case import Inputs

DEFAULT_MIN = 1  # torch treats 1 apart from other sizes, but does not refuse it
HINT_MIN = 2  # what a program grants of a dimension of which nobody says how small it may be


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked of one dimension.

    Attributes:
        name: Name of the `Dim`, the same for dimensions that are one; empty for hints and for inferred dimensions.
        minimum: Smallest size, included.
        maximum: Largest size, included; ``None`` for no limit.
    """

    name: str = ""
    minimum: int = DEFAULT_MIN
    maximum: int | None = None


@dataclass(frozen=True, slots=True)
class Leaf:
    """A tensor among the flattened arguments.

    Attributes:
        index: Its place among the flattened ``(args, kwargs)``.
        words: The user's words for it, such as ``x`` or ``batch['ids']``.
        source: torch's words for it, such as ``L['batch']['ids']``.
        shape: Its sizes in the example.
        asked: What is asked of its dynamic dimensions, by dimension.
    """

    index: int
    words: str
    source: str
    shape: tuple[int, ...]
    asked: Mapping[int, Ask] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Contract:
    """All tensors among the arguments, with what is asked of them."""

    leaves: tuple[Leaf, ...]

    @property
    def dynamic(self) -> bool:
        """Whether any dimension is asked to be dynamic."""
        return any(leaf.asked for leaf in self.leaves)


def declared(model: torch.nn.Module, inputs: Inputs, dynamic_shapes: Any) -> Contract:
    """The contract of declared dynamic shapes.

    Args:
        model: Its ``forward`` gives the names of the arguments.
        inputs: Positional and keyword arguments of the example call.
        dynamic_shapes: As for `torch.export.export`.
    """
    if hasattr(dynamic_shapes, "dynamic_shapes"):  # ShapesCollection, AdditionalInputs
        dynamic_shapes = dynamic_shapes.dynamic_shapes(model, *inputs)
    named = _named(model, inputs)
    specs = (
        dynamic_shapes if isinstance(dynamic_shapes, Mapping) else dict(zip(named, dynamic_shapes or (), strict=False))
    )
    return Contract(tuple(_leaves(named, specs, inputs)))


def inferred(model: torch.nn.Module, inputs: Inputs, second: Inputs) -> Contract:
    """The contract of two example calls: what varies is dynamic; a second call of another structure gives nothing."""
    from torch.utils import _pytree as pytree

    first_flat, first_spec = pytree.tree_flatten(inputs)
    second_flat, second_spec = pytree.tree_flatten(second)
    asked: dict[int, dict[int, Ask]] = {}
    if first_spec == second_spec:
        for index, (a, b) in enumerate(zip(first_flat, second_flat, strict=True)):
            if hasattr(a, "shape") and hasattr(b, "shape") and len(a.shape) == len(b.shape):
                pairs = list(enumerate(zip(a.shape, b.shape, strict=True)))
                asked[index] = {d: Ask("", min(HINT_MIN, *sizes)) for d, sizes in pairs if sizes[0] != sizes[1]}
    leaves = _leaves(_named(model, inputs), {}, inputs)
    return Contract(
        tuple(Leaf(leaf.index, leaf.words, leaf.source, leaf.shape, asked.get(leaf.index, {})) for leaf in leaves)
    )


def _named(model: torch.nn.Module, inputs: Inputs) -> dict[str, Any]:
    """The arguments by the names of forward's parameters."""
    try:
        return dict(inspect.signature(model.forward).bind(*inputs[0], **inputs[1]).arguments)
    except (TypeError, ValueError):
        return {**{f"args[{i}]": value for i, value in enumerate(inputs[0])}, **inputs[1]}


def _leaves(named: dict[str, Any], specs: Mapping[str, Any], inputs: Inputs) -> list[Leaf]:
    import torch
    from torch.utils import _pytree as pytree

    found: dict[int, tuple[str, str, Any]] = {}

    def walk(value: Any, spec: Any, words: str, source: str) -> None:
        if isinstance(value, torch.Tensor):
            found.setdefault(id(value), (words, source, spec))
            return
        for key, child, suffix in _children(value):
            walk(child, _of_child(spec, key), words + suffix, source + suffix)

    for name, value in named.items():
        walk(value, specs.get(name), name, f"L['{name}']")
    leaves = []
    for index, leaf in enumerate(pytree.tree_leaves(inputs)):
        if isinstance(leaf, torch.Tensor):
            words, source, spec = found.get(id(leaf), (f"input {index}", f"L[{index}]", None))
            leaves.append(Leaf(index, words, source, tuple(leaf.shape), _asked(spec, leaf.dim())))
    return leaves


def _children(value: Any) -> list[tuple[Any, Any, str]]:
    """Key, child and suffix of the words for each child of a container."""
    if isinstance(value, Mapping):
        return [(key, child, f"[{key!r}]") for key, child in value.items()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(i, child, f".{name}") for i, (name, child) in enumerate(zip(value._fields, value, strict=True))]
    if isinstance(value, (list, tuple)):
        return [(i, child, f"[{i}]") for i, child in enumerate(value)]
    return _registered_children(value)


def _registered_children(value: Any) -> list[tuple[Any, Any, str]]:
    """The same for a class that is registered with torch, whose specification is a list in its order."""
    from torch.utils import _pytree as pytree

    node = pytree.SUPPORTED_NODES.get(type(value))
    if node is None:
        return []
    if node.flatten_with_keys_fn is not None:
        return [(i, child, str(key)) for i, (key, child) in enumerate(node.flatten_with_keys_fn(value)[0])]
    return [(i, child, f"[{i}]") for i, child in enumerate(node.flatten_fn(value)[0])]


def _of_child(spec: Any, key: Any) -> Any:
    if isinstance(spec, Mapping):
        return spec.get(key)
    if isinstance(spec, (list, tuple)) and isinstance(key, int) and key < len(spec):
        return spec[key]
    return None


def _asked(spec: Any, rank: int) -> dict[int, Ask]:
    """What a dynamic-shape specification of one tensor asks, by dimension."""
    if isinstance(spec, Mapping):
        items = [(d % rank if rank else d, dim) for d, dim in spec.items() if isinstance(d, int)]
    elif isinstance(spec, (list, tuple)):
        items = list(enumerate(spec))
    else:
        return {}
    return {d: ask for d, dim in items if (ask := _ask(dim)) is not None}


def _ask(dim: Any) -> Ask | None:
    """What one dimension's specification asks; ``None`` for a static one."""
    if dim is None or isinstance(dim, int) or getattr(getattr(dim, "type", None), "name", "") == "STATIC":
        return None
    if hasattr(dim, "root"):  # a derived dimension such as 2 * batch: as wide as its root allows
        return Ask(str(dim.__name__))
    minimum, maximum = getattr(dim, "min", None), getattr(dim, "max", None)
    name = str(getattr(dim, "__name__", ""))  # a hint has none
    return Ask(
        name,
        max(DEFAULT_MIN, int(minimum)) if minimum is not None else DEFAULT_MIN if name else HINT_MIN,
        int(maximum) if isinstance(maximum, int) and maximum < 2**31 else None,
    )


@dataclass(frozen=True, slots=True)
class Granted:
    """What the program grants: for each dimension of each tensor input a number or an expression over symbols.

    Attributes:
        sizes: By index of the leaf; sympy expressions or ints.
        ranges: Smallest and largest value of each symbol, by symbol; ``None`` for no limit.
    """

    sizes: Mapping[int, tuple[Any, ...]]
    ranges: Mapping[Any, tuple[int, int | None]]


def granted(program: ExportedProgram) -> Granted:
    """Read from the program's inputs what it grants."""
    import torch

    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    sizes: dict[int, tuple[Any, ...]] = {}
    for index, name in enumerate(program.graph_signature.user_inputs):
        value = values.get(name) if isinstance(name, str) else None
        if isinstance(value, torch.Tensor):
            sizes[index] = tuple(s.node.expr if isinstance(s, torch.SymInt) else int(s) for s in value.shape)
    ranges = {}
    for symbol, bounds in program.range_constraints.items():
        upper = int(bounds.upper) if bounds.upper.is_Integer and bounds.upper < 2**31 else None
        ranges[symbol] = (int(bounds.lower) if bounds.lower.is_Integer else 0, upper)
    return Granted(sizes, ranges)
