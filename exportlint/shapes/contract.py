"""The dynamic-shape contract of a case: which dimensions were asked to be dynamic, and what the program grants.

What is asked comes from ``dynamic_shapes`` in the forms that torch accepts, or from two example calls: dimensions that
vary between them are dynamic. What is granted is read from the program's inputs.

A Python integer that was asked to be dynamic is a symbol to torch, as a size is. Here it is a leaf with one dimension,
whose size is the number.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections import OrderedDict, defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from exportlint.shapes.sums import with_relations

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
        root: Of a derived dimension the name of the `Dim` that it derives from, of an inferred one its sizes in the
            example calls; empty for others.
        scale: The size is `scale` times that of the root, plus `offset`.
        offset: See `scale`.
        parts: Of a dimension that is a sum of others, and `offset`, in every example call: the `variable` of each.
        follows: What an inferred dimension is in terms of others, in the user's names.
    """

    name: str = ""
    minimum: int = DEFAULT_MIN
    maximum: int | None = None
    root: str = ""
    scale: int = 1
    offset: int = 0
    parts: tuple[str, ...] = ()
    follows: str = ""

    @property
    def variable(self) -> str:
        """What dimensions that vary together have in common; empty where the dimension varies by itself."""
        return self.root or self.name

    @property
    def varied(self) -> bool:
        """Whether it is declared by name, or has other sizes in an example call."""
        return bool(self.variable or self.parts)

    @property
    def ranged(self) -> bool:
        """Whether the sizes are asked for by name or by a range, not by a hint or by example calls alone."""
        return bool(self.name) or self.maximum is not None or (self.minimum > HINT_MIN and not self.follows)

    @property
    def words(self) -> str:
        """What is asked, such as ``batch from 1 to 64``."""
        return f"{self.name or self.follows} {between(self.minimum, self.maximum)}".strip()


def between(minimum: int, maximum: int | None) -> str:
    """A range of sizes in words."""
    return f"from {minimum}" if maximum is None else f"from {minimum} to {maximum}"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A tensor among the flattened arguments, or a Python integer that may vary.

    Attributes:
        index: Its place among the flattened ``(args, kwargs)``.
        words: The user's words for it, such as ``x`` or ``batch['ids']``.
        source: torch's words for it, such as ``L['batch']['ids']``.
        shape: Its sizes in the example; of a number the number itself.
        asked: What is asked of its dynamic dimensions, by dimension.
        number: Whether it is a number, and no tensor.
    """

    index: int
    words: str
    source: str
    shape: tuple[int, ...]
    asked: Mapping[int, Ask] = field(default_factory=dict)
    number: bool = False

    @property
    def parameter(self) -> str:
        """The parameter of forward that holds it."""
        return re.split(r"[\[.]", self.words)[0]

    def size(self, d: int) -> str:
        """What torch calls a size, such as ``L['x'].size()[0]``, or a number, such as ``L['n']``."""
        return self.source if self.number else f"{self.source}.size()[{d}]"

    def name(self, d: int) -> str:
        """The user's words for a size, such as ``x.shape[0]``, or for a number, such as ``n``."""
        return self.words if self.number else f"{self.words}.shape[{d}]"

    def shape_in(self, flat: Sequence[Any]) -> tuple[int, ...]:
        """Its sizes in a call whose flattened arguments these are."""
        return (int(flat[self.index]),) if self.number else tuple(flat[self.index].shape)


@dataclass(frozen=True, slots=True)
class Contract:
    """All tensors among the arguments, and the numbers that may vary, with what is asked of them."""

    leaves: tuple[Leaf, ...]

    @property
    def tensors(self) -> tuple[Leaf, ...]:
        """The leaves that are tensors."""
        return tuple(leaf for leaf in self.leaves if not leaf.number)

    @property
    def asked(self) -> tuple[tuple[Leaf, int, Ask], ...]:
        """Each dimension that is asked to be dynamic: its leaf, its place there, and what is asked."""
        return tuple((leaf, d, ask) for leaf in self.leaves for d, ask in leaf.asked.items())

    @property
    def dynamic(self) -> bool:
        """Whether any dimension is asked to be dynamic."""
        return bool(self.asked)


