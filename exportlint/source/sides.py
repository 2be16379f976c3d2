"""Questions about a size: whether all sizes that may come give one answer, or the example decides for the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.source.values import Const, Size, Truth, Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exportlint.source.values import Step

_SMALL = range(2, 260)
_LARGE = (10**6, 10**6 + 1)


def example_decides(value: Value) -> bool:
    """Whether the truth of a dynamic size, or of its comparison with a constant, hangs on the example's size.

    Sizes of 2 and more are tried: torch takes a dynamic dimension to be neither 0 nor 1. Of a dimension that may have
    bounds only the sizes of the two examples are.
    """
    if isinstance(value, Size):
        return _differs(value, value.steps)
    if (
        isinstance(value, Truth)
        and isinstance(value.of, Size)
        and value.test is not None
        and value.of.steps is not None
    ):
        return _differs(value.of, (*value.of.steps, value.test))
    return False


def cut_decides(size: Size, bounds: tuple[Value, ...]) -> bool:
    """Whether the two examples of a dimension are cut by a slice with constant bounds in different ways.

    One has a bound inside and the other has not, or one is left with fewer than two elements and the other is not.
    """
    constants = [bound.value for bound in bounds if isinstance(bound, Const)]
    numbers: list[int | None] = [n for n in constants if n is None or isinstance(n, int)]
    if len(numbers) != 3 or len(bounds) != 3 or numbers[2] == 0:
        return False
    if size.example is None or size.other is None or min(size.example, size.other) < 2:
        return False
    small, large = sorted((size.example, size.other))
    left, kept = (len(range(n)[slice(numbers[0], numbers[1], numbers[2])]) for n in (small, large))
    return left != kept and (left < 2 or any(small < abs(n) < large for n in numbers[:2] if n is not None))


def _differs(size: Size, steps: tuple[Step, ...] | None) -> bool:
    if steps is None or size.dynamic is not True:
        return False
    try:
        return len({_answer(steps, number) for number in _tried(size, steps)}) > 1
    except (ArithmeticError, ValueError):
        return False


def _answer(steps: tuple[Step, ...], number: int) -> bool:
    result = number
    for step in steps:
        result = step.apply(result)
    return bool(result)


def _tried(size: Size, steps: tuple[Step, ...]) -> Iterable[int]:
    if not size.unbounded:
        return [n for n in (size.example, size.other) if n is not None]
    # the answer changes near the constants, or near their products
    near = {int(s.operand) for s in steps} | {int(a.operand * b.operand) for a in steps for b in steps}
    around = (n + offset for n in near for offset in (-1, 0, 1) if 2 <= n + offset < _LARGE[0])
    return (*_SMALL, *around, *_LARGE)
