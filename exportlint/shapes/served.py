"""The sizes around the example's that a program takes: guards may refuse a part of the range that an export accepts."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from exportlint.shapes.conditions import Each, Multiple, divisibility
from exportlint.shapes.contract import HINT_MIN, Contract
from exportlint.shapes.edges import violated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from exportlint.shapes.contract import Ask, Granted, Leaf
    from exportlint.torch_hooks.guards import Guard

HORIZON = 256  # sizes that are looked at on either side of the example's


def served(contract: Contract, grants: Granted, guards: Sequence[Guard]) -> Contract | None:
    """The contract with the sizes around the example's for which all guards hold; ``None`` where they hold for all.

    Guards that ask for a multiple do not count, since no range says what they leave.

    Args:
        contract: What was asked.
        grants: What a program grants.
        guards: The guards of its export.
    """
    others = [guard for guard in guards if not isinstance(divisibility(guard.expression), (Multiple, Each))]
    found = dict(_narrower(contract, grants, others))

    def within(leaf: Leaf) -> Leaf:
        asked = {d: _limited(ask, grants.of(leaf, d), found) for d, ask in leaf.asked.items()}
        return dataclasses.replace(leaf, asked=asked)

    return Contract(tuple(map(within, contract.leaves))) if found else None


def _limited(ask: Ask, size: Any, found: Mapping[Any, tuple[int, int | None]]) -> Ask:
    """What is asked of a size that is one of the symbols, or a plain multiple of one."""
    symbols = getattr(size, "free_symbols", ())
    symbol = next(iter(symbols)) if len(symbols) == 1 else None
    if symbol not in found:
        return ask
    low, high = (None if end is None else int(size.subs({symbol: end})) for end in found[symbol])
    low = max(ask.minimum, low or 0)
    high = min((end for end in (ask.maximum, high) if end is not None), default=None)
    return dataclasses.replace(ask, minimum=low, maximum=high) if high is None or low <= high else ask


def _narrower(
    contract: Contract, grants: Granted, guards: Sequence[Guard]
) -> Iterator[tuple[Any, tuple[int, int | None]]]:
    """The symbols of which guards refuse a part of the range, each with what is left around the example."""
    start = {grants.of(leaf, d): leaf.shape[d] for leaf, d, _ in contract.asked}
    symbols = [size for size in start if getattr(size, "is_Symbol", False)]
    for symbol in symbols:

        def holds(value: int, symbol: Any = symbol) -> bool:
            values = {**{s: start[s] for s in symbols}, symbol: value}
            sizes = {leaf.size(d): _value(grants.of(leaf, d), leaf.shape[d], values) for leaf, d, _ in contract.asked}
            return violated(guards, sizes) is None

        if not holds(start[symbol]):
            continue
        least, most = grants.ranges.get(symbol, (0, None))
        least, far = max(least, HINT_MIN), start[symbol] + HORIZON
        low = _last(range(start[symbol], least - 1, -1), holds)
        high = _last(range(start[symbol], min(far, most if most is not None else far) + 1), holds)
        narrower = low > max(least, start[symbol] - HORIZON) or high < min(far, most if most is not None else far)
        if narrower and low < high:  # one size alone may be a multiple
            yield symbol, (low, most if high == far else high)


def _last(values: range, holds: Callable[[int], bool]) -> int:
    """The last of the values up to which all hold."""
    last = values[0] if len(values) else 0
    for value in values:
        if not holds(value):
            break
        last = value
    return last


def _value(size: Any, example: int, values: Mapping[Any, int]) -> int:
    """A size with these values of its symbols."""
    symbols = getattr(size, "free_symbols", ())
    known = all(symbol in values for symbol in symbols)
    return int(size.subs({symbol: values[symbol] for symbol in symbols})) if symbols and known else example