def declared(model: torch.nn.Module, inputs: Inputs, dynamic_shapes: Any) -> Contract:
    """The contract of declared dynamic shapes.

    Args:
        model: Its ``forward`` gives the names of the arguments.
        inputs: Positional and keyword arguments of the example call.
        dynamic_shapes: As for `torch.export.export`.
    """
    if hasattr(dynamic_shapes, "dynamic_shapes"):  # ShapesCollection, AdditionalInputs
        written = dynamic_shapes.dynamic_shapes(model, *inputs)
        return as_in_calls(declared(model, inputs, written), inputs, dynamic_shapes)
    return Contract(tuple(leaf for leaf in _leaves(model, inputs, dynamic_shapes) if leaf.asked or not leaf.number))


def as_in_calls(contract: Contract, inputs: Inputs, dynamic_shapes: Any) -> Contract:
    """The contract in which dimensions follow each other as in the calls of `AdditionalInputs`; else the same.

    What such calls are written out to is a hint for each dimension, which says nothing of the others.
    """
    calls = [(args, kwargs or {}) for args, kwargs in getattr(dynamic_shapes, "_examples", ())]
    if not calls or not all(same_structure(inputs, call) for call in calls):
        return contract
    varying = _varying_in(inputs, *calls)

    def told(leaf: Leaf) -> Leaf:
        asks = varying.get(leaf.index, {})
        return dataclasses.replace(leaf, asked={d: asks.get(d, ask) for d, ask in leaf.asked.items()})

    return Contract(with_relations(map(told, contract.leaves)))


def same_structure(one: Inputs, other: Inputs) -> bool:
    """Whether two calls have arguments of one structure, and tensors of one number of dimensions in each place."""
    from torch.utils import _pytree as pytree

    ranks = [[getattr(leaf, "ndim", None) for leaf in pytree.tree_leaves(inputs)] for inputs in (one, other)]
    return bool(pytree.tree_structure(one) == pytree.tree_structure(other)) and ranks[0] == ranks[1]


def inferred(model: torch.nn.Module, inputs: Inputs, *others: Inputs) -> Contract:
    """The contract of several example calls: what varies is dynamic; a call of another structure is left out.

    Dimensions of the same sizes in every call vary together, and so do those that follow others in every call.
    """
    asked = _varying_in(inputs, *(other for other in others if same_structure(inputs, other)))
    leaves = (dataclasses.replace(leaf, asked=asked.get(leaf.index, {})) for leaf in _leaves(model, inputs, {}))
    return Contract(with_relations(leaf for leaf in leaves if leaf.asked or not leaf.number))


def _varying_in(*calls: Inputs) -> dict[int, dict[int, Ask]]:
    """What is asked of the dimensions that vary between calls of one structure, by leaf and dimension."""
    from torch.utils import _pytree as pytree

    asked: dict[int, dict[int, Ask]] = {}
    for index, values in enumerate(zip(*map(pytree.tree_leaves, calls), strict=True)):
        shapes = [_sizes(value) for value in values]
        if len({len(shape) for shape in shapes}) == 1:
            asked[index] = {
                d: _varying(sizes) for d, sizes in enumerate(zip(*shapes, strict=True)) if len({*sizes}) > 1
            }
    return asked


def keeps_relations(contract: Contract, sizes: Mapping[str, int]) -> bool:
    """Whether dimensions that were inferred follow each other as in every example call.

    Args:
        contract: What is asked.
        sizes: Each size, by torch's words for it.
    """
    made = [(sizes[leaf.size(d)] - ask.offset, ask) for leaf, d, ask in contract.asked if ask.varied and not ask.name]
    known = {ask.root: size / ask.scale for size, ask in made if ask.root}
    plain = all(known[ask.root] == size / ask.scale for size, ask in made if ask.root)
    return plain and all(size == sum(known[part] for part in ask.parts) for size, ask in made if ask.parts)


def _sizes(value: Any) -> tuple[int, ...]:
    """What may vary of an argument: the sizes of a tensor, or a number itself."""
    return (value,) if type(value) is int else tuple(getattr(value, "shape", ()))


def limited(contract: Contract, ranges: Mapping[str, tuple[int, int]]) -> Contract:
    """The contract in which numbers have the ranges that a case gives them, by the name of the parameter.

    torch takes no `Dim` for a number, and what it understands of `Dim.AUTO(min=..., max=...)` is the maximum.
    """

    def within(leaf: Leaf) -> Leaf:
        low, high = ranges.get(leaf.parameter, (None, None))
        if not leaf.number or low is None:
            return leaf
        asked = {d: dataclasses.replace(ask, minimum=low, maximum=high) for d, ask in leaf.asked.items()}
        return dataclasses.replace(leaf, asked=asked)

    return Contract(tuple(map(within, contract.leaves)))


