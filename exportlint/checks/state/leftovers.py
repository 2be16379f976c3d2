"""Tensors without data that a capture leaves behind in the eager model and in the code around it.

What keeps them is found and put back, so that later calls in the process are not harmed.
"""

from __future__ import annotations

import functools
import gc
import inspect
import os
import sys
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from exportlint import blame, places
from exportlint.checks.state import writes
from exportlint.checks.state.holders import (
    CONTAINERS,
    MAX_DEPTH,
    elements,
    functions_in,
    python_modules,
    users_classes,
    users_module,
)
from exportlint.checks.state.python_state import Slot, Snapshot, slots
from exportlint.parity.compare import is_fake
from exportlint.places import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import nn

    from exportlint.findings import Finding

    Receiver = Callable[[str | None], bool]

RULE = "EXP503"
Line = tuple[str, int]


class Watch:
    """Looks for what a capture leaves behind: made before it, asked after it."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.before = Snapshot(model)

    def findings(self, again: Callable[[], Any]) -> list[Finding]:
        """A finding for each name that holds a tensor without data; those that outlive the model get their values back.

        Args:
            again: Calls the model once more. Where that works, and returns data, no harm was done and nothing is found.
        """
        held = [(slot, value) for slot, value in slots(self.model) if holds_fake(value)]
        cached = list(self._cached())
        found: list[Finding] = []
        harm = _harm(again) if held or cached else None
        if harm is not None:
            kept = {slot.key: value for slot, value in slots(self.model)}
            met = [slot for slot, value in held if kept.get(slot.key) is value]
            found = [_finding(slot, harm) for slot in met or [slot for slot, _ in held]]
            found += [_of_cache(name, function, harm) for name, function in cached]
        self.before.restore(slot for slot, _ in held if slot.outlives)
        for _, function in cached:
            function.cache_clear()
        return found

    def _cached(self) -> Iterator[tuple[str, Any]]:
        """Functions with a cache in which such a tensor lies."""
        for name, function in _cached_functions(self.model):
            if any(holds_fake(value) for value in gc.get_referents(function)):
                yield name, function


def _harm(again: Callable[[], Any]) -> str | None:
    """What is wrong with a call, in words: it fails, or returns a tensor without data."""
    try:
        leaves = pytree.tree_leaves(again())
    except Exception as error:
        return f"the next eager call fails: {blame.words(error)}"
    without = any(isinstance(leaf, torch.Tensor) and is_fake(leaf) for leaf in leaves)
    return "the next eager call returns a tensor without data" if without else None


def _of_cache(name: str, function: Any, harm: str) -> Finding:
    message = f"the cache of {name} keeps a tensor without data after the capture"
    return blame.finding(RULE, message, _definition(function), outcome="silent", evidence=harm)


def holds_fake(value: Any, depth: int = 0) -> bool:
    """Whether the value is a tensor without data, or a container of one."""
    if isinstance(value, torch.Tensor):
        return is_fake(value)
    if depth >= MAX_DEPTH or not isinstance(value, CONTAINERS):
        return False
    return any(holds_fake(item, depth + 1) for item in elements(value))


def _finding(slot: Slot, harm: str) -> Finding:
    message = f"{slot.words} keeps a tensor without data after the capture"
    return blame.finding(RULE, message, line_of(slot), outcome="silent", evidence=harm)


def line_of(slot: Slot, executed: list[tuple[str, int]] | None = None) -> Place | None:
    """The line that writes the slot: among the lines that ran where they are known, else in the owner's files."""
    executed = executed or []
    if isinstance(slot.owner, FunctionType) and slot.bare:  # elsewhere the name may mean anything
        code = slot.owner.__code__
        scope = writes.scope_of(code.co_filename, code.co_firstlineno, whole=slot.kind == "closure")
        executed = [(file, line) for file, line in executed if file == code.co_filename and line in scope]
    found = lines_that_write(slot, executed[::-1])
    return found[0] if found else writes.line_of(slot.name, executed, _files_of(slot), bare=slot.bare)


def lines_that_write(slot: Slot, executed: list[tuple[str, int]]) -> list[Place]:
    """The lines that write the slot and nothing else of its name, as far as can be told, in the order given.

    Args:
        slot: Any.
        executed: Lines that ran.
    """
    for lines, receiver in _where(slot, [(os.path.realpath(file), line) for file, line in executed]):
        found = writes.lines_that_write(slot.name, lines, bare=slot.kind == "global", receiver=receiver)
        if found:
            return found
    return []


def _where(slot: Slot, ran: list[Line]) -> Iterator[tuple[list[Line], Receiver | None]]:
    """Where to look for what writes a slot, and through which names, the surest first.

    Objects of other classes may have an attribute of the same name, which their methods write through ``self``.
    """
    owner = slot.owner
    if slot.kind == "global":
        yield [place for place in ran if place[0] == os.path.realpath(owner.__file__)], None
        return
    if slot.kind in ("class attribute", "function attribute"):
        yield ran, lambda name: name == owner.__name__
    if isinstance(owner, FunctionType):
        return
    own = _lines_of_methods(owner)
    inside = [place for place in ran if place in own]
    if slot.shared:
        yield inside, None
        return
    yield inside, _is_self
    yield inside, None
    yield [place for place in ran if place not in own], lambda name: not _is_self(name)
    yield sorted(own, reverse=True), _is_self  # it did not run in the call whose lines are known


def _is_self(name: str | None) -> bool:
    return name == "self"


def _lines_of_methods(owner: Any) -> set[Line]:
    """The lines of the methods of a class, or of an object, and of its bases."""
    classes = owner.__mro__ if isinstance(owner, type) else type(owner).__mro__
    lines: set[Line] = set()
    for held in [held for cls in classes if users_module(cls.__module__) for held in vars(cls).values()]:
        for function in functions_in(held):
            lines.update(writes.lines_of_code(function.__code__))
    return lines


def _files_of(slot: Slot) -> list[str]:
    """The files of the code that has the name."""
    owner = slot.owner
    if slot.kind == "global":
        return [str(owner.__file__)]
    if isinstance(owner, FunctionType):
        return [owner.__code__.co_filename]
    classes = [owner] if isinstance(owner, type) else users_classes(owner)
    return [str(sys.modules[cls.__module__].__file__) for cls in classes]


def _cached_functions(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """Functions of the user's modules and classes that `functools.lru_cache` wraps."""
    classes = {cls for module in model.modules() for cls in users_classes(module)}
    owners = [*python_modules(classes), *classes]
    seen: set[int] = set()
    for owner in owners:
        for name, value in list(vars(owner).items()):
            plain = value.__func__ if isinstance(value, (staticmethod, classmethod, MethodType)) else value
            if isinstance(plain, functools._lru_cache_wrapper) and id(plain) not in seen:
                seen.add(id(plain))
                yield name, plain


def _definition(function: Any) -> Place | None:
    """The decorator of a cached function, or its head."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or not places.is_users(code.co_filename):
        return None
    return Place(code.co_filename, code.co_firstlineno)
