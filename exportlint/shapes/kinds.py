"""The kinds of guards: what one does to the sizes in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from exportlint.shapes import conditions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exportlint.torch_hooks.guards import Guard

Kind = Literal["pinned", "bounded", "divisible", "counted", "equal", "bound", "unequal", "apart"]


def kind_of(guard: Guard) -> Kind:
    """What a guard does to the sizes in it.

    ``pinned`` to a number, ``bounded`` by one, ``divisible`` (a product of them leaves no rest, or the same always),
    ``counted`` (the number of its parts is fixed), ``equal``
    to another size, ``bound`` by any other equation (every dimension can look symbolic and still be bound), merely
    ``unequal``, or ``apart``: a part of it that has the size of 0 or 1 is told apart, which large sizes have none of.
    """
    expression, symbols = guard.expression, guard.expression.free_symbols
    relation = getattr(expression, "rel_op", None)
    if conditions.divisibility(expression) is not None:
        return "divisible"
    if relation == "!=":
        parted = not _is_size(expression.lhs) and str(expression.rhs) in ("0", "1") and conditions.lasts(expression)
        return "apart" if parted else "unequal"
    if relation == "==":
        return _equation(expression, len(symbols))
    return "bounded" if len(symbols) == 1 else "bound"


def merged(guards: Iterable[Guard]) -> dict[str, str]:
    """One of several sizes that guards make equal, by each of them."""
    one: dict[str, str] = {}
    for guard in guards:
        if kind_of(guard) == "equal":
            first, *others = (one.get(source, source) for source in guard.sources.values())
            one.update({source: first for source, known in one.items() if known in others})
            one.update(dict.fromkeys((first, *others), first))
    return one


def _equation(expression: Any, sizes: int) -> Kind:
    """The kind of an equation."""
    text = str(expression)
    if sizes != 1:
        plain = _is_size(expression.lhs) and _is_size(expression.rhs)
        return "equal" if plain else "bound"
    if "Mod(" in text:
        return "divisible"
    if "Max(" in text or "Min(" in text:
        return "bounded"
    if "//" in text:  # as many parts, of whatever size, or no rest
        return "counted" if expression.lhs.is_number or expression.rhs.is_number else "divisible"
    return "pinned"


def _is_size(side: Any) -> bool:
    return bool(getattr(side, "is_Symbol", False))
