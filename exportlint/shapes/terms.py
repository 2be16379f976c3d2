"""Asked versus granted: for each dimension that should be dynamic, what the program makes of it, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from exportlint.shapes import conditions
from exportlint.shapes.contract import HINT_MIN, between
from exportlint.shapes.edges import Asked, holds
from exportlint.shapes.kinds import kind_of, merged
from exportlint.text import listed

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


def terms(contract: Contract, granted: Granted, guards: Sequence[Guard]) -> list[Term]:
    """One term for each dimension that is asked to be dynamic."""
    asked = Asked(contract)
    by_symbol: dict[Any, dict[str, str]] = {}
    for key, uses in asked.uses.items():
        for leaf, d, _ in uses:
            size = granted.of(leaf, d)
            if getattr(size, "is_Symbol", False):
                by_symbol.setdefault(size, {})[leaf.name(d)] = key
    shared = {size: names for size, names in by_symbol.items() if len(set(names.values())) > 1}
    found = _Terms(contract, granted, guards, shared)
    return [found.term(leaf, d, ask) for leaf, d, ask in contract.asked]


class _Terms:
    """Compares what is asked of a dimension with what is granted."""

    def __init__(
        self, contract: Contract, grants: Granted, guards: Sequence[Guard], shared: dict[Any, dict[str, str]]
    ) -> None:
        """`shared`: the sizes that several may not differ in, each with their names and what they vary with."""
        self._granted, self._shared = grants, shared
        self._guards = [guard for guard in guards if not guard.deferred]
        self._sizes = {leaf.size(d): grants.of(leaf, d) for leaf in contract.leaves for d in range(len(leaf.shape))}
        self._merged = merged(self._guards)
        self._pinned = [g for g in self._guards if kind_of(g) == "pinned" and len(g.sources) == 1]
        self._names = _names(contract, grants, guards)
        plain = [(leaf, d, ask) for leaf, d, ask in contract.asked if ask.root and (ask.scale, ask.offset) == (1, 0)]
        self._roots = {ask.root: grants.of(leaf, d) for leaf, d, ask in plain}

    def term(self, leaf: Leaf, d: int, ask: Ask) -> Term:
        """The term of one dimension."""
        about = [(g, kind_of(g)) for g in self._guards if leaf.size(d) in conditions.sizes_of(g)]
        # What pins a size pins all that are equal to it; the lines that make them equal are innocent.
        pins = [g for g in self._pinned if self._one(leaf.size(d)) == self._one(*g.sources.values())]
        about += [(g, "pinned") for g in pins if leaf.size(d) not in g.sources.values()]

        def of(*kinds: str) -> tuple[Guard, ...]:
            return tuple(sorted((g for g, kind in about if kind in kinds), key=conditions.obscurity))

        if ask.follows and self._follows(leaf, d, ask):
            return Term(leaf, d, ask, "as asked", "as asked")
        return Term(leaf, d, ask, *self._grant(leaf.name(d), self._granted.of(leaf, d), ask, of))

    def _one(self, source: str) -> str:
        """One of the sizes that guards make equal to this one."""
        return self._merged.get(source, source)

    def _follows(self, leaf: Leaf, d: int, ask: Ask) -> bool:
        """Whether the program has a size follow others as it should."""
        import sympy  # type: ignore[import-untyped]

        parts = [self._roots[part] for part in ask.parts or (ask.root,)]
        return bool(sympy.expand(self._granted.of(leaf, d) - ask.scale * sum(parts) - ask.offset) == 0)

    def _grant(
        self, name: str, size: Any, ask: Ask, of: Callable[..., tuple[Guard, ...]]
    ) -> tuple[Grant, str, tuple[Guard, ...]]:
        """What the program makes of a size, in words, and the guards that narrow it."""
        low, high = self._granted.ranges.get(size, (0, None))
        narrower = low > max(HINT_MIN, ask.minimum) or (
            high is not None and (ask.maximum is None or high < ask.maximum)
        )
        grant: Grant = "as asked"
        words = "as asked"
        why: tuple[Guard, ...] = ()
        if not getattr(size, "free_symbols", None):
            grant, words, why = "constant", f"the constant {int(size)}", of("pinned") or of("bound", "equal")
        elif not size.is_Symbol:
            if ask.scale == 1 and not ask.offset:
                grant, words, why = "related", self._in_words(size), of("bound", "equal", "divisible")
        elif size in self._shared:
            grant, words, why = "equal", f"the same as {self._others(name, size)}", of("equal", "bound")
            words = f"{words}, {between(low, high)}" if narrower else words
        elif narrower:
            words = between(low, _largest(of("unequal", "apart"), low, high))
            grant, why = "range", of("bounded", "unequal", "counted", "apart")
            if guards := self._left(of("pinned", "counted", "divisible")):  # a range is all that torch keeps of these
                words, why = f"{words} where {conditions.words(guards[0])}", guards
        elif guards := self._left(of("divisible")):
            pins = self._left(of("pinned"))[:1]  # such as that of its root, which leaves some sizes
            said = " and ".join(conditions.words(guard) for guard in (guards[0], *pins))
            grant, words, why = "divisible", f"where {said}", (*guards, *pins)
        elif guards := self._left(of("pinned") or of("bound", "counted", "unequal", "apart")):
            grant, words, why = "bound", f"where {conditions.words(guards[0])}", guards
        return grant, words, why

    def _left(self, guards: tuple[Guard, ...]) -> tuple[Guard, ...]:
        """The guards that do not hold anyway for the sizes that are granted."""
        return tuple(guard for guard in guards if not conditions.always(self._granted_in(guard)))

    def _granted_in(self, guard: Guard) -> Any:
        """The condition in terms of what is granted: constants, and sizes that follow others, are put in."""
        symbols = {str(symbol): symbol for symbol in guard.expression.free_symbols}
        known = {symbols[name]: self._sizes[source] for name, source in guard.sources.items() if source in self._sizes}
        return guard.expression.subs(known)

    def _others(self, name: str, size: Any) -> str:
        """The sizes that one may not differ from, though it does not vary with them."""
        names = self._shared[size]
        return listed([other for other, key in names.items() if key != names[name]], 3)

    def _in_words(self, size: Any) -> str:
        """An expression of the program in the user's names."""
        if any(str(symbol) not in self._names for symbol in size.free_symbols):
            return "a size that follows from others"
        return re.sub(r"[A-Za-z_]\w*", lambda found: self._names.get(found[0], found[0]), str(size))


def _largest(guards: Sequence[Guard], low: int, high: int | None) -> int | None:
    """The largest size of a range that guards on this size alone do not refuse, as torch tells some sizes apart."""

    def refused(size: int) -> bool:
        return any(holds(guard, dict.fromkeys(guard.sources.values(), size)) is False for guard in alone)

    alone = [guard for guard in guards if len(guard.sources) == 1]
    return None if high is None else next((size for size in range(high, low, -1) if not refused(size)), high)


def _names(contract: Contract, grants: Granted, guards: Sequence[Guard]) -> dict[str, str]:
    """The user's words for the symbols of a program: a size, or the root of a `Dim`."""
    sizes = [(leaf.name(d), grants.of(leaf, d)) for leaf, d, _ in contract.asked]
    names = {str(size): name for name, size in reversed(sizes) if getattr(size, "is_Symbol", False)}
    for guard in guards:
        for symbol, source in guard.sources.items():
            if not source.startswith("L["):  # the root of a derived dimension, which no input has
                names.setdefault(symbol, source)
    return names
