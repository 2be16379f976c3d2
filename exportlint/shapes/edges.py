"""Sizes at the edges of a contract: both sides of every guard, the sizes that torch treats apart, and those outside.

A guard that narrows what was asked is only the model's own wish where the eager model refuses what violates it. So
for each guard there is a call that violates it and stays inside the contract, and a neighbour that keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exportlint.shapes.strategies import sizes_by_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from exportlint.shapes.contract import Ask, Contract, Leaf
    from exportlint.shapes.strategies import Affordable, Space
    from exportlint.torch_hooks.guards import Guard

    Shapes = dict[int, tuple[int, ...]]

MOST_GUARDS = 40
FURTHEST = 2**20  # how far the other side of a guard is looked for
NEAR = 12  # sizes on either side of the first that violates a guard, among which one is looked for that keeps others
SPECIAL = (1, 0)  # sizes that torch treats apart, without a guard


@dataclass(frozen=True, slots=True)
class Flip:
    """Two calls at the two sides of a guard.

    Attributes:
        guard: The guard.
        kept: Shapes for which it holds, as near as possible to the others.
        violated: Shapes inside the contract for which it does not.
        key: The variable that differs.
        value: Its value in the shapes that violate the guard.
    """

    guard: Guard
    kept: Shapes
    violated: Shapes
    key: str
    value: int


@dataclass(frozen=True, slots=True)
class Outside:
    """Shapes that a program may refuse, and why, such as ``x.shape[0] above its maximum``.

    Attributes:
        words: What is outside of the contract, or apart for torch.
        shapes: The shapes.
        asked: Whether the contract holds for them, so that an answer should be right.
    """

    words: str
    shapes: Shapes
    asked: bool = False


class Asked:
    """The sizes that the contract alone allows: dimensions that vary together have one value."""

    def __init__(self, contract: Contract) -> None:
        self.leaves = contract.leaves
        self.uses: dict[str, list[tuple[Leaf, int, Ask]]] = {}
        for leaf, d, ask in contract.asked:
            self.uses.setdefault(ask.variable or leaf.size(d), []).append((leaf, d, ask))
        self.by_source = {leaf.size(d): key for key, uses in self.uses.items() for leaf, d, _ in uses}

    def example(self, key: str) -> int:
        """The value of a variable in the example."""
        leaf, d, ask = self.uses[key][0]
        return (leaf.shape[d] - ask.offset) // ask.scale

    def bounds(self, key: str) -> tuple[int, int | None]:
        """The values that a variable may have."""
        asks = [ask for _, _, ask in self.uses[key]]
        lows = [-((ask.offset - ask.minimum) // ask.scale) for ask in asks]
        highs = [(ask.maximum - ask.offset) // ask.scale for ask in asks if ask.maximum is not None]
        return max(lows if self.of_number(key) else (0, *lows)), min(highs, default=None)

    def of_number(self, key: str) -> bool:
        """Whether a variable is no size, so that it may be negative."""
        return all(leaf.number for leaf, _, _ in self.uses[key])

    def shapes(self, values: Mapping[str, int]) -> Shapes:
        """The shapes of all tensors where these variables have these values, and all others those of the example."""
        made = {leaf.index: list(leaf.shape) for leaf in self.leaves}
        for key, value in values.items():
            for leaf, d, ask in self.uses[key]:
                made[leaf.index][d] = ask.scale * value + ask.offset
        return {index: tuple(shape) for index, shape in made.items()}

    def sizes(self, values: Mapping[str, int]) -> dict[str, int]:
        """The same by torch's words for the sizes."""
        return sizes_by_words(self.leaves, self.shapes(values))


def holds(guard: Guard, sizes: Mapping[str, int]) -> bool | None:
    """Whether a guard holds for these sizes; ``None`` where that cannot be said."""
    symbols = {str(symbol): symbol for symbol in getattr(guard.expression, "free_symbols", ())}
    values = {symbols[name]: sizes[source] for name, source in guard.sources.items() if source in sizes}
    if len(values) != len(symbols):
        return None
    import sympy  # type: ignore[import-untyped]

    try:  # without what `subs` does first, which takes longer than a call of a small model
        answer = guard.expression.xreplace({symbol: sympy.Integer(value) for symbol, value in values.items()})
    except Exception:  # sympy cannot decide it
        return None
    return {"True": True, "False": False}.get(str(answer))


