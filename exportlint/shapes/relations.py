"""Dimensions that follow one number: in the contract, in the program, or by what its guards want of them.

The contract says of dimensions that they are linear in a `Dim`, the program that they are linear in its symbols. Both
hold, so everything that is linked by either is linear in one of them. What must be whole, and what guards of
divisibility want, leaves every k-th value of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from exportlint.shapes.contract import HINT_MIN
from exportlint.shapes.edges import holds
from exportlint.shapes.kinds import kind_of
from exportlint.shapes.linear import Linear, linear_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from exportlint.shapes.contract import Ask, Contract, Granted, Leaf
    from exportlint.torch_hooks.guards import Guard

    Node = tuple[str, Any]  # a size by torch's words, a name of the contract, or a symbol of the program
    Bounds = tuple[int, int | None]

PROBES = 4  # multiples for which a guard of divisibility is asked whether it holds
MOST_STEP = 10_000  # the largest multiple that is looked for

SAME = Linear(Fraction(1), Fraction(0))


@dataclass(frozen=True, slots=True)
class Group:
    """Dimensions that follow one number, the root.

    Attributes:
        name: The name of the root: that of a `Dim` of the contract, with the step behind it where it is another.
        start: The root in the example.
        sizes: Each dimension, by torch's words for it, in terms of the root; whole numbers.
        bounds: Smallest and largest root; ``None`` for no limit.
        lower: Whether the smallest root is asked for, or follows from the program.
    """

    name: str
    start: int
    sizes: Mapping[str, Linear]
    bounds: Bounds
    lower: bool

    @property
    def rising(self) -> bool:
        """Whether all dimensions grow with the root, as torch wants of a derived `Dim`."""
        return all(linear.scale > 0 for linear in self.sizes.values())


class Relations:
    """What links the dimensions of a contract.

    Args:
        contract: What is asked.
        grants: What the program grants.
        guards: Its guards.
    """

    def __init__(self, contract: Contract, grants: Granted, guards: Iterable[Guard]) -> None:
        self._grants = grants
        self._asked = contract.asked
        self._links: dict[Node, list[tuple[Node, Linear]]] = {}  # of each node: others, in terms of it
        self._numbers: dict[Node, Fraction] = {}  # in the example
        live = (guard for guard in guards if not guard.deferred)
        kinds = [(guard, kind_of(guard)) for guard in live]
        self._guards = [guard for guard, kind in kinds if kind in ("divisible", "bound")]
        self._apart = [guard for guard, kind in kinds if kind in ("apart", "unequal")]
        for leaf, d, ask in self._asked:
            size = grants.of(leaf, d)
            if getattr(size, "free_symbols", None):
                self._link_size(leaf, d, ask, size)

    def _link_size(self, leaf: Leaf, d: int, ask: Ask, size: Any) -> None:
        node = ("size", leaf.size(d))
        self._numbers[node] = Fraction(leaf.shape[d])
        if ask.name:
            self._link(node, ("name", ask.variable), Linear(Fraction(ask.scale), Fraction(ask.offset)))
        linear = linear_in(size)
        if linear is not None:
            self._link(node, ("symbol", linear[0]), linear[1])

    def _link(self, node: Node, other: Node, linear: Linear) -> None:
        """Note that a node is linear in another one, unless the example contradicts it."""
        number = linear.inverse()(self._numbers[node])
        if number.denominator != 1 or self._numbers.setdefault(other, number) != number:
            return
        self._links.setdefault(node, []).append((other, linear.inverse()))
        self._links.setdefault(other, []).append((node, linear))

    def groups(self) -> Iterator[Group]:
        """The dimensions that have a name, or are linked to one that has, in the order of the contract."""
        done: set[Node] = set()
        for node in [node for node in self._links if node[0] == "name"]:
            if node in done:
                continue
            nodes = self._reached(node)
            done |= nodes.keys()
            if self._agree(nodes):
                names = [other for other in self._links if other in nodes and other[0] == "name"]
                # torch takes no difference without an upper bound: the smallest is the root, where it has a name.
                yield min((self._group(name) for name in names), key=lambda made: (made[0], _falls_short(made[1])))[1]

    def _agree(self, nodes: Mapping[Node, Linear]) -> bool:
        """Whether no two ways lead to different values: what is linked in two ways has one size left."""
        return all(linear.of(nodes[node]) == nodes[other] for node in nodes for other, linear in self._links[node])

    def _reached(self, base: Node) -> dict[Node, Linear]:
        """Every node that is linked to this one, in terms of it."""
        found, todo = {base: SAME}, [base]
        while todo:
            node = todo.pop()
            for other, linear in self._links.get(node, ()):
                if other not in found:
                    found[other] = linear.of(found[node])
                    todo.append(other)
        return found

    def _group(self, base: Node) -> tuple[int, Group]:
        """The group in terms of a name, and how far its values are from each other."""
        nodes, start = self._reached(base), self._numbers[base]
        step = self._step(nodes, start)
        root = math.floor(start / step)
        rest = start - step * root
        if root < HINT_MIN and rest:  # torch takes a root of 1 for a constant
            root, rest = root + 1, rest - step
        sizes = {
            node[1]: linear.of(Linear(Fraction(step), rest)) for node, linear in nodes.items() if node[0] == "size"
        }
        if root < HINT_MIN and len(sizes) > 1:  # else only hints remain, in which relations are lost
            by = HINT_MIN - root
            root += by
            sizes = {words: Linear(size.scale, size.offset - by * size.scale) for words, size in sizes.items()}
        plain = step == 1 and root == start
        bounds, lower = self._bounds(sizes)
        return step, Group(base[1] if plain else f"{base[1]}_{step}", root, sizes, bounds, lower)

    def _step(self, nodes: Mapping[Node, Linear], start: Fraction) -> int:
        """How far apart the values of the base are for which all nodes are whole and all guards hold."""
        step = math.lcm(*(linear.scale.denominator for linear in nodes.values()))
        for guard in self._guards:
            sources = {source: nodes.get(("size", source)) for source in guard.sources.values()}
            linear = {source: found for source, found in sources.items() if found is not None}
            if len(linear) == len(sources) == len(guard.expression.free_symbols):
                step = _step_of(guard, linear, start, step)
        return step

    def _bounds(self, sizes: Mapping[str, Linear]) -> tuple[Bounds, bool]:
        lows, highs = [0], []
        for leaf, d, ask in self._asked:
            linear = sizes.get(leaf.size(d))
            if linear is None or linear.scale < 0:
                continue
            least, most = self.range_of(leaf, d, ask)
            told = least > max(ask.scale + ask.offset, 1)  # more than follows from a root of 1
            if told or linear.offset < 0:
                lows.append(math.ceil((least - linear.offset) / linear.scale))
            highs += [math.floor((most - linear.offset) / linear.scale)] if most is not None else []
        return (max(lows), min(highs, default=None)), max(lows) > 0

    def past_apart(self, group: Group) -> Group:
        """The group with a root for which no part has a size that is told apart."""
        low, high = group.bounds
        for root in range(low, low + PROBES + 1):
            call = {words: int(linear(root)) for words, linear in group.sizes.items()}
            if not any(holds(guard, call) is False for guard in self._apart):
                return replace(group, bounds=(root, high), lower=group.lower or root > low)
        return group

    def range_of(self, leaf: Leaf, d: int, ask: Ask) -> Bounds:
        """The sizes of a dimension that are asked for and granted; what torch assumes of every size does not count."""
        found = [(ask.minimum, ask.maximum), _granted_range(self._grants, self._grants.of(leaf, d))]
        return max(low for low, _ in found), min((high for _, high in found if high is not None), default=None)


def _falls_short(group: Group) -> bool:
    """Whether a dimension is smaller than its multiple of the root."""
    return any(linear.offset < 0 for linear in group.sizes.values())


def _granted_range(grants: Granted, size: Any) -> Bounds:
    own, linear = grants.ranges.get(size, (0, None)), linear_in(size)
    if linear is None:
        return 0, own[1]
    symbol, form = linear
    low, high = grants.ranges.get(symbol, (0, None))
    if form.scale < 0:
        return 0, own[1]
    highs = [own[1], None if high is None else int(form(high))]
    return int(form(low)) if low > HINT_MIN else 0, min((n for n in highs if n is not None), default=None)


def _step_of(guard: Guard, sizes: Mapping[str, Linear], start: Fraction, step: int) -> int:
    """The smallest multiple of the step with which the guard goes on holding; the step itself where there is none."""
    numbers = [int(n) for n in guard.expression.atoms() if getattr(n, "is_Integer", False) and int(n) > 1]
    most = min(math.lcm(*numbers), MOST_STEP)
    for factor in (k for k in range(1, most + 1) if most % k == 0):
        values = (start + step * factor * n for n in range(PROBES + 1))
        calls = ({words: int(linear(value)) for words, linear in sizes.items()} for value in values)
        if all(holds(guard, call) is True for call in calls):
            return step * factor
    return step
