"""How far the sizes that were tried reach into the ranges that were asked for, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.shapes.edges import Asked
from exportlint.text import listed

if TYPE_CHECKING:
    from exportlint.checks.shapes.trials import Subject
    from exportlint.shapes.contract import Ask, Leaf
    from exportlint.shapes.strategies import Space

MOST_LISTED = 5


def notes(subject: Subject, space: Space, *, late: bool) -> list[str]:
    """The sizes that were not tried though they are asked for.

    Args:
        subject: What was tried.
        space: Where it was drawn from.
        late: Whether the time for the search was over.
    """
    firsts = [uses[0] for uses in Asked(space.contract).uses.values()]
    free = [use for use in firsts if getattr(space.grants.of(use[0], use[1]), "free_symbols", None)]
    found = [note for use in free if (note := _of_declared(subject, space, *use, late=late))]
    endless = [(leaf.name(d), _largest(subject, leaf, d)) for leaf, d, ask in free if ask.maximum is None]
    if endless:
        said = listed([f"{name} up to {largest}" for name, largest in endless], MOST_LISTED)
        found.append(f"no maximum is declared of some sizes, which were tried so far: {said}")
    return found


def _largest(subject: Subject, leaf: Leaf, d: int) -> int:
    return subject.largest.get(leaf.size(d), leaf.shape[d])


def _of_declared(subject: Subject, space: Space, leaf: Leaf, d: int, ask: Ask, *, late: bool) -> str | None:
    """What was not tried of a dimension with a declared maximum, and why."""
    largest = _largest(subject, leaf, d)
    if ask.maximum is None or largest >= ask.maximum:
        return None
    edge = space.shapes({key: edge for key, (_, _, edge) in space.variables().items()})[leaf.index][d]
    if subject.no_room.get(leaf.size(d), 0) > largest:
        why = "larger calls take more memory than there is"
    elif subject.too_large.get(leaf.size(d), 0) > largest:
        why = "the eager model refuses larger calls"
    elif edge < ask.maximum:
        limit = "take too much memory" if subject.scarce == "memory" else "take more than two seconds"
        why = f"larger calls {limit}"
    else:
        why = "the time was over" if late else "no larger call was drawn"
    return f"sizes of {leaf.name(d)} above {largest} of the declared {ask.maximum} were not tried: {why}"