def violated(guards: Iterable[Guard], sizes: Mapping[str, int]) -> Guard | None:
    """The first guard that these sizes violate, among those whose line is known."""
    return next((g for g in guards if g.place is not None and holds(g, sizes) is False), None)


def flips(space: Space, guards: Sequence[Guard]) -> Iterator[Flip]:
    """For each line that asks for a guard, calls at both sides of it; guards that no call violates have none."""
    asked = Asked(space.contract)
    seen: set[tuple[Any, str]] = set()
    for guard in guards:
        if guard.deferred or guard.place is None or (guard.place, guard.text) in seen or len(seen) >= MOST_GUARDS:
            continue
        seen.add((guard.place, guard.text))
        for key in dict.fromkeys(asked.by_source.get(source, "") for source in guard.sources.values()):
            flip = _flip(asked, guard, key, space.affordable) if key else None
            if flip is not None:
                yield flip
                break


def _flip(asked: Asked, guard: Guard, key: str, affordable: Affordable | None) -> Flip | None:
    """The sides of a guard when one variable changes and the others keep their values in the example."""
    start = asked.example(key)
    low, high = asked.bounds(key)
    if holds(guard, asked.sizes({key: start})) is not True:
        return None
    outer = start
    least = low if asked.of_number(key) else max(low, 2)
    for value in _candidates(start, least, FURTHEST if high is None else high):
        if holds(guard, asked.sizes({key: value})) is False:
            outer = value
            break
    else:
        return None
    inner = start
    while abs(outer - inner) > 1:  # the guard holds at one end and not at the other
        middle = (inner + outer) // 2
        if holds(guard, asked.sizes({key: middle})) is False:
            outer = middle
        else:
            inner = middle
    if affordable is not None and not affordable(asked.sizes({key: outer})):
        return None
    return Flip(guard, asked.shapes({key: inner}), asked.shapes({key: outer}), key, outer)


def apart(space: Space, guards: Sequence[Guard], flip: Flip) -> Shapes | None:
    """Shapes that violate the guard of a flip, too, and fewer of the others; ``None`` where there are none nearby.

    What refuses a call that violates several may be any of them.
    """
    asked = Asked(space.contract)
    low, high = asked.bounds(flip.key)
    about = [guard for guard in guards if guard is not flip.guard and not guard.deferred]

    def violations(value: int) -> int:
        sizes = asked.sizes({flip.key: value})
        return sum(holds(guard, sizes) is False for guard in about)

    best, fewest = flip.value, violations(flip.value)
    for value in sorted(range(flip.value - NEAR, flip.value + NEAR + 1), key=lambda v: abs(v - flip.value)):
        sizes = asked.sizes({flip.key: value})
        inside = max(low, 2) <= value and (high is None or value <= high)
        if not fewest or not inside or holds(flip.guard, sizes) is not False:
            continue
        if violations(value) < fewest and (space.affordable is None or space.affordable(sizes)):
            best, fewest = value, violations(value)
    return None if best == flip.value else asked.shapes({flip.key: best})


def _candidates(start: int, low: int, high: int) -> Iterator[int]:
    """Values further and further away from the first, on both sides."""
    step = 1
    while start + step <= high or start - step >= low:
        if start + step <= high:
            yield start + step
        if start - step >= low:
            yield start - step
        step = step + 1 if step < 8 else step * 2
    yield from (value for value in (low, high) if low <= value <= high)


