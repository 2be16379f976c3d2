"""Calls inside a contract: a sweep through the sizes, and what hypothesis draws: sizes, then contents by kind and seed.

Sizes that are one dimension in the contract, or in the program, stay equal. They shrink towards the smallest size, and
contents towards zeros.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from exportlint.shapes import printing
from exportlint.shapes.contents import NUMBER, PLAIN, Recipe, layouts_of, number, recipe
from exportlint.shapes.fitting import Fitting, nearest
from exportlint.shapes.linear import linear_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

    from exportlint.checks.case import Inputs
    from exportlint.shapes.contents import Choose, Domain
    from exportlint.shapes.contract import Ask, Contract, Granted, Leaf

    Affordable = Callable[[Mapping[str, int]], bool]  # whether a call of these sizes, by torch's words, can be made
    Shapes = Mapping[int, tuple[int, ...]]  # by index of the leaf

MOST_OF_EXAMPLE = 16  # where no maximum is declared, sizes go up to so many times that of the example
GROWTH = 2  # from one of the large sizes of a sweep to the next
WIDEST = 100  # a range of integers up to which hypothesis draws them evenly; of wider ones it prefers the smallest
FEW = 8  # sizes that are drawn without a preference for the largest
OFTEN = 4  # one draw in so many, nearly, of those that may be is the largest
ALIKE = 4  # in one draw of so many all sizes are the same
UNFITTED = 4  # one draw in so many looks at no guard
FINER = 8  # times as many sizes as are wanted are looked at, where only some of them fit


@dataclass(frozen=True, slots=True)
class Drawn:
    """One drawn call.

    Attributes:
        inputs: Positional and keyword arguments.
        leaves: The tensors and numbers in it that were drawn, a tensor that is given twice once.
        recipes: How each was made, by index of the leaf.
    """

    inputs: Inputs
    leaves: tuple[Leaf, ...]
    recipes: Mapping[int, Recipe]

    @property
    def words(self) -> tuple[str, ...]:
        """Shape and contents of each tensor, such as ``x of shape [2, 3] (zeros)``."""
        made = {leaf.words: self.recipes[leaf.index] for leaf in self.leaves if leaf.index in self.recipes}
        return tuple(
            f"{words} = {how.code}" if how.kind == NUMBER else f"{words} of shape {list(how.shape)} ({how.words})"
            for words, how in made.items()
        )

    @property
    def sizes(self) -> Mapping[str, int]:
        """Each size, by torch's words for it."""
        return sizes_of(self.leaves, self.inputs)

    @property
    def code(self) -> str:
        """The call as code that needs torch alone."""
        tensors = {index: made.code for index, made in self.recipes.items() if made.kind != NUMBER}
        return printing.call(self.inputs, tensors)


