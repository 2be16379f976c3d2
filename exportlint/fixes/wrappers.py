"""Pools and wrappers, left out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from exportlint.fixes.blocks import assigned, in_place_of, lines_of, names_in
from exportlint.fixes.tree import Text, Tree, UnfitError, last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.fixes.edits import Unthreaded, Unwrapped


def unthreaded(tree: Tree, edit: Unthreaded) -> list[Text]:
    """What a pool of threads maps, by Python's own ``map``."""
    call = tree.find(edit.range, cst.Call)
    node = tree.around(call, cst.With)
    item = node.items[0]
    named = item.asname.name if item.asname is not None else None
    if len(node.items) != 1 or item.item is not call or not isinstance(named, cst.Name):
        raise UnfitError("the pool has no name in a block of its own")
    function = tree.around(node, cst.FunctionDef)
    for each in names_in(tree, function):
        outer = tree.parents[each]
        mapped = isinstance(outer, cst.Attribute) and outer.attr.value == "map"
        if each.value == named.value and each is not named and not mapped:
            raise UnfitError("the pool does more than mapping")
    lines = lines_of(tree, node.body, tree.span(named)[1])
    pool = re.compile(rf"\b{re.escape(named.value)}\.map\(")
    return [in_place_of(tree, node, [pool.sub("map(", line) for line in lines])]


def unwrapped(tree: Tree, edit: Unwrapped) -> list[Text]:
    """The state dict of the module in a wrapper, which is bound in the function that saves or in one that calls it."""
    save = tree.find(edit.range, cst.Call)
    function = tree.around(save, cst.FunctionDef)
    found = [each for each in _saved(tree, function) if _is_wrapper(tree, function, each)]
    found = found or list(_handed_on(tree, function))
    if not found:
        raise UnfitError("where the wrapper is made is not known")
    ends = {tree.span(each)[1] for each in found}
    return [Text(end, end, ".module") for end in sorted(ends)]


def _saved(tree: Tree, function: cst.FunctionDef) -> list[cst.Name]:
    """The variables whose state dict a function asks for."""
    calls = [each.func for each in tree.inside(function, cst.Call) if last_name(each.func) == "state_dict"]
    return [f.value for f in calls if isinstance(f, cst.Attribute) and isinstance(f.value, cst.Name)]


def _is_wrapper(tree: Tree, function: cst.FunctionDef, name: cst.Name) -> bool:
    """Whether a variable is bound in a function, once and to a wrapper for several devices."""
    bound = [a for a in tree.inside(function, cst.Assign) if _binds(a, name.value)]
    value = bound[0].value if len(bound) == 1 else None
    return isinstance(value, cst.Call) and last_name(value.func) in ("DataParallel", "DistributedDataParallel")


def _binds(assign: cst.Assign, name: str) -> bool:
    try:
        return assigned(assign)[0].value == name
    except UnfitError:
        return False


def _handed_on(tree: Tree, function: cst.FunctionDef) -> Iterator[cst.Name]:
    """The wrappers that callers hand to a function for a parameter whose state dict it saves."""
    names = [param.name.value for param in function.params.params]
    places = [names.index(each.value) for each in _saved(tree, function) if each.value in names]
    for outer in tree.module.body:
        if not isinstance(outer, cst.FunctionDef):
            continue
        tree.enter(outer)
        for call in tree.inside(outer, cst.Call):
            if last_name(call.func) != function.name.value or not isinstance(call.func, cst.Name):
                continue
            given = [arg.value for i, arg in enumerate(call.args) if i in places and arg.keyword is None]
            yield from (g for g in given if isinstance(g, cst.Name) and _is_wrapper(tree, outer, g))
