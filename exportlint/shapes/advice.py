"""What to change where a program is narrower than asked, by the kind of what narrows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from exportlint.shapes import conditions
from exportlint.shapes.kinds import Kind, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exportlint.torch_hooks.guards import Guard

Change = Literal[
    "constant",
    "equal",
    "related",
    "divisible",
    "range",
    "counted",
    "apart",
    "one",
    "left out",
    "data",
    "bound",
    "always",
    "cdist",
]

CHANGES: Mapping[Change, str] = {
    "constant": "Keep the size symbolic here, or declare the dimension static: leave it out of dynamic_shapes.",
    "equal": "Give both dimensions the same Dim, or drop the code that makes them equal.",
    "related": "Declare the relation, as in 2 * Dim('n'), or drop the code that makes it.",
    "divisible": "Pad to a multiple with tensor operators, or declare a multiple, as in 4 * Dim('n').",
    "range": "Replace the comparison or the slice by tensor operators that hold for all sizes, or declare the range.",
    "counted": "Let the number of parts not follow the size: use view, narrow or operators on the whole in place "
    "of chunk, split or a loop. Or declare the range.",
    "apart": "Declare a minimum above which no part has the size of 0 or 1, which torch tells apart, as in "
    "Dim('n', min=4).",
    "one": "Write what is the same for sizes of 0 and 1, as squeeze(d) in place of squeeze(), or declare a minimum, "
    "as in Dim('n', min=2).",
    "left out": "Replace a condition by tensor operators that hold for all sizes. Where a slice may take all of a "
    "buffer, which torch tells apart, make the buffer larger, or declare a range without this size, as in "
    "Dim('n', max=7).",
    "data": "Replace the decision by tensor operators that hold for every number, or state what always holds with "
    "torch._check.",
    "always": "Use Dim.DYNAMIC in place of a named Dim, with the same range, as in Dim.DYNAMIC(max=64): torch then "
    "checks it in each call instead of proving it.",
    "cdist": 'Give cdist a compute_mode, "use_mm_for_euclid_dist" or "donot_use_mm_for_euclid_dist": without one it '
    "chooses by whether there are more than 25 rows.",
    "bound": "Replace the condition on the sizes by tensor operators that hold for all of them.",
}

BY_KIND: Mapping[Kind, Change] = {
    "pinned": "constant",
    "bounded": "range",
    "divisible": "divisible",
    "counted": "counted",
    "apart": "apart",
    "equal": "equal",
    "bound": "bound",
    "unequal": "bound",
}


def of_guard(guard: Guard) -> str:
    """What to change where this guard narrows a size."""
    if any(str(symbol).startswith("u") for symbol in guard.expression.free_symbols):
        return CHANGES["data"]
    if conditions.always(guard.expression):
        return CHANGES["always"]
    kind, relation = kind_of(guard), getattr(guard.expression, "rel_op", None)
    if kind == "bound" and relation == "==" and _is_linear(guard.expression):
        return CHANGES["related"]
    if kind == "bounded" and guard.place is not None and "cdist(" in guard.place.source:
        return CHANGES["cdist"]
    size = _left_out(guard)
    if size is not None:
        return CHANGES["left out"].replace("7", str(size - 1)) if size > 2 else CHANGES["apart"]
    text, found = CHANGES[BY_KIND[kind]], conditions.divisibility(guard.expression)
    if isinstance(found, conditions.Multiple):
        rest = f" + {found.rest}" if found.rest else ""
        text = text.replace("4 * Dim('n')", f"{found.divisor} * Dim('n'){rest}")
    elif isinstance(found, conditions.Each):
        text = text.replace("4 * Dim('n')", f"{found.parts[0].divisor} * Dim('n')")
    return text


def _left_out(guard: Guard) -> int | None:
    """The one size that a guard leaves out; ``None`` where it is about several, or leaves out more."""
    if getattr(guard.expression, "rel_op", None) != "!=":
        return None
    left, right = guard.expression.lhs, guard.expression.rhs
    left, right = (left, right) if left.is_Symbol else (right, left)
    return int(right) if left.is_Symbol and right.is_Integer else None


def _is_linear(equation: object) -> bool:
    """Whether both sides are sums of multiples of sizes, which a derived `Dim` can say."""
    sides = (getattr(equation, "lhs", None), getattr(equation, "rhs", None))
    return all(hasattr(side, "as_poly") and _of_first_degree(side) for side in sides)


def _of_first_degree(side: object) -> bool:
    symbols = sorted(getattr(side, "free_symbols", ()), key=str)
    if not symbols:
        return True
    polynomial = side.as_poly(*symbols)  # type: ignore[attr-defined]
    return polynomial is not None and polynomial.total_degree() <= 1
