"""Other values for the same sizes, until each branch of the user's source was taken both ways in eager calls."""

from __future__ import annotations

import contextlib
import inspect
import itertools
from typing import TYPE_CHECKING

from torch.utils import _pytree as pytree

from exportlint import places
from exportlint.checks.context import fresh
from exportlint.checks.shapes.trials import Trial
from exportlint.shapes.contents import BOOLEAN_KINDS, kinds_of
from exportlint.shapes.contract import names_of_leaves, same_structure
from exportlint.shapes.strategies import plain
from exportlint.text import counted, listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from exportlint.checks.case import Inputs
    from exportlint.checks.shapes.branches import Branches
    from exportlint.checks.shapes.trials import Subject
    from exportlint.shapes.strategies import Drawn, Space

MOST_LISTED = 5
MASKS = ("empty", "full", "empty row", "full row", "left padded", "right padded", "single")


class Values:
    """Calls of the example's sizes with other contents.

    Args:
        subject: The program and its model.
        space: Where contents come from.
        most: How many calls may be made, beside those with masks of one kind: twice as many.
    """

    def __init__(self, subject: Subject, space: Space, most: int) -> None:
        self._subject, self._space, self._most = subject, space, most
        self.count = 0

    def trials(self) -> Iterator[Trial]:
        """The calls: masks of one kind, opposite signs, then contents of each kind; fewer where no branch is open."""
        yield from itertools.islice(self._masks(), 2 * self._most)
        for trial in itertools.islice(self._candidates(), self._most):
            self.count += 1
            yield trial

    def _masks(self) -> Iterator[Trial]:
        if self._has_masks():
            yield from (Trial.of(self._all_of(kind)) for kind in MASKS)

    def _candidates(self) -> Iterator[Trial]:
        with contextlib.suppress(NotImplementedError):  # a type without a negative
            opposite = self._opposite()
            if opposite is not None:
                yield self._subject.given(opposite, "of opposite sign")
        for kind in ("zeros", "large", "small", "negative", "duplicates", "smallest", "largest"):
            if self._subject.branches.settled:
                return
            yield Trial.of(self._all_of(kind))
        for seed in range(1, self._most):
            if self._subject.branches.settled:
                return
            yield Trial.of(self._all_of("random", seed))

    def _opposite(self) -> Inputs | None:
        """The example with all floating-point values negated, where there are any that may be negative."""
        flat, spec = pytree.tree_flatten(fresh(self._subject.example))
        changed = False
        for leaf in self._space.contract.tensors:
            tensor: torch.Tensor = flat[leaf.index]
            domain = self._space.domains.get(leaf.index)
            if tensor.is_floating_point() and (domain is None or not domain.firm):
                flat[leaf.index], changed = (-tensor.detach()).requires_grad_(tensor.requires_grad), True
        return pytree.tree_unflatten(flat, spec) if changed else None

    def _has_masks(self) -> bool:
        flat = pytree.tree_leaves(self._subject.example)
        tensors = self._space.contract.tensors
        return any(kinds_of(flat[f.index], self._space.domains.get(f.index)) == BOOLEAN_KINDS for f in tensors)

    def _all_of(self, kind: str, seed: int = 0) -> Drawn:
        """A call of the example's sizes in which each tensor that can be is of one kind, the others plain."""
        shapes = {leaf.index: leaf.shape for leaf in self._space.contract.leaves}

        def choose(kinds: tuple[str, ...], layouts: tuple[str, ...]) -> tuple[str, int, str]:
            return (kind, seed, layouts[0]) if kind in kinds else plain(seed, kinds, layouts)

        return self._space.call(shapes, choose)


def one_way(branches: Branches) -> list[str]:
    """A note on the branches that were never taken one way; none where there are none."""
    found = [f"{places.display_path(place.file)}:{place.line} ({way})" for place, way in branches.one_way()]
    if not found:
        return []
    return [f"branches that were taken one way only in {counted(branches.calls, 'call')}: {listed(found, MOST_LISTED)}"]


def held(subject: Subject) -> Iterator[tuple[str, Trial]]:
    """Of each Python number that is not dynamic its name with its value, and a call with another number."""
    flat, spec = pytree.tree_flatten(subject.example)
    dynamic = {leaf.index for leaf in subject.contract.leaves}
    words = names_of_leaves(subject.model, subject.example)
    for i, value in enumerate(flat):
        if isinstance(value, (bool, int, float)) and i not in dynamic:
            other = (not value) if isinstance(value, bool) else value + 1
            changed = pytree.tree_unflatten([*flat[:i], other, *flat[i + 1 :]], spec)
            name = f"{words[i]} = {value!r}"
            yield name, subject.given(changed, f"{words[i]} = {other!r} instead of {value!r}", inside=False)


def others(subject: Subject) -> Iterator[Trial]:
    """Calls that the program does not hold for: an optional argument left out, another structure."""
    args, kwargs = subject.example
    for name in _optional(subject.model):
        if name in kwargs:
            left = (args, {key: value for key, value in kwargs.items() if key != name})
            yield Trial(left, f"the example without {name}", {}, inside=False)
    for inputs in subject.ctx.further_examples():
        if not same_structure(inputs, subject.example):
            yield Trial(inputs, "an example call of another structure", {}, inside=False)


def _optional(model: torch.nn.Module) -> set[str]:
    """The parameters of forward that may be left out."""
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return set()
    return {p.name for p in parameters if p.default is not inspect.Parameter.empty}
