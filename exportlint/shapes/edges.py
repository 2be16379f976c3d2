"""Sizes at the edges of a contract: both sides of every guard, the sizes that torch treats apart, and those outside.

A guard that narrows what was asked is only the model's own wish where the eager model refuses what violates it. So
for each guard there is a call that violates it and stays inside the contract, and a neighbour that keeps it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from exportlint.shapes.linear import Linear, linear_in
from exportlint.shapes.strategies import sizes_by_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from exportlint.shapes.contract import Ask, Contract, Leaf
    from exportlint.shapes.strategies import Affordable, Space
    from exportlint.torch_hooks.guards import Guard

    Shapes = dict[int, tuple[int, ...]]

MOST_GUARDS = 40
MOST_WAYS = 6  # to violate one guard
ITSELF = Linear(Fraction(1), Fraction(0))
FURTHEST = 2**20  # how far the other side of a guard is looked for
NEAR = 12  # sizes on either side of the first that violates a guard, among which one is looked for that keeps others
SPECIAL = (1, 0)  # sizes that torch treats apart, without a guard


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
    """The sizes that the contract alone allows: dimensions that vary together have one value.

    What is the sum of others is no variable: `by_source` has the first of its parts for it.
    """

    def __init__(self, contract: Contract) -> None:
        self.leaves = contract.leaves
        self.uses: dict[str, list[tuple[Leaf, int, Ask]]] = {}
        self.sums = [(leaf, d, ask) for leaf, d, ask in contract.asked if ask.parts]
        for leaf, d, ask in contract.asked:
            if not ask.parts:
                self.uses.setdefault(ask.variable or leaf.size(d), []).append((leaf, d, ask))
        self.by_source = {leaf.size(d): ask.parts[0] for leaf, d, ask in self.sums}
        self.by_source |= {leaf.size(d): key for key, uses in self.uses.items() for leaf, d, _ in uses}

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
        return self.changed({leaf.index: leaf.shape for leaf in self.leaves}, values)

    def changed(self, shapes: Mapping[int, tuple[int, ...]], values: Mapping[str, int]) -> Shapes:
        """The same of other shapes than those of the example, of all tensors or of some."""
        made = {index: list(shape) for index, shape in shapes.items()}
        for key, value in values.items():
            for leaf, d, ask in self.uses[key]:
                if leaf.index in made:
                    made[leaf.index][d] = ask.scale * value + ask.offset
        now = self.values(made)
        for leaf, d, ask in self.sums:
            if leaf.index in made and now.keys() >= {*ask.parts}:
                made[leaf.index][d] = sum(now[part] for part in ask.parts) + ask.offset
        return {index: tuple(shape) for index, shape in made.items()}

    def values(self, shapes: Mapping[int, Sequence[int]]) -> dict[str, int]:
        """The value of each variable in these shapes, by index of the leaf; of those that a given shape has."""
        found = {}
        for key, uses in self.uses.items():
            made = [(shapes[leaf.index][d], ask) for leaf, d, ask in uses if leaf.index in shapes]
            if made:
                size, ask = made[0]
                found[key] = (size - ask.offset) // ask.scale
        return found

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


@dataclass(frozen=True)
class Move:
    """Variables that change together, in terms of one number; all others keep their values in the example.

    Attributes:
        asked: The variables.
        of: The values of those that change, as functions of the number.
        start: The number in the example.
        low: The smallest number with which the contract holds, and no size is 0 or 1.
        high: The largest; ``None`` for no limit.
    """

    asked: Asked
    of: Mapping[str, Linear]
    start: int
    low: int
    high: int | None

    @classmethod
    def made(cls, asked: Asked, of: Mapping[str, Linear]) -> Move | None:
        """The move of variables; ``None`` where the example is not a part of it."""
        starts = {function.inverse()(asked.example(key)) for key, function in of.items()}
        whole = all(f.scale > 0 and f.scale.denominator == f.offset.denominator == 1 for f in of.values())
        start = min(starts)
        if not whole or len(starts) > 1 or start.denominator > 1:
            return None
        lows, highs = [], []
        for key, function in of.items():
            (low, high), inverse = asked.bounds(key), function.inverse()
            lows.append(math.ceil(inverse(low if asked.of_number(key) else max(low, 2))))
            highs += [] if high is None else [math.floor(inverse(high))]
        return cls(asked, of, int(start), max(lows), min(highs, default=None))

    def shapes(self, number: int) -> Shapes:
        """The shapes of all tensors."""
        return self.asked.shapes({key: int(function(number)) for key, function in self.of.items()})

    def sizes(self, number: int) -> dict[str, int]:
        """The same by torch's words for the sizes."""
        return sizes_by_words(self.asked.leaves, self.shapes(number))


@dataclass(frozen=True, slots=True)
class Flip:
    """Two calls at the two sides of a guard.

    Attributes:
        guard: The guard.
        kept: Shapes for which it holds, as near as possible to the others.
        violated: Shapes inside the contract for which it does not.
        move: What differs.
        number: How far, in the shapes that violate the guard.
    """

    guard: Guard
    kept: Shapes
    violated: Shapes
    move: Move
    number: int


def flips(space: Space, guards: Sequence[Guard]) -> Iterator[tuple[Flip, ...]]:
    """For each line that asks for a guard, calls at both sides of it; guards that no call violates have none.

    A model may refuse one way to violate a guard and take another, such as two sizes that it wants equal: each way
    is told, first those in which sizes change together that are one to the program.
    """
    asked = Asked(space.contract)
    seen: set[tuple[Any, str]] = set()
    for guard in guards:
        if guard.deferred or guard.place is None or (guard.place, guard.text) in seen or len(seen) >= MOST_GUARDS:
            continue
        seen.add((guard.place, guard.text))
        found = (_flip(move, guard, space.affordable) for move in _moves(space, asked, guard))
        ways = tuple(flip for flip in found if flip is not None)
        if ways:
            yield ways


