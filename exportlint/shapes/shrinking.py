"""Smaller and plainer calls that still fail, without hypothesis: for calls that it did not draw, or that crash."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch.utils import _pytree as pytree

from exportlint.shapes.contents import NUMBER, kinds_of, sized
from exportlint.shapes.edges import Asked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from exportlint.shapes.contents import Recipe
    from exportlint.shapes.strategies import Space

    Recipes = Mapping[int, Recipe]


@dataclass
class Shrinker:
    """Makes a failing call smaller, dimension by dimension, then its contents plainer.

    Attributes:
        space: Where the calls come from.
        fails: Whether a call still fails in the same way.
        tries: How many calls may be tried.
    """

    space: Space
    fails: Callable[[Recipes], bool]
    tries: int = 40

    def shrink(self, recipes: Recipes) -> Recipes:
        """The smallest call that was found."""
        recipes = self._plainer(recipes)
        asked = Asked(self.space.contract)
        before = None
        while before != recipes and self.tries > 0:
            before = recipes
            values = _values(asked, recipes)
            for keys in _groups(values):
                recipes = self._smaller(asked, recipes, keys)
        return recipes

    def _try(self, candidate: Recipes) -> bool:
        if self.tries <= 0:
            return False
        self.tries -= 1
        return self.fails(candidate)

    def _smaller(self, asked: Asked, recipes: Recipes, keys: tuple[str, ...]) -> Recipes:
        """Halve the distance to the smallest value of these variables, as long as the call fails."""
        values = _values(asked, recipes)
        low, high = max(asked.bounds(key)[0] for key in keys), max(values.get(key, 0) for key in keys)
        guess = low  # the smallest first
        while low < high and self.tries > 0:
            shapes = _reshaped(asked, recipes, dict.fromkeys(keys, guess))
            candidate = {index: sized(made, shapes[index]) for index, made in recipes.items()}
            if self._try(candidate):
                recipes, high = candidate, guess
            else:
                low = guess + 1
            guess = (low + high) // 2
        return recipes

    def _plainer(self, recipes: Recipes) -> Recipes:
        """All tensors plain at once, else one after the other: the layout first, then the contents."""
        flat = pytree.tree_leaves(self.space.example)
        tensors = [index for index, made in recipes.items() if made.kind != NUMBER]
        kinds = {index: kinds_of(flat[index], self.space.domains.get(index))[0] for index in tensors}
        straight: dict[int, dict[str, Any]] = {i: {"layout": "contiguous"} for i in tensors}
        simple: dict[int, dict[str, Any]] = {i: {"kind": kinds[i], "seed": 0} for i in tensors}
        plain = {**recipes, **{i: dataclasses.replace(recipes[i], **straight[i], **simple[i]) for i in tensors}}
        if plain == recipes or self._try(plain):
            return plain
        for changes in (straight, simple):
            for index, change in changes.items():
                made = dataclasses.replace(recipes[index], **change)
                if made != recipes[index] and self._try({**recipes, index: made}):
                    recipes = {**recipes, index: made}
        return recipes


def _values(asked: Asked, recipes: Recipes) -> dict[str, int]:
    """The value of each variable in a call."""
    found = {}
    for key, uses in asked.uses.items():
        made = [(recipes[leaf.index], d, ask) for leaf, d, ask in uses if leaf.index in recipes]
        if made:
            recipe, d, ask = made[0]
            found[key] = (recipe.shape[d] - ask.offset) // ask.scale
    return found


def _groups(values: Mapping[str, int]) -> Iterator[tuple[str, ...]]:
    """Variables of one value together, since the model may want them equal, then each alone."""
    by_value: dict[int, list[str]] = {}
    for key, value in values.items():
        by_value.setdefault(value, []).append(key)
    yield from (tuple(keys) for keys in by_value.values() if len(keys) > 1)
    yield from ((key,) for key in values)


def _reshaped(asked: Asked, recipes: Recipes, values: Mapping[str, int]) -> dict[int, tuple[int, ...]]:
    """The shapes of a call in which some variables have other values."""
    shapes = {index: list(made.shape) for index, made in recipes.items()}
    for key, value in values.items():
        for leaf, d, ask in asked.uses[key]:
            if leaf.index in shapes:
                shapes[leaf.index][d] = ask.scale * value + ask.offset
    return {index: tuple(shape) for index, shape in shapes.items()}
