"""Asked versus granted: for each dimension that should be dynamic, what the program makes of it, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from exportlint.shapes import narrowing
from exportlint.shapes.contract import HINT_MIN, between
from exportlint.shapes.edges import Asked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from exportlint.shapes.contract import Ask, Contract, Granted, Leaf
    from exportlint.torch_hooks.guards import Guard

Grant = Literal["as asked", "constant", "equal", "related", "divisible", "range", "bound"]


@dataclass(frozen=True, slots=True)
class Term:
    """What was asked of one dimension and what is granted.

    Attributes:
        leaf: The tensor.
        d: The dimension.
        ask: What is asked.
        grant: What the program makes of it: ``constant``, ``equal`` to a dimension that may differ, ``related`` to
            others by an equation, ``divisible``, of a narrower ``range``, or ``bound`` by a guard on several sizes.
        granted: What is granted in words, such as ``from 2 to 8``.
        guards: The guards that narrow it, with their lines.
    """

    leaf: Leaf
    d: int
    ask: Ask
    grant: Grant
    granted: str
    guards: tuple[Guard, ...] = ()

    @property
    def name(self) -> str:
        """The user's words for the size, such as ``x.shape[0]``."""
        return self.leaf.name(self.d)

    @property
    def words(self) -> str:
        """Both sides in one line."""
        return f"{self.name}: asked {self.ask.words}, granted {self.granted}"


CHANGES = {
    "constant": "Keep the size symbolic here, or declare the dimension static: leave it out of dynamic_shapes.",
    "equal": "Give both dimensions the same Dim, or drop the code that makes them equal.",
    "related": "Declare the relation, as in 2 * Dim('n'), or drop the code that makes it.",
    "divisible": "Pad to a multiple with tensor operators, or declare a multiple, as in 4 * Dim('n').",
    "range": "Replace the comparison or the slice by tensor operators that hold for all sizes, or declare the range.",
    "bound": "Replace the condition on the sizes by tensor operators that hold for all of them.",
}


def terms(contract: Contract, granted: Granted, guards: Sequence[Guard]) -> list[Term]:
    """One term for each dimension that is asked to be dynamic."""
    asked = Asked(contract)
    by_symbol: dict[Any, set[str]] = {}
    for key, uses in asked.uses.items():
        for leaf, d, _ in uses:
            size = _size(granted, leaf, d)
            if getattr(size, "is_Symbol", False):
                by_symbol.setdefault(size, set()).add(key)
    live = [guard for guard in guards if not guard.deferred]
    return [_term(leaf, d, ask, granted, live, by_symbol) for leaf in contract.leaves for d, ask in leaf.asked.items()]


def _size(granted: Granted, leaf: Leaf, d: int) -> Any:
    sizes = granted.sizes.get(leaf.index, leaf.shape)
    return sizes[d] if d < len(sizes) else leaf.shape[d]


def _term(
    leaf: Leaf, d: int, ask: Ask, granted: Granted, guards: Sequence[Guard], by_symbol: dict[Any, set[str]]
) -> Term:
    size = _size(granted, leaf, d)
    about = [(g, narrowing.kind_of(g)) for g in guards if leaf.size(d) in g.sources.values()]

    def of(*kinds: str) -> tuple[Guard, ...]:
        return tuple(g for g, kind in about if kind in kinds)

    grant, granted_words, why = _grant(size, ask, granted, of, shared=len(by_symbol.get(size, ())) > 1)
    return Term(leaf, d, ask, grant, granted_words, why)


def _grant(
    size: Any, ask: Ask, granted: Granted, of: Callable[..., tuple[Guard, ...]], *, shared: bool
) -> tuple[Grant, str, tuple[Guard, ...]]:
    """What the program makes of a size, in words, and the guards that narrow it."""
    low, high = granted.ranges.get(size, (0, None))
    grant: Grant = "as asked"
    words = "as asked"
    why: tuple[Guard, ...] = ()
    if not getattr(size, "free_symbols", None):
        grant, words, why = "constant", f"the constant {int(size)}", of("pinned") or of("bound", "equal")
    elif not size.is_Symbol:
        if ask.scale == 1 and not ask.offset:
            grant, words, why = "related", str(size), of("bound", "equal", "divisible")
    elif shared:
        grant, words, why = "equal", "a size that another dimension must have too", of("equal", "bound")
    elif low > max(HINT_MIN, ask.minimum) or (high is not None and (ask.maximum is None or high < ask.maximum)):
        grant, words, why = "range", between(low, high), of("bounded", "unequal")
    elif guards := of("divisible"):
        grant, words, why = "divisible", f"where {guards[0].text}", guards
    elif guards := of("bound", "unequal"):
        grant, words, why = "bound", f"where {guards[0].text}", guards
    return grant, words, why