def _varying(sizes: tuple[int, ...]) -> Ask:
    """What is asked of a dimension of these sizes in the example calls; those of the same sizes vary together."""
    return Ask("", min(HINT_MIN, *sizes), root="/".join(map(str, sizes)))


def named(model: torch.nn.Module, inputs: Inputs) -> dict[str, Any]:
    """The arguments by the names of forward's parameters."""
    try:
        return dict(inspect.signature(model.forward).bind(*inputs[0], **inputs[1]).arguments)
    except (TypeError, ValueError):
        return {**{f"args[{i}]": value for i, value in enumerate(inputs[0])}, **inputs[1]}


def names_of_leaves(model: torch.nn.Module, inputs: Inputs) -> list[str]:
    """The user's words for each of the flattened arguments, such as ``options['scale']``."""
    from torch.utils import _pytree as pytree

    try:
        parameters = list(inspect.signature(model.forward).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    unnamed = [f"args[{i}]" for i in range(len(plain), len(inputs[0]))]

    def walk(value: Any, words: str) -> Iterator[str]:
        inner = children(value)
        for _, child, suffix in inner:
            yield from walk(child, words + suffix)
        if not inner:
            yield from [words] * len(pytree.tree_leaves(value))  # none of an empty container

    pairs = [*zip([*plain, *unnamed], inputs[0], strict=False), *inputs[1].items()]
    return [words for name, value in pairs for words in walk(value, name)]


class _Number:
    """Stands for a number of the arguments: equal numbers are one object to Python."""


def _leaves(model: torch.nn.Module, inputs: Inputs, specs: Any) -> Iterator[Leaf]:
    """All tensors and numbers among the arguments."""
    import torch
    from torch.utils import _pytree as pytree

    found: dict[int, list[tuple[str, str, Any]]] = {}  # a tensor may be given several times

    def walk(value: Any, spec: Any, words: str, source: str) -> None:
        if isinstance(value, (torch.Tensor, _Number)):
            found.setdefault(id(value), []).append((words, source, spec))
            return
        for key, child, suffix in children(value):
            walk(child, of_child(spec, key), words + suffix, source + suffix)

    values, structure = pytree.tree_flatten(inputs)
    flat = [_Number() if type(value) is int else value for value in values]
    if any(isinstance(leaf, _Number) for leaf in flat):
        inputs = pytree.tree_unflatten(flat, structure)
    by_name = named(model, inputs)
    if not isinstance(specs, Mapping):
        specs = dict(zip(by_name, specs or (), strict=False))
    for name, value in by_name.items():
        walk(value, specs.get(name), name, f"L['{name}']")
    for index, leaf in enumerate(flat):
        told = found.get(id(leaf), [])
        words, source, spec = told.pop(0) if told else (f"input {index}", f"L[{index}]", None)
        if isinstance(leaf, torch.Tensor):
            yield Leaf(index, words, source, tuple(leaf.shape), _asked(spec, leaf.dim()))
        elif isinstance(leaf, _Number):
            yield Leaf(index, words, source, (values[index],), _asked_of_number(spec, values[index]), number=True)


def _asked_of_number(spec: Any, example: int) -> dict[int, Ask]:
    """What is asked of a number: without a minimum it is from 2 on, as a size, or from the example on."""
    ask = ask_of(spec)
    if ask is None or isinstance(spec, (Mapping, list, tuple)):
        return {}
    declared = getattr(spec, "min", None)
    minimum = int(declared) if isinstance(declared, int) and abs(declared) < 2**31 else min(HINT_MIN, example)
    return {0: dataclasses.replace(ask, minimum=minimum)}


def children(value: Any) -> list[tuple[Any, Any, str]]:
    """Key, child and suffix of the words for each child of a container."""
    if isinstance(value, Mapping) and type(value) in (dict, OrderedDict, defaultdict):
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


def of_child(spec: Any, key: Any) -> Any:
    """What a specification says of one item of a container; ``None`` where it says nothing."""
    if isinstance(spec, Mapping):
        return spec.get(key)
    if isinstance(spec, (list, tuple, deque)) and isinstance(key, int) and key < len(spec):
        return spec[key]
    return None


def _asked(spec: Any, rank: int) -> dict[int, Ask]:
    """What a dynamic-shape specification of one tensor asks, by dimension; of dimensions that it has."""
    if isinstance(spec, Mapping):
        items = [(d % rank, dim) for d, dim in spec.items() if isinstance(d, int) and -rank <= d < rank]
    elif isinstance(spec, (list, tuple)):
        items = list(enumerate(spec[:rank]))
    else:
        return {}
    return {d: ask for d, dim in items if (ask := ask_of(dim)) is not None}


def ask_of(dim: Any) -> Ask | None:
    """What one dimension's specification asks; ``None`` for a static one."""
    if dim is None or isinstance(dim, int) or getattr(getattr(dim, "type", None), "name", "") == "STATIC":
        return None
    if hasattr(dim, "root"):  # a derived dimension such as 2 * batch: as wide as its root allows
        return _derived(dim)
    minimum, maximum = getattr(dim, "min", None), getattr(dim, "max", None)
    name = str(getattr(dim, "__name__", ""))  # a hint has none
    return Ask(
        name,
        max(DEFAULT_MIN, int(minimum)) if minimum is not None else DEFAULT_MIN if name else HINT_MIN,
        int(maximum) if isinstance(maximum, int) and maximum < 2**31 else None,
    )


def _derived(dim: Any) -> Ask:
    """What is asked of a dimension such as ``2 * batch``, which torch lets be linear in its root only."""
    root, offset = ask_of(dim.root), int(dim.fn(0))
    scale = int(dim.fn(1)) - offset
    assert root is not None  # a named dimension
    maximum = None if root.maximum is None else scale * root.maximum + offset
    return Ask(str(dim.__name__), scale * root.minimum + offset, maximum, root.name, scale, offset)


def wanted(contract: Contract) -> Granted:
    """What a program would grant that grants exactly what is asked."""
    import sympy  # type: ignore[import-untyped]

    sizes, ranges = {}, {}
    for leaf in contract.leaves:
        found: list[Any] = list(leaf.shape)
        for d, ask in leaf.asked.items():
            if ask.parts:
                found[d] = sum(sympy.Symbol(part, integer=True) for part in ask.parts) + ask.offset
                continue
            symbol = sympy.Symbol(ask.variable or leaf.name(d), integer=True)
            found[d] = ask.scale * symbol + ask.offset
            high = None if ask.maximum is None else (ask.maximum - ask.offset) // ask.scale
            ranges[symbol] = (max(0, -((ask.offset - ask.minimum) // ask.scale)), high)
        sizes[leaf.index] = tuple(found)
    return Granted(sizes, ranges)


@dataclass(frozen=True, slots=True)
class Granted:
    """What the program grants: for each dimension of each input a number or an expression over symbols.

    Attributes:
        sizes: By index of the leaf; sympy expressions or ints.
        ranges: Smallest and largest value of each symbol, by symbol; ``None`` for no limit.
    """

    sizes: Mapping[int, tuple[Any, ...]]
    ranges: Mapping[Any, tuple[int, int | None]]

    def of(self, leaf: Leaf, d: int) -> Any:
        """What is granted of a dimension: a number, or an expression over symbols."""
        sizes = self.sizes.get(leaf.index, leaf.shape)
        return sizes[d] if d < len(sizes) else leaf.shape[d]


def granted(program: ExportedProgram) -> Granted:
    """Read from the program's inputs what it grants."""
    import torch

    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    sizes: dict[int, tuple[Any, ...]] = {}
    for index, name in enumerate(program.graph_signature.user_inputs):
        value = values.get(name) if isinstance(name, str) else None
        if isinstance(value, (torch.Tensor, torch.SymInt, int)):
            made = value.shape if isinstance(value, torch.Tensor) else (value,)
            sizes[index] = tuple(s.node.expr if isinstance(s, torch.SymInt) else int(s) for s in made)
    ranges = {}
    for symbol, bounds in program.range_constraints.items():
        upper = int(bounds.upper) if bounds.upper.is_Integer and bounds.upper < 2**31 else None
        ranges[symbol] = (int(bounds.lower) if bounds.lower.is_Integer else 0, upper)
    return Granted(sizes, ranges)
