"""Sizes that are hints alone, and that the model takes only where they are equal: no program is there to say so."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from exportlint.shapes.contract import Contract
from exportlint.shapes.edges import Asked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from exportlint.shapes.contract import Ask, Leaf
    from exportlint.shapes.edges import Shapes

    Takes = Callable[[Shapes], bool]  # whether the model takes a call of these shapes

MOST = 12  # variables of one size that are looked into


def tied(contract: Contract, takes: Takes) -> Contract:
    """The contract in which sizes that are equal in the example vary together where the model takes no others.

    Only hints are tied, to each other or to a `Dim`.

    Args:
        contract: What is asked.
        takes: Whether the model takes a call.
    """
    asked = Asked(contract)
    same: dict[int, list[str]] = {}
    for key in asked.uses:
        if not asked.of_number(key) and asked.example(key) > 1:
            same.setdefault(asked.example(key), []).append(key)
    for size, keys in same.items():
        hints = [key for key in keys if _is_hint(asked, key)]
        for group in _groups(asked, size, keys[:MOST], takes) if hints and len(keys) > 1 else ():
            contract = _with_group(contract, asked, group)
    return contract


def _is_hint(asked: Asked, key: str) -> bool:
    return not any(ask.varied for _, _, ask in asked.uses[key])


def _groups(asked: Asked, size: int, keys: list[str], takes: Takes) -> Iterator[list[str]]:
    """The smallest sets of variables that may only change together."""

    def may_change(chosen: list[str]) -> bool:
        return takes(asked.shapes(dict.fromkeys(chosen, size + 1)))

    bound = [key for key in keys if not may_change([key])]
    while len(bound) > 1:
        first, *others = bound
        pairs, alike = [[first, other] for other in others], [key for key in bound if _place(asked, key, first)]
        group = next((made for made in (*pairs, alike, bound) if may_change(made)), [first])
        for other in group[1:] if len(group) > 2 else ():
            fewer = [key for key in group if key != other]
            group = fewer if may_change(fewer) else group
        bound = [key for key in bound if key not in group]
        if len(group) > 1:
            yield group


def _place(asked: Asked, key: str, other: str) -> bool:
    """Whether two variables are at one place of their tensors, as batches are."""
    return bool({d for _, d, _ in asked.uses[key]} & {d for _, d, _ in asked.uses[other]})


def _with_group(contract: Contract, asked: Asked, group: list[str]) -> Contract:
    """The contract with these variables as one, in the bounds of all."""
    bounds = [asked.bounds(key) for key in group]
    low, high = max(low for low, _ in bounds), min((high for _, high in bounds if high is not None), default=None)
    root = next((key for key in group if not _is_hint(asked, key)), group[0])
    sizes = {leaf.size(d) for key in group for leaf, d, _ in asked.uses[key]}

    def one(leaf: Leaf, d: int, ask: Ask) -> Ask:
        if leaf.size(d) not in sizes:
            return ask
        least, most = ask.scale * low + ask.offset, None if high is None else ask.scale * high + ask.offset
        return dataclasses.replace(ask, minimum=least, maximum=most, root=ask.root if ask.varied else root)

    return Contract(
        tuple(
            dataclasses.replace(leaf, asked={d: one(leaf, d, ask) for d, ask in leaf.asked.items()})
            for leaf in contract.leaves
        )
    )
