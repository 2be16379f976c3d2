"""Smaller and plainer calls that still fail, without hypothesis: for calls that it did not draw, or that crash."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torch.utils import _pytree as pytree

from exportlint.shapes.contents import KEPT, NUMBER, kinds_of, sized
from exportlint.shapes.edges import Asked
from exportlint.shapes.fitting import Fitting
from exportlint.shapes.strategies import sizes_by_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from exportlint.shapes.contents import Recipe
    from exportlint.shapes.strategies import Space

    Recipes = Mapping[int, Recipe]

FIRST = 3  # of the smallest sizes, that are all tried


@dataclass
class Shrinker:
    """Makes the contents of a failing call plainer, where all can be, then its sizes smaller, then each tensor plainer.

    Attributes:
        space: Where the calls come from.
        fails: Whether a call still fails in the same way.
        tries: How many calls may be tried.
        fits: Guards that the model has itself: what violates them need not be tried.
    """

    space: Space
    fails: Callable[[Recipes], bool]
    tries: int = 40
    fits: Fitting = field(default_factory=Fitting)

    def shrink(self, recipes: Recipes) -> Recipes:
        """The smallest call that was found."""
        recipes = self._all_plain(recipes)
        before = None
        while before != recipes and self.tries > 0:
            before = recipes
            recipes = self._each_plain(self._small(recipes))
        return recipes

    def _small(self, recipes: Recipes) -> Recipes:
        """All sizes as small as they can be."""
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
        """The smallest values of these variables first, then half the distance, as long as the call fails."""
        values = _values(asked, recipes)
        low, high = max(asked.bounds(key)[0] for key in keys), max(values.get(key, 0) for key in keys)
        first = FIRST  # a failure may come back at small sizes, such as at every multiple
        while low < high and self.tries > 0:
            guess = low if first > 0 else (low + high) // 2
            first -= 1
            made = ((n, _reshaped(asked, recipes, dict.fromkeys(keys, n))) for n in range(guess, high))
            value, shapes = next((pair for pair in made if self._fits(pair[1])), (high, None))
            if shapes is None:
                high = guess
                continue
            candidate = {index: sized(made, shapes[index]) for index, made in recipes.items()}
            if self._try(candidate):
                recipes, high = candidate, value
            else:
                low = value + 1
        return recipes

    def _fits(self, shapes: Mapping[int, tuple[int, ...]]) -> bool:
        leaves = tuple(leaf for leaf in self.space.contract.leaves if leaf.index in shapes)
        return not self.fits or self.fits.holds(sizes_by_words(leaves, shapes))

    def _all_plain(self, recipes: Recipes) -> Recipes:
        """All tensors plain at once, or as they are in the plainest layout."""
        straight = {i: dataclasses.replace(made, layout="contiguous") for i, made in recipes.items()}
        plainest = {i: next(self._plainer(i, made), made) for i, made in straight.items()}
        return next((plain for plain in (plainest, straight) if plain == recipes or self._try(plain)), recipes)

    def _each_plain(self, recipes: Recipes) -> Recipes:
        """One tensor after the other: the layout first, then the contents."""
        for index, kept in recipes.items():
            made = dataclasses.replace(kept, layout="contiguous")
            if made != kept and self._try({**recipes, index: made}):
                recipes = {**recipes, index: made}
            for plain in self._plainer(index, recipes[index]):
                if self._try({**recipes, index: plain}):
                    recipes = {**recipes, index: plain}
                    break
        return recipes

    def _plainer(self, index: int, made: Recipe) -> Iterator[Recipe]:
        """The tensor with plainer contents, the plainest first."""
        if made.kind in (NUMBER, KEPT):
            return
        like = pytree.tree_leaves(self.space.example)[index]
        kinds = kinds_of(like, self.space.domains.get(index))
        for kind in kinds[: kinds.index(made.kind) + 1]:
            plain = dataclasses.replace(made, kind=kind, seed=0)
            if plain != made:
                yield plain


def _values(asked: Asked, recipes: Recipes) -> dict[str, int]:
    """The value of each variable in a call."""
    return asked.values({index: made.shape for index, made in recipes.items()})


def _groups(values: Mapping[str, int]) -> Iterator[tuple[str, ...]]:
    """Variables of one value together, since the model may want them equal, then each alone."""
    by_value: dict[int, list[str]] = {}
    for key, value in values.items():
        by_value.setdefault(value, []).append(key)
    yield from (tuple(keys) for keys in by_value.values() if len(keys) > 1)
    yield from ((key,) for key in values)


def _reshaped(asked: Asked, recipes: Recipes, values: Mapping[str, int]) -> dict[int, tuple[int, ...]]:
    """The shapes of a call in which some variables have other values."""
    return asked.changed({index: made.shape for index, made in recipes.items()}, values)
