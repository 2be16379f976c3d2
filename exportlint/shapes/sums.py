"""Sizes that follow others in every example call, such as those of a mask over past and new tokens.

Two calls tell little: a plain sum of two sizes that vary each in its own way is believed. What has a number in it, such
as one token more, has to hold in three calls of different sizes. Sizes of one tensor, such as its batch and its length,
are not added, and none follows the other: whoever writes calls likes to make all of them larger by the same.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from exportlint.shapes.contract import Ask, Leaf

    Sizes = tuple[int, ...]  # in each example call

FEW = 3  # calls of different sizes that are needed where a number is part of the relation
MOST_VARIABLES = 24  # of a case that are looked into


@dataclass(frozen=True, slots=True)
class Relation:
    """``factor * (sum of the parts) + offset``, with a factor only of one part."""

    parts: tuple[Sizes, ...]
    factor: int = 1
    offset: int = 0


def with_relations(leaves: Iterable[Leaf]) -> tuple[Leaf, ...]:
    """The leaves of an inferred contract, with what follows other sizes said of each dimension."""
    leaves = tuple(leaves)
    names: dict[Sizes, str] = {}
    owners: dict[Sizes, set[int]] = {}
    for leaf in leaves:
        for d, ask in leaf.asked.items():
            if ask.root and not ask.name:
                names.setdefault(_sizes(ask), leaf.name(d))
                owners.setdefault(_sizes(ask), set()).add(leaf.index)
    found = relations(owners)
    return tuple(
        replace(leaf, asked={d: _related(ask, found, names) for d, ask in leaf.asked.items()}) for leaf in leaves
    )


def _sizes(ask: Ask) -> Sizes:
    return tuple(map(int, ask.root.split("/")))


def _related(ask: Ask, found: Mapping[Sizes, Relation], names: Mapping[Sizes, str]) -> Ask:
    relation = found.get(_sizes(ask)) if ask.root and not ask.name else None
    if relation is None:
        return ask
    factor, offset, roots = relation.factor, relation.offset, ["/".join(map(str, part)) for part in relation.parts]
    least = factor * sum(min(2, *part) for part in relation.parts) + offset
    said = " + ".join(names[part] for part in relation.parts)
    said = f"{factor} * {said}" if factor > 1 else f"{said} + {offset}" if offset else said
    if len(roots) > 1:
        return replace(ask, minimum=least, root="", parts=tuple(roots), offset=offset, follows=said)
    return replace(ask, minimum=least, root=roots[0], scale=factor, offset=offset, follows=said)


def relations(owners: Mapping[Sizes, set[int]]) -> dict[Sizes, Relation]:
    """What follows other sizes, by its sizes in the example calls.

    Args:
        owners: The tensors that have a dimension of these sizes.
    """
    found: dict[Sizes, Relation] = {}
    free: list[Sizes] = []
    for sizes in sorted(owners, key=lambda sizes: (sum(sizes), sizes))[:MOST_VARIABLES]:
        relation = next(_candidates(sizes, free, owners), None)
        if relation is None:
            free.append(sizes)
        else:
            found[sizes] = relation
    return found


def _candidates(sizes: Sizes, free: Sequence[Sizes], owners: Mapping[Sizes, set[int]]) -> Iterator[Relation]:
    """The relations of these sizes to those that are free, the plainest first."""
    pairs = [pair for pair in itertools.combinations(free, 2) if not owners[pair[0]] & owners[pair[1]]]
    yield from (Relation(pair) for pair in pairs if _rest(sizes, pair) == {0} and _apart(*pair))
    yield from _of_one(sizes, [other for other in free if not owners[sizes] & owners[other]])
    many = len(set(zip(*free, strict=True))) >= FEW if free else False
    for pair in pairs if many else ():
        rest = _rest(sizes, pair)
        if len(rest) == 1 and min(rest) > 0 and _apart(*pair) and _apart(*map(_steps, pair)):
            yield Relation(pair, offset=min(rest))


def _of_one(sizes: Sizes, free: Sequence[Sizes]) -> Iterator[Relation]:
    """One other size and a number more, or a multiple of it."""
    for other in (other for other in free if len({*other}) >= FEW):
        rest = _rest(sizes, (other,))
        factors = {size / part for size, part in zip(sizes, other, strict=True)} if all(other) else set()
        if len(rest) == 1 and min(rest) > 0:
            yield Relation((other,), offset=min(rest))
        elif len(factors) == 1 and min(factors).is_integer():
            yield Relation((other,), factor=int(min(factors)))


def _rest(sizes: Sizes, parts: tuple[Sizes, ...]) -> set[int]:
    """What is left of the sizes without the parts, in each call."""
    return {size - sum(of_call) for size, *of_call in zip(sizes, *parts, strict=True)}


def _apart(one: Sizes, other: Sizes) -> bool:
    """Whether the calls vary each in its own way, and not by one factor."""
    return any(a * d != b * c for (a, b), (c, d) in itertools.combinations(zip(one, other, strict=True), 2))


def _steps(sizes: Sizes) -> Sizes:
    return tuple(size - sizes[0] for size in sizes)