def special(space: Space) -> Iterator[Outside]:
    """All dynamic sizes at 1, then at 0: torch assumes that neither happens, and adds no guard.

    Of numbers it assumes that they are not negative.
    """
    asked = Asked(space.contract)
    for size in SPECIAL:
        keys = [key for key in asked.uses if _plainly(asked, key)]
        if keys:
            yield _apart(asked, keys, size)
        for key in keys if len(keys) > 1 else ():
            yield _apart(asked, [key], size)
    for key in asked.uses:
        if asked.of_number(key) and asked.bounds(key)[0] >= 0:
            yield Outside("a negative number", asked.shapes({key: -1}))


def _apart(asked: Asked, keys: Sequence[str], size: int) -> Outside:
    inside = all(low <= size and (high is None or size <= high) for low, high in map(asked.bounds, keys))
    return Outside(f"sizes of {size}", asked.shapes(dict.fromkeys(keys, size)), inside)


def _plainly(asked: Asked, key: str) -> bool:
    """Whether a variable is the size itself, and nobody said that 0 and 1 are out of the question."""
    declared = [ask for _, _, ask in asked.uses[key]]
    return all((ask.scale, ask.offset) == (1, 0) for ask in declared)


def outside(space: Space) -> Iterator[Outside]:
    """Shapes that the contract excludes: beyond a declared bound, off a multiple, unequal, another static size."""
    asked = Asked(space.contract)
    example = asked.shapes({})
    for key, uses in asked.uses.items():
        leaf, d, ask = uses[0]
        words = leaf.name(d)
        low, high = asked.bounds(key)
        if high is not None:
            yield Outside(f"{words} above {ask.maximum}", asked.shapes({key: high + 1}))
        if low > 2:
            yield Outside(f"{words} below {ask.minimum}", asked.shapes({key: low - 1}))
        if ask.scale > 1:
            yield Outside(f"{words} other than {ask.name}", _changed(example, leaf, d, 1))
        elif len(uses) > 1:
            other, k, _ = uses[-1]
            yield Outside(f"{other.name(k)} other than {words}", _changed(example, other, k, 1))
    for leaf in space.contract.leaves:
        static = [d for d in range(len(leaf.shape)) if d not in leaf.asked and leaf.shape[d] > 1]
        for d in static[-1:]:
            yield Outside(f"{leaf.words}.shape[{d}] other than {leaf.shape[d]}", _changed(example, leaf, d, 1))


def _changed(shapes: Shapes, leaf: Leaf, d: int, by: int) -> Shapes:
    shape = list(shapes[leaf.index])
    shape[d] += by
    return {**shapes, leaf.index: tuple(shape)}


def others(contract: Contract, leaf: Leaf, d: int, together: Iterable[tuple[Leaf, int]] = ()) -> Iterator[Shapes]:
    """Shapes in which one dimension, and what varies with it, has another size than in the example.

    Args:
        contract: What is asked.
        leaf: The tensor.
        d: The dimension.
        together: Dimensions of the same size that get the same other size.
    """
    asked = Asked(contract)
    keys = dict.fromkeys(_key(*dimension) for dimension in ((leaf, d), *together))
    start, bounds = asked.example(_key(leaf, d)), [asked.bounds(key) for key in keys]
    for value in dict.fromkeys((start + 1, 2 * start, start - 1, *([2] if start < 2 else []))):
        if (
            value != start
            and value >= 2
            and all(low <= value and (high is None or value <= high) for low, high in bounds)
        ):
            yield asked.shapes(dict.fromkeys(keys, value))


def _key(leaf: Leaf, d: int) -> str:
    return leaf.asked[d].variable or leaf.size(d)


def grown(contract: Contract) -> tuple[Shapes, list[str]]:
    """Shapes in which no dynamic dimension has the size of 0 or 1, where the contract allows it, and what is new there.

    The second is such as ``x.shape[0]``.
    """
    asked = Asked(contract)
    values: dict[str, int] = {}
    for key, uses in asked.uses.items():
        least = max(-((ask.offset - 2) // ask.scale) for _, _, ask in uses)
        low, high = asked.bounds(key)
        if asked.example(key) < least and not asked.of_number(key) and (high is None or least <= high):
            values[key] = max(least, low)
    return asked.shapes(values), [leaf.name(d) for key in values for leaf, d, _ in asked.uses[key]]