@dataclass(frozen=True, slots=True)
class Space:
    """The calls inside a contract.

    Attributes:
        example: Positional and keyword arguments of the example call; what is no tensor is kept.
        contract: What is asked of the dimensions.
        grants: What the program grants, for the relations between sizes.
        domains: Values of each tensor, by index of the leaf.
        affordable: Whether a call of some sizes can be made; where it is missing every one can.
        cheap: Whether many calls of some sizes can be made; where it is missing all that are affordable.
        fits: Guards that most calls should keep.
    """

    example: Inputs
    contract: Contract
    grants: Granted
    domains: Mapping[int, Domain]
    affordable: Affordable | None = field(default=None, compare=False)
    cheap: Affordable | None = field(default=None, compare=False)
    fits: Fitting = field(default_factory=Fitting, compare=False)
    _ties: Mapping[Any, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_ties", _ties(self.contract, self.grants))

    def drawn(self) -> SearchStrategy[Drawn]:
        """A strategy for calls: sizes, then kind, seed and layout of the contents of each tensor."""
        from hypothesis import strategies as st

        variables = self.variables()

        sizes = values_of(variables)
        seeds = st.integers(0, 2**16)
        unfitted = st.integers(0, UNFITTED - 1)

        @functools.cache  # each strategy, and each draw, costs a part of what a small model does
        def contents(kinds: tuple[str, ...], layouts: tuple[str, ...]) -> SearchStrategy[tuple[str, str]]:
            return st.sampled_from([(kind, layout) for layout in layouts for kind in kinds])

        @st.composite
        def draw_call(draw: DrawFn) -> Drawn:
            def choose(kinds: tuple[str, ...], layouts: tuple[str, ...]) -> tuple[str, int, str]:
                kind, layout = draw(contents(kinds, layouts))
                return kind, draw(seeds), layout

            values = self._within(draw(sizes), variables, self.cheap or self.affordable)
            if self.fits and draw(unfitted) < UNFITTED - 1:
                values = self._keeping(values, variables)
            return self.call(self.shapes(values), choose)

        return draw_call()

    def sweep(self, count: int) -> Iterator[Drawn]:
        """Up to `count` calls through the sizes of every dimension, edges first, with plain contents.

        Random sizes leave gaps that a fault at one size can hide in.
        """
        variables = self.variables()
        if not variables:
            return
        steps = {key: self._steps(key, bounds, count) for key, bounds in variables.items()}
        tried: list[dict[Any, int]] = [
            {key: sizes[0] for key, sizes in steps.items()},
            {key: sizes[-1] for key, sizes in steps.items()},
            *_alike(variables),
        ]
        tried += (  # shifted against each other, so that two dimensions that should be free are not always equal
            {key: sizes[(i + shift) % len(sizes)] for shift, (key, sizes) in enumerate(steps.items())}
            for i in range(max(map(len, steps.values())))
        )
        cheap = self.cheap or self.affordable
        most = {key: sizes[-1] for key, sizes in steps.items()}  # the largest of each variable may cost much, once
        kept = (
            self._within(values, variables, self.affordable if any(values[k] == most[k] for k in most) else cheap)
            for values in tried
        )
        unique = list({tuple(v.items()): v for v in (self._keeping(values, variables) for values in kept)}.values())
        for i, values in enumerate(unique[:count]):
            yield self.call(self.shapes(values), functools.partial(plain, i))

    def _steps(self, key: Any, bounds: tuple[int, int, int], count: int) -> list[int]:
        """At most `count` sizes of one variable, those that fit where any do."""
        if not self._sources(key):
            return _steps(*bounds, count)
        return _some(sorted({self._fitted(key, bounds, n) for n in _steps(*bounds, FINER * count)}), count)

    def _keeping(self, values: dict[Any, int], variables: Mapping[Any, tuple[int, int, int]]) -> dict[Any, int]:
        """Values near these that keep the guards that most calls should keep, as far as that is easy."""
        values = {key: self._fitted(key, variables[key], value) for key, value in values.items()}
        for sources in self.fits.together:
            same: dict[int, Any] = {}  # by size in the example
            for leaf, d, _ in self.contract.asked:
                key = _substituted(self.grants.of(leaf, d), self._ties)
                if leaf.size(d) in sources and key in values:
                    value = values[same.setdefault(leaf.shape[d], key)]
                    low, _, edge = variables[key]
                    values[key] = value if low <= value <= edge else values[key]
        return values

    def _fitted(self, key: Any, bounds: tuple[int, int, int], value: int) -> int:
        """A value near this one with which the guards hold that are about sizes that follow it."""
        sources = self._sources(key)
        if not sources:
            return value
        low, _, edge = bounds
        return nearest(value, low, edge, lambda n: self.fits.holds({s: int(of(n)) for s, of in sources.items()}))

    def _sources(self, key: Any) -> dict[str, Callable[[int], Any]]:
        """The sizes that follow a variable and that a guard is about, by torch's words, each as a function of it."""
        found: dict[str, Callable[[int], Any]] = {}
        for leaf, d, _ in self.contract.asked if self.fits else ():
            linear = linear_in(_substituted(self.grants.of(leaf, d), self._ties))
            if linear is not None and linear[0] == key and self.fits.about([leaf.size(d)]):
                found[leaf.size(d)] = linear[1]
        return found

    def layouts(self) -> Iterator[Drawn]:
        """The example's sizes in each memory layout that differs from a contiguous one."""
        shapes = {leaf.index: leaf.shape for leaf in self.contract.leaves}
        found = dict.fromkeys(layout for leaf in self.contract.tensors for layout in layouts_of(leaf.shape)[1:])
        for layout in found:
            yield self.call(shapes, functools.partial(_laid_out, layout))

    def variables(self) -> dict[Any, tuple[int, int, int]]:
        """What is drawn: the symbols that stand for dynamic dimensions, with three sizes of each.

        These are the smallest; one up to which every size is as likely; and the largest.
        That is the declared maximum, lowered to what is affordable, or where none is declared to what is cheap.
        """
        variables: dict[Any, tuple[int, int, int]] = {}
        for leaf, d, ask in sorted(self.contract.asked, key=lambda asked: bool(asked[2].parts)):
            size = _substituted(self.grants.of(leaf, d), self._ties)
            for symbol in getattr(size, "free_symbols", ()):
                if ask.parts and symbol in variables:  # a sum of others goes as far as they do
                    continue
                bounds = self._range(leaf, d, size, symbol)
                low, high, edge = variables.get(symbol, bounds)
                low, high, edge = max(low, bounds[0]), min(high, bounds[1]), min(edge, bounds[2])
                variables[symbol] = (low, max(low, high), max(low, edge))
        ordered = dict(sorted(variables.items(), key=lambda item: str(item[0])))
        declared = self._with_maximum()
        limits = {key: self.affordable if key in declared else self.cheap or self.affordable for key in ordered}
        return {key: self._lowered(key, bounds, ordered, limits[key]) for key, bounds in ordered.items()}

    def _with_maximum(self) -> set[Any]:
        """The symbols of which a largest size is declared."""
        sizes = [self.grants.of(leaf, d) for leaf, d, ask in self.contract.asked if ask.maximum is not None]
        return {s for size in sizes for s in getattr(_substituted(size, self._ties), "free_symbols", ())}

    def _range(self, leaf: Leaf, d: int, size: Any, symbol: Any) -> tuple[int, int, int]:
        example = leaf.shape[d]
        # What a number costs is not known.
        bounds = range_of(leaf.asked[d], example, known=self.cheap is not None and not leaf.number)
        if size.is_Symbol:
            return bounds
        least, most = self.grants.ranges.get(symbol, (1, None))
        least = max(1, least)
        linear = linear_in(size)
        if linear is None or linear[1].scale < 0:  # such as a product of sizes: the program's own range
            top = max(4, example)
            bounds = (least, top, top if most is None else most)
        else:
            inverse, (smallest, largest, edge) = linear[1].inverse(), bounds
            bounds = (math.ceil(inverse(smallest)), math.floor(inverse(largest)), math.floor(inverse(edge)))
        low = max(least, bounds[0])
        high, edge = (max(low, bound if most is None else min(bound, most)) for bound in bounds[1:])
        return low, high, edge

    def _lowered(
        self, key: Any, bounds: tuple[int, int, int], variables: Mapping[Any, Any], limit: Affordable | None
    ) -> tuple[int, int, int]:
        low, high, edge = bounds
        if self.affordable is None or limit is None:
            return bounds
        middle = {other: min(max(low, 2), high) for other, (low, high, _) in variables.items()}

        def within(limit: Affordable, size: int) -> bool:
            return self._costs(limit, {**middle, key: size})

        while high > low + 1 and not within(self.affordable, high):
            high = low + (high - low) // 2
        if edge <= high or not within(limit, edge):
            edge = _largest(high, max(edge, high), functools.partial(within, limit))
        return low, high, edge

    def _costs(self, limit: Affordable, values: Mapping[Any, int]) -> bool:
        """Whether a call with these values of the variables is within a limit."""
        return limit(sizes_by_words(self.contract.leaves, self.shapes(values)))

    def _within(
        self, values: dict[Any, int], variables: Mapping[Any, tuple[int, int, int]], limit: Affordable | None
    ) -> dict[Any, int]:
        """The values, large ones halved until all of them together are within a limit, the very largest last."""
        while limit is not None:
            large = {key: size / variables[key][1] for key, size in values.items() if size > variables[key][1]}
            if not large or self._costs(limit, values):
                break
            key = max(large, key=lambda key: (values[key] < variables[key][2], large[key]))
            values = {**values, key: max(variables[key][1], values[key] // 2)}
        return values

    def shapes(self, values: Mapping[Any, int]) -> dict[int, tuple[int, ...]]:
        """The shape of each tensor for values of the variables, by index of the leaf."""
        if self._ties:
            values = {**values, **{symbol: _substituted(leader, values) for symbol, leader in self._ties.items()}}
        return {leaf.index: _shape(leaf, self.grants, values) for leaf in self.contract.leaves}

    def call(self, shapes: Shapes, choose: Choose) -> Drawn:
        """A call of these shapes, with contents as chosen."""
        from torch.utils import _pytree as pytree

        flat = pytree.tree_leaves(self.example)
        leaves = self.contract.leaves
        tensors = self.contract.tensors
        smallest = min((shapes[leaf.index][d] for leaf in tensors for d in leaf.asked), default=1)
        recipes = {leaf.index: number(shapes[leaf.index]) for leaf in leaves if leaf.number}
        first: dict[int, int] = {}  # where a tensor that is given several times is made
        for leaf in tensors:
            like = flat[leaf.index]
            if first.setdefault(id(like), leaf.index) == leaf.index:
                domain = self.domains.get(leaf.index)
                recipes[leaf.index] = recipe(choose, like, shapes[leaf.index], domain, smallest)
        return self.made(recipes)

    def made(self, recipes: Mapping[int, Recipe]) -> Drawn:
        """The call of these recipes."""
        from torch.utils import _pytree as pytree

        flat, spec = pytree.tree_flatten(self.example)
        tensors = {id(flat[index]): made.make() for index, made in recipes.items() if made.kind != NUMBER}
        for leaf in self.contract.leaves:
            flat[leaf.index] = recipes[leaf.index].make() if leaf.number else tensors[id(flat[leaf.index])]
        return Drawn(pytree.tree_unflatten(flat, spec), self.contract.leaves, recipes)


def plain(seed: int, kinds: tuple[str, ...], layouts: tuple[str, ...]) -> tuple[str, int, str]:
    """The kind of contents that hides least: zeros hide a wrong factor, equal values a wrong place."""
    return next(kind for kind in PLAIN if kind in kinds), seed, layouts[0]


def _laid_out(layout: str, kinds: tuple[str, ...], layouts: tuple[str, ...]) -> tuple[str, int, str]:
    kind, seed, first = plain(0, kinds, layouts)
    return kind, seed, layout if layout in layouts else first


def sizes_of(leaves: tuple[Leaf, ...], inputs: Inputs) -> dict[str, int]:
    """Each size of a call, by torch's words for it."""
    from torch.utils import _pytree as pytree

    flat = pytree.tree_leaves(inputs)
    return sizes_by_words(leaves, {leaf.index: leaf.shape_in(flat) for leaf in leaves})


def sizes_by_words(leaves: tuple[Leaf, ...], shapes: Shapes) -> dict[str, int]:
    """Each size, by torch's words for it."""
    return {leaf.size(d): int(size) for leaf in leaves for d, size in enumerate(shapes[leaf.index])}


def _alike(variables: Mapping[Any, tuple[int, int, int]]) -> list[dict[Any, int]]:
    """All sizes the same, where the ranges allow it: two dimensions that are told apart by nothing else."""
    low, high = max(b[0] for b in variables.values()), min(b[1] for b in variables.values())
    size = min(max(low, 3), high)
    return [dict.fromkeys(variables, size)] if len(variables) > 1 and low <= size else []


def _largest(kept: int, beyond: int, holds: Callable[[int], bool]) -> int:
    """The largest number below the second for which a condition holds, as it does for the first, or nearly."""
    while beyond - kept > max(1, kept // 64):
        middle = kept + (beyond - kept) // 2
        kept, beyond = (middle, beyond) if holds(middle) else (kept, middle)
    return kept


def _steps(low: int, high: int, edge: int, count: int) -> list[int]:
    """At most `count` of the sizes, ascending: the smallest three, the largest, and some between."""
    return _some([*range(low, high + 1), *_grown(high, edge)], count)


def _some(sizes: Sequence[int], count: int) -> list[int]:
    """At most `count` of these sizes: the first three, the last, and some between."""
    if len(sizes) <= count:
        return list(sizes)
    kept = max(1, min(3, count - 1))
    first, rest, wanted = list(sizes[:kept]), sizes[kept:], count - kept
    return first + [rest[len(rest) - 1 - (k * len(rest)) // wanted] for k in reversed(range(wanted))]


def _grown(high: int, edge: int) -> Sequence[int]:
    """Sizes between the two, from one to the next in proportion, and the last."""
    if edge <= high:
        return ()
    start = max(high, 1)
    count = max(1, round(math.log(edge / start, GROWTH)))
    return [*sorted({_between(start, edge, k / count) for k in range(1, count)} - {high, edge}), edge]


def _between(low: int, high: int, part: float) -> int:
    """A size from `low` to `high`: that part of the way by its logarithm."""
    return min(high, max(low, round(low * math.pow(high / low, part))))


def size(low: int, high: int, edge: int) -> SearchStrategy[int]:
    """Sizes from `low` to `high`, and as often larger ones up to `edge`, the smaller the likelier; the largest often.

    Shrinks towards `low`.
    """
    from hypothesis import strategies as st

    edge, high = max(high, edge), min(high, low + WIDEST)
    if edge == high:
        beyond = 0 if high - low < FEW else (high - low) // OFTEN
        return st.integers(low, high + beyond).map(lambda size: min(size, high))
    # The largest is no strategy of its own, since shrinking would not leave it.
    large = st.integers(high + 1, 2 * edge - high).map(lambda size: min(size, edge))
    return st.one_of(st.integers(low, high), large)  # the first is what it shrinks to


def values_of(variables: Mapping[Any, tuple[int, int, int]]) -> SearchStrategy[dict[Any, int]]:
    """Values of variables, with bounds as for `size`; now and then all the same, where their ranges allow."""
    from hypothesis import strategies as st

    sizes = {key: size(*bounds) for key, bounds in variables.items()}
    if len(sizes) < 2:
        return st.fixed_dictionaries(sizes)
    alike = st.integers(0, ALIKE - 1)

    @st.composite
    def draw_values(draw: DrawFn) -> dict[Any, int]:
        values = {key: draw(strategy) for key, strategy in sizes.items()}
        same = next(iter(values.values()))
        if draw(alike) == ALIKE - 1 and all(low <= same <= edge for low, _, edge in variables.values()):
            return dict.fromkeys(values, same)
        return values

    return draw_values()


def _ties(contract: Contract, grants: Granted) -> dict[Any, Any]:
    """What symbols of the program are where the contract says that their dimensions vary together.

    Dimensions that were inferred to be one are often several to the program.
    """
    sizes = [
        (ask.variable, grants.of(leaf, d))
        for leaf, d, ask in contract.asked
        if ask.variable and (ask.scale, ask.offset) == (1, 0)
    ]
    ties: dict[Any, Any] = {}
    leaders: dict[str, Any] = {}
    for variable, granted in sorted(sizes, key=lambda item: bool(getattr(item[1], "is_Symbol", False))):
        size = _substituted(granted, ties)
        if getattr(size, "free_symbols", None):
            ties = _tied(ties, size, leaders.setdefault(variable, size))
    values = {**dict(sizes), **leaders}  # those that are constants to the program, too
    for leaf, d, ask in contract.asked:
        if ask.follows:
            whole = sum(values[part] for part in ask.parts) if ask.parts else ask.scale * values[ask.root]
            ties = _tied(ties, _substituted(grants.of(leaf, d), ties), whole + ask.offset)
    return ties


def _tied(ties: dict[Any, Any], size: Any, value: Any) -> dict[Any, Any]:
    """The ties with a size that is a symbol tied to a value that does not follow from it."""
    value = _substituted(value, ties)
    if not getattr(size, "is_Symbol", False) or size in getattr(value, "free_symbols", ()):
        return ties
    return {symbol: _substituted(tied, {size: value}) for symbol, tied in ties.items()} | {size: value}


def _substituted(size: Any, values: Mapping[Any, Any]) -> Any:
    """An expression, or a number, with symbols replaced."""
    return size.subs(values) if values and getattr(size, "free_symbols", None) else size


def range_of(ask: Ask, example: int, *, known: bool = False) -> tuple[int, int, int]:
    """Smallest size to draw, a size up to which each should be as likely, and the largest.

    Args:
        ask: What is asked; a declared maximum is the largest.
        example: The size in the example.
        known: Whether what a call costs is known, so that sizes without a maximum may be large.
    """
    most = ask.maximum
    high = max(ask.minimum, min(max(2 * example + 2, 9), 2**31 if most is None else most))
    if most is None:
        most = MOST_OF_EXAMPLE * max(example, 8) if known else high
    return ask.minimum, high, max(high, most)


def _shape(leaf: Leaf, grants: Granted, values: Mapping[Any, int]) -> tuple[int, ...]:
    sizes = []
    for d, example in enumerate(leaf.shape):
        size: Any = grants.of(leaf, d) if d in leaf.asked else example
        if getattr(size, "is_Symbol", False):
            size = values[size]
        sizes.append(int(size.subs(values)) if getattr(size, "free_symbols", None) else int(size))
    return tuple(sizes)
