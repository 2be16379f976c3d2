"""Which sizes keep guards that are each about one size, so that calls are drawn that are not all refused.

A model that wants multiples of 16 refuses fifteen of sixteen sizes that are drawn without a look at its guards.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from exportlint.shapes import conditions
from exportlint.shapes.kinds import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from exportlint.torch_hooks.guards import Guard

    Fits = Callable[[int], bool]

FURTHEST = 1024  # how far from a size one that fits is looked for


class Fitting:
    """The sizes that guards leave.

    Args:
        guards: The guards; of those about several sizes only divisibility and equations count.

    Attributes:
        together: The sizes of each equation between several, which those that are equal in the example keep together.
    """

    def __init__(self, guards: Iterable[Guard] = ()) -> None:
        self.together: list[frozenset[str]] = []
        self._of: dict[str, list[Fits]] = defaultdict(list)
        for guard in guards:
            if kind_of(guard) == "bound" and getattr(guard.expression, "rel_op", None) == "==":
                self.together.append(frozenset(guard.sources.values()))
            for symbol, fits in _conditions(guard.expression):
                self._of[guard.sources[symbol]].append(functools.lru_cache(maxsize=None)(fits))

    def __bool__(self) -> bool:
        return bool(self._of or self.together)

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether all guards hold for these sizes, by torch's words for them."""
        return all(fits(sizes[source]) for source, found in self._of.items() if source in sizes for fits in found)

    def about(self, sizes: Iterable[str]) -> bool:
        """Whether any guard is about one of these sizes."""
        return any(source in self._of for source in sizes)


def nearest(value: int, low: int, high: int, fits: Fits) -> int:
    """The largest number up to the value that fits, else the smallest above it; the value itself where none is near."""
    below = range(value, max(low, value - FURTHEST) - 1, -1)
    above = range(value + 1, min(high, value + FURTHEST) + 1)
    return next((n for numbers in (below, above) for n in numbers if fits(n)), value)


def _conditions(expression: Any) -> Iterator[tuple[str, Fits]]:
    """What a guard asks of single sizes, by the name of the symbol."""
    symbols = list(expression.free_symbols)
    if len(symbols) == 1:
        yield str(symbols[0]), functools.partial(_keeps, expression, symbols[0])
        return
    found = conditions.divisibility(expression)
    parts = found.parts if isinstance(found, conditions.Each) else (found,)
    for part in parts:
        if isinstance(part, conditions.Multiple):  # of a product it is enough that one size is a multiple
            symbol = max(part.symbols, key=str)
            yield str(symbol), functools.partial(_leaves, part.divisor, part.rest)


def _keeps(expression: Any, symbol: Any, size: int) -> bool:
    """Whether a condition on one size holds, or cannot be evaluated."""
    return conditions.value_or_none(expression, {symbol: size}) is not False


def _leaves(divisor: int, rest: int, size: int) -> bool:
    return size % divisor == rest
