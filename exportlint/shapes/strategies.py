"""Calls inside a contract: a sweep through the sizes, and what hypothesis draws: sizes, then contents by kind and seed.

Sizes that are one dimension in the contract, or in the program, stay equal. They shrink towards the smallest size, and
contents towards zeros.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import torch
    from hypothesis.strategies import DrawFn, SearchStrategy

    from exportlint.checks.case import Inputs
    from exportlint.shapes.contract import Ask, Contract, Granted, Leaf

    Choose = Callable[[tuple[str, ...]], tuple[str, int]]  # the kind of a tensor's contents, and a seed

FLOAT_KINDS = ("zeros", "normal", "ones", "negative", "large", "small")
INTEGER_KINDS = ("smallest", "range", "below the sizes", "largest")
PLAIN = ("normal", "uniform", "range", "random")
BOOLEAN_KINDS = ("full", "right padded", "left padded", "random", "single")
MOST_OF_EXAMPLE = 16  # a declared maximum is tried up to this many times the size in the example


@dataclass(frozen=True, slots=True)
class Domain:
    """The values that a tensor input may take: smallest and largest, both included; `mask` where it holds 0 and 1."""

    low: float
    high: float
    mask: bool = False


@dataclass(frozen=True, slots=True)
class Drawn:
    """One drawn call and how to say it: sizes and contents of each tensor."""

    inputs: Inputs
    words: tuple[str, ...]
    sizes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Space:
    """The calls inside a contract.

    Attributes:
        example: Positional and keyword arguments of the example call; what is no tensor is kept.
        contract: What is asked of the dimensions.
        grants: What the program grants, for the relations between sizes.
        domains: Values of each tensor, by index of the leaf.
    """

    example: Inputs
    contract: Contract
    grants: Granted
    domains: Mapping[int, Domain]

    def drawn(self) -> SearchStrategy[Drawn]:
        """A strategy for calls: sizes, then the kind and seed of the contents of each tensor."""
        from hypothesis import strategies as st

        variables = _variables(self.contract, self.grants)

        @st.composite
        def draw_call(draw: DrawFn) -> Drawn:
            values = {key: draw(_size(*bounds), label=str(key)) for key, bounds in variables.items()}
            seeds = st.integers(0, 2**16)
            return _call(self, values, lambda kinds: (draw(st.sampled_from(kinds)), draw(seeds)))

        return draw_call()

    def sweep(self, count: int) -> Iterator[Drawn]:
        """Up to `count` calls that go through the sizes of every dimension, smallest first, with plain contents.

        Random sizes leave gaps that a fault at one size can hide in.
        """
        steps = {key: _steps(*bounds, count) for key, bounds in _variables(self.contract, self.grants).items()}
        for i in range(max(map(len, steps.values()), default=0)):
            # Shifted against each other, so that two dimensions that should be free are not equal in every call.
            values = {key: sizes[(i + shift) % len(sizes)] for shift, (key, sizes) in enumerate(steps.items())}
            yield _call(self, values, functools.partial(_plain, i))


def _plain(seed: int, kinds: tuple[str, ...]) -> tuple[str, int]:
    """The kind of contents that hides least: zeros hide a wrong factor, equal values a wrong place."""
    return next(kind for kind in PLAIN if kind in kinds), seed


def _steps(low: int, high: int, edge: int, count: int) -> list[int]:
    """At most `count` of the sizes, ascending: the smallest three, the largest, and some between."""
    sizes = [*range(low, high + 1), *([edge] if edge > high else [])]
    if len(sizes) <= count:
        return sizes
    kept = max(1, min(3, count - 1))
    first, rest, wanted = sizes[:kept], sizes[kept:], count - kept
    return first + [rest[len(rest) - 1 - (k * len(rest)) // wanted] for k in reversed(range(wanted))]


def _size(low: int, high: int, edge: int) -> SearchStrategy[int]:
    """Sizes from `low` to `high`, and now and then `edge`; shrinks towards `low`."""
    from hypothesis import strategies as st

    if edge <= high:
        return st.integers(low, high)
    return st.integers(low, high + 1).map(lambda size: size if size <= high else edge)  # so that it shrinks from there


def _variables(contract: Contract, grants: Granted) -> dict[Any, tuple[int, int, int]]:
    """What is drawn: the symbols of the program that stand for dynamic dimensions, with their ranges as asked.

    The third number is the declared maximum, where it is not too large for a model to be called with.
    """
    variables: dict[Any, tuple[int, int, int]] = {}
    for leaf in contract.leaves:
        for d, ask in leaf.asked.items():
            size = _granted_size(grants, leaf, d)
            for symbol in getattr(size, "free_symbols", ()):
                low, high, edge = _range(ask, leaf.shape[d]) if size.is_Symbol else _range_of_root(leaf.shape[d])
                if symbol in variables:
                    known = variables[symbol]
                    low, high, edge = max(low, known[0]), min(high, known[1]), min(edge, known[2])
                variables[symbol] = (low, max(low, high), edge)
    return dict(sorted(variables.items(), key=lambda item: str(item[0])))


def _granted_size(grants: Granted, leaf: Leaf, d: int) -> Any:
    sizes = grants.sizes.get(leaf.index, ())
    return sizes[d] if d < len(sizes) else leaf.shape[d]


def _range(ask: Ask, example: int) -> tuple[int, int, int]:
    high = max(2 * example + 2, 9)
    if ask.maximum is not None:
        high = min(high, ask.maximum)
    high = max(ask.minimum, high)
    affordable = ask.maximum is not None and ask.maximum <= MOST_OF_EXAMPLE * max(example, 8)
    return ask.minimum, high, ask.maximum if affordable and ask.maximum is not None else high


def _range_of_root(example: int) -> tuple[int, int, int]:
    return 1, max(4, example), max(4, example)


def _call(space: Space, values: Mapping[Any, int], choose: Choose) -> Drawn:
    from torch.utils import _pytree as pytree

    flat, spec = pytree.tree_flatten(space.example)
    said, sizes, leaves = [], {}, space.contract.leaves
    shapes = {leaf.index: _shape(leaf, space.grants, values) for leaf in leaves}
    smallest = min((shapes[leaf.index][d] for leaf in leaves for d in leaf.asked), default=1)
    memo: dict[int, torch.Tensor] = {}
    for leaf in leaves:
        like, shape = flat[leaf.index], shapes[leaf.index]
        if id(like) not in memo:
            memo[id(like)], kind = _tensor(choose, like, shape, space.domains.get(leaf.index), smallest)
            said.append(f"{leaf.words} of shape {list(shape)} ({kind})")
        sizes.update({f"{leaf.source}.size()[{d}]": n for d, n in enumerate(shape)})
        flat[leaf.index] = memo[id(like)]
    return Drawn(pytree.tree_unflatten(flat, spec), tuple(said), sizes)


def _shape(leaf: Leaf, grants: Granted, values: Mapping[Any, int]) -> tuple[int, ...]:
    sizes = []
    for d, example in enumerate(leaf.shape):
        size: Any = _granted_size(grants, leaf, d) if d in leaf.asked else example
        sizes.append(int(size.subs(values)) if getattr(size, "free_symbols", None) else int(size))
    return tuple(sizes)


def _tensor(
    choose: Choose, like: torch.Tensor, shape: tuple[int, ...], domain: Domain | None, smallest: int
) -> tuple[torch.Tensor, str]:
    import torch

    kinds: tuple[str, ...]
    if like.is_floating_point() or like.is_complex():
        kinds = ("zeros", "uniform", "ones") if domain is not None else FLOAT_KINDS
    elif like.dtype == torch.bool or (domain is not None and domain.mask):
        kinds = BOOLEAN_KINDS
    else:
        kinds = INTEGER_KINDS
    kind, seed = choose(kinds)
    generator = torch.Generator().manual_seed(seed)
    made = _fill(kind, like, shape, domain, smallest, generator)
    return made.to(like.dtype).requires_grad_(like.requires_grad), kind


def _fill(
    kind: str,
    like: torch.Tensor,
    shape: tuple[int, ...],
    domain: Domain | None,
    smallest: int,
    generator: torch.Generator,
) -> torch.Tensor:
    import torch

    if kind in BOOLEAN_KINDS:
        return _mask(kind, shape, generator)
    if kind in INTEGER_KINDS:
        first, last = (int(domain.low), int(domain.high)) if domain is not None else (0, 1)
        if kind == "below the sizes":
            last = max(first, min(last, smallest - 1))
        bounds = {"smallest": (first, first), "largest": (last, last)}.get(kind, (first, last))
        return torch.randint(bounds[0], bounds[1] + 1, shape, generator=generator)
    if kind in ("zeros", "ones"):
        return torch.full(shape, float(kind == "ones"))
    if kind == "uniform":
        low, high = (domain.low, domain.high) if domain is not None else (0.0, 1.0)
        return torch.rand(shape, generator=generator) * (high - low) + low
    scale = {"large": 1e3, "small": 1e-3, "negative": -1.0}.get(kind, 1.0)
    made = torch.randn(shape, generator=generator)
    return (made.abs() if kind == "negative" else made) * scale


def _mask(kind: str, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """0 and 1; each row along the last dimension has at least one 1."""
    import torch

    if not shape or shape[-1] == 0 or kind == "full":
        return torch.ones(shape, dtype=torch.int64)
    if kind == "random":
        mask = torch.randint(0, 2, shape, generator=generator)
        mask[..., 0] = 1
        return mask
    lengths = torch.randint(1, shape[-1] + 1, shape[:-1], generator=generator)
    if kind == "single":
        lengths = torch.ones_like(lengths)
    mask = (torch.arange(shape[-1]) < lengths.unsqueeze(-1)).to(torch.int64)
    return mask.flip(-1) if kind == "left padded" else mask


def domains(
    model: Any, contract: Contract, examples: tuple[Inputs, ...], declared: Mapping[str, tuple[int, int]]
) -> dict[int, Domain]:
    """The values that each tensor may take.

    They are declared, or those of the embedding that reads the input, or else those seen in the examples. For floats
    there is a domain only where all examples lie between 0 and 1, as images and probabilities do.

    Args:
        model: A fresh model; it is called with the first example.
        contract: The tensors.
        examples: Example calls of one structure; the first is run.
        declared: Smallest and largest value by the name of the parameter.
    """
    from torch.utils import _pytree as pytree

    flats = [pytree.tree_leaves(example) for example in examples]
    vocabularies = _vocabularies(model, examples[0])
    found: dict[int, Domain] = {}
    for leaf in contract.leaves:
        seen = [flat[leaf.index] for flat in flats if leaf.index < len(flat) and hasattr(flat[leaf.index], "dtype")]
        name = leaf.words.partition("[")[0]
        if name in declared:
            found[leaf.index] = Domain(*declared[name])
        elif (memory := _memory(flats[0][leaf.index])) in vocabularies:
            found[leaf.index] = Domain(0, vocabularies[memory] - 1)
        else:
            domain = _seen(seen, name)
            if domain is not None:
                found[leaf.index] = domain
    return found


def _seen(tensors: list[torch.Tensor], name: str) -> Domain | None:
    """The domain that the values in the examples suggest."""
    import torch

    filled = [t for t in tensors if t.numel() and t.dtype != torch.bool and not t.is_complex()]
    if not filled:
        return None
    # In double, since the small types have no minimum of their own.
    low, high = min(float(t.double().min()) for t in filled), max(float(t.double().max()) for t in filled)
    if filled[0].is_floating_point():
        return Domain(0.0, 1.0) if low >= 0.0 and high <= 1.0 else None
    return Domain(low, high, mask=low >= 0 and high <= 1 and "mask" in name.lower())


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if tensor.numel() else 0


def _vocabularies(model: Any, example: Inputs) -> dict[int, int]:
    """By the memory of a tensor among the arguments: the number of rows of the embedding that reads it, or a view."""
    import torch
    from torch import nn

    sizes: dict[int, int] = {}

    def hook(module: Any, args: tuple[Any, ...]) -> None:
        if args:
            sizes.setdefault(_memory(args[0]), module.num_embeddings)

    for module in model.modules():
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
            module.register_forward_pre_hook(hook)
    with torch.no_grad():
        model(*example[0], **example[1])
    return sizes
