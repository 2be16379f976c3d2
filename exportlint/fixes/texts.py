"""From a fix to the text that it writes into a file."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import libcst as cst

from exportlint.fixes import (
    branches,
    caches,
    calls,
    decisions,
    edits,
    emptiness,
    loops,
    numbers,
    refusals,
    state,
    statements,
    wrappers,
)
from exportlint.fixes.imports import torch_name
from exportlint.fixes.tree import HinderedError, Text, Tree, UnfitError, last_name

if TYPE_CHECKING:
    from collections.abc import Callable


def fitting(tree: Tree, fix: edits.Fix) -> tuple[edits.Fix, tuple[Text, ...]]:
    """A fix, or the first of what is to be done otherwise that fits, and what it writes.

    Raises:
        UnfitError: When nothing fits the code.
    """
    reason: UnfitError | None = None
    each: edits.Fix | None = fix
    while each is not None:
        try:
            return each, texts(tree, each)
        except UnfitError as error:
            reason = error if reason is None or isinstance(error, HinderedError) else reason
            each = each.otherwise
    raise reason or UnfitError("nothing is to be written")


def texts(tree: Tree, fix: edits.Fix) -> tuple[Text, ...]:
    """What a fix itself writes, in the order of the file, without overlaps.

    Raises:
        UnfitError: When it does not fit the code.
    """
    found = sorted({text for edit in fix.edits for text in _HANDLERS[type(edit)](tree, edit)})
    if any(one.end > two.start for one, two in itertools.pairwise(found)):
        raise UnfitError("its parts overlap")
    return tuple(found)


_CONVERTING = ("int", "float", "round", "floor", "ceil", "trunc", "range")


def _called(tree: Tree, edit: edits.Called) -> list[Text]:
    call = tree.find(edit.range, cst.Call)
    outer = tree.parents.get(tree.parents[call])
    if edit.name.startswith("torch.sym_") and isinstance(outer, cst.Call) and last_name(outer.func) in _CONVERTING:
        raise UnfitError("Python makes another number of it at once")
    name, imports = torch_name(tree, edit.name)
    return [*imports, tree.replaced(*tree.span(call.func), name)]


_HANDLERS: dict[type[edits.Edit], Callable[[Tree, Any], list[Text]]] = {
    edits.Keyword: calls.keyword,
    edits.Moved: calls.moved,
    edits.Behind: calls.behind,
    edits.Called: _called,
    edits.OfArgument: calls.of_argument,
    edits.Asserted: statements.asserted,
    edits.Counted: state.counted,
    edits.Answered: calls.answered,
    edits.Tensorial: calls.tensorial,
    edits.Registered: state.registered,
    edits.Listed: state.listed,
    edits.Guarded: statements.guarded,
    edits.Selected: decisions.selected,
    edits.Unasked: emptiness.unasked,
    edits.Raised: refusals.raised,
    edits.Checked: refusals.checked,
    edits.Branched: branches.branched,
    edits.Skipped: decisions.skipped,
    edits.Unread: decisions.unread,
    edits.Lifted: numbers.lifted,
    edits.Stacked: numbers.stacked,
    edits.Hoisted: numbers.hoisted,
    edits.Computed: numbers.computed,
    edits.Followed: numbers.followed,
    edits.Undecorated: caches.undecorated,
    edits.Recomputed: caches.recomputed,
    edits.Unthreaded: wrappers.unthreaded,
    edits.Unwrapped: wrappers.unwrapped,
    edits.Owned: state.owned,
    edits.Copied: state.copied,
    edits.Plain: numbers.plain,
    edits.Vectorised: loops.vectorised,
    edits.Renamed: state.renamed,
    edits.Below: statements.below,
}