def _moves(space: Space, asked: Asked, guard: Guard) -> list[Move]:
    """Ways to change the sizes in a guard: those that are one to the program, each alone, and all of the same size."""
    keys = dict.fromkeys(asked.by_source[s] for s in guard.sources.values() if s in asked.by_source)
    groups: list[Mapping[str, Linear]] = [_in_program(space, asked, key) for key in keys]
    groups += [{key: ITSELF} for key in keys]
    groups += [{k: ITSELF for k in asked.uses if asked.example(k) == asked.example(key)} for key in keys]
    unique = {frozenset(group.items()): group for group in groups if group}
    moves = (Move.made(asked, group) for group in unique.values())
    return [move for move in moves if move is not None][:MOST_WAYS]


def _in_program(space: Space, asked: Asked, key: str) -> dict[str, Linear]:
    """The variables that follow the same symbol of the program as this one does, as functions of it."""
    found: dict[str, tuple[Any, Linear]] = {}
    for leaf, d, ask in space.contract.asked:
        linear = None if ask.parts else linear_in(space.grants.of(leaf, d))
        if linear is not None:
            variable = Linear(Fraction(1, ask.scale), Fraction(-ask.offset, ask.scale)).of(linear[1])
            found[asked.by_source[leaf.size(d)]] = linear[0], variable
    return {other: function for other, (symbol, function) in found.items() if key in found and symbol == found[key][0]}


def _flip(move: Move, guard: Guard, affordable: Affordable | None) -> Flip | None:
    """The sides of a guard when some variables change and the others keep their values in the example."""
    start = move.start
    if holds(guard, move.sizes(start)) is not True:
        return None
    outer = start
    for number in _candidates(start, move.low, FURTHEST if move.high is None else move.high):
        if holds(guard, move.sizes(number)) is False:
            outer = number
            break
    else:
        return None
    inner = start
    while abs(outer - inner) > 1:  # the guard holds at one end and not at the other
        middle = (inner + outer) // 2
        if holds(guard, move.sizes(middle)) is False:
            outer = middle
        else:
            inner = middle
    if affordable is not None and not affordable(move.sizes(outer)):
        return None
    return Flip(guard, move.shapes(inner), move.shapes(outer), move, outer)


def apart(space: Space, guards: Sequence[Guard], flip: Flip) -> Shapes | None:
    """Shapes that violate the guard of a flip, too, and fewer of the others; ``None`` where there are none nearby.

    What refuses a call that violates several may be any of them.
    """
    move = flip.move
    about = [guard for guard in guards if guard is not flip.guard and not guard.deferred]

    def violations(number: int) -> int:
        sizes = move.sizes(number)
        return sum(holds(guard, sizes) is False for guard in about)

    best, fewest = flip.number, violations(flip.number)
    for number in sorted(range(flip.number - NEAR, flip.number + NEAR + 1), key=lambda n: abs(n - flip.number)):
        sizes = move.sizes(number)
        inside = move.low <= number and (move.high is None or number <= move.high)
        if not fewest or not inside or holds(flip.guard, sizes) is not False:
            continue
        if violations(number) < fewest and (space.affordable is None or space.affordable(sizes)):
            best, fewest = number, violations(number)
    return None if best == flip.number else move.shapes(best)


def beyond(space: Space, guards: Sequence[Guard], guard: Guard, most: int) -> list[Shapes]:
    """Shapes that violate a guard, near the first that do and far beyond; of these, those that keep most other guards.

    A wrong answer may be right by chance at the first, such as a cut after the last row.
    """
    asked = Asked(space.contract)
    about = [other for other in guards if other is not guard and not other.deferred]
    found: list[tuple[int, Shapes]] = []
    for move in _moves(space, asked, guard):
        flip = _flip(move, guard, space.affordable)
        for number in () if flip is None else _further(flip):
            sizes = move.sizes(number)
            if holds(guard, sizes) is False and (space.affordable is None or space.affordable(sizes)):
                found.append((sum(holds(other, sizes) is False for other in about), move.shapes(number)))
    fewest = min((violations for violations, _ in found), default=0)
    return [shapes for violations, shapes in found if violations == fewest][:most]


def _further(flip: Flip) -> Iterator[int]:
    """Numbers beyond a guard, within the contract: twice as far, the next, then others near the first."""
    move, first = flip.move, flip.number
    sign = 1 if first >= move.start else -1
    numbers = (2 * first, first + sign, first, *(first + sign * step for step in range(2, NEAR)))
    for number in dict.fromkeys(numbers):
        if move.low <= number and (move.high is None or number <= move.high):
            yield number


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
            yield Outside(f"{words} other than {ask.name or ask.follows}", _changed(example, leaf, d, 1))
        elif len(uses) > 1:
            other, k, _ = uses[-1]
            yield Outside(f"{other.name(k)} other than {words}", _changed(example, other, k, 1))
    for leaf, d, ask in asked.sums:
        yield Outside(f"{leaf.name(d)} other than {ask.follows}", _changed(example, leaf, d, 1))
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
    ask = leaf.asked[d]
    return ask.parts[0] if ask.parts else ask.variable or leaf.size(d)


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
