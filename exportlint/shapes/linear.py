"""Sizes that are linear in one number, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any


@dataclass(frozen=True, slots=True)
class Linear:
    """``scale * number + offset``."""

    scale: Fraction
    offset: Fraction

    def __call__(self, number: Fraction | int) -> Fraction:
        """The value for a number."""
        return self.scale * number + self.offset

    def of(self, inner: Linear) -> Linear:
        """The same of a number that is itself linear in another."""
        return Linear(self.scale * inner.scale, self.scale * inner.offset + self.offset)

    def inverse(self) -> Linear:
        """The number, in terms of this."""
        return Linear(1 / self.scale, -self.offset / self.scale)


def linear_in(size: Any) -> tuple[Any, Linear] | None:
    """The one symbol that a size is linear in, and how; ``None`` where it is a constant or not linear in one."""
    symbols = list(getattr(size, "free_symbols", ()))
    if len(symbols) != 1:
        return None
    (symbol,) = symbols
    values = [size.subs({symbol: n}) for n in (0, 1, 2, 7)]
    if not all(getattr(value, "is_Integer", False) for value in values):
        return None
    offset, one, two, seven = map(int, values)
    scale = one - offset
    if not scale or (two, seven) != (offset + 2 * scale, offset + 7 * scale):
        return None
    return symbol, Linear(Fraction(scale), Fraction(offset))
