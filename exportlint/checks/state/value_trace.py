"""Where two calls that should be the same part: the first line at which Python holds another value.

Both calls are traced: the lines that ran, which local variables changed there and to what, what functions returned, and
what each function of torch was given and made. Local variables may differ without effect, so the calls part where
torch is given something else, or another line runs; the line to blame is the one that first held that other value. An
operator that makes something else of the same is no Python state.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from exportlint import places
from exportlint.checks import divergence
from exportlint.checks.state.holders import CONTAINERS, attributes_of, elements, users_module
from exportlint.places import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator
    from types import FrameType

MAX_EVENTS = 200_000
MAX_DEPTH = 3
MAX_HASHED = 2**16  # elements of a tensor; of larger ones the sum counts

CALLED = "()"  # after the name of a function: what it returned

Marks = dict[str, "Hashable"]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened: ``line`` (it runs), ``held`` (by names after a line), ``given`` to torch, ``made``."""

    kind: str
    file: str
    line: int
    marks: Marks = field(default_factory=dict)


@dataclass(eq=False)
class _Tracer(TorchFunctionMode):
    events: list[Event] = field(default_factory=list)
    _frames: dict[int, tuple[int, Marks]] = field(default_factory=dict)
    _looking: bool = False  # so that what is asked of a tensor here is no event

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        place = None if self._looking else places.caller(sys._getframe(1))
        if place is not None:
            given = (getattr(function, "__name__", ""), args, kwargs or {})
            self._add(Event("given", place.file, place.line, _marks_of(given)))
        made = function(*args, **(kwargs or {}))
        if place is not None:
            self._add(Event("made", place.file, place.line, _marks_of(made)))
        return made

    def _add(self, event: Event) -> None:
        if len(self.events) < MAX_EVENTS:
            self.events.append(event)

    def calls(self, frame: FrameType, event: str, _: Any) -> Any:
        """The global trace function."""
        if event != "call" or not places.is_users(frame.f_code.co_filename):
            return None
        given = self._locals(frame)
        place = places.caller(frame.f_back)
        if place is not None:
            self._add(Event("held", place.file, place.line, given))
        self._frames[id(frame)] = (frame.f_lineno, given)
        return self._in_frame

    def _in_frame(self, frame: FrameType, event: str, returned: Any) -> Any:
        if event in ("line", "return") and len(self.events) < MAX_EVENTS:
            file, (line, before) = frame.f_code.co_filename, self._frames[id(frame)]
            now = self._locals(frame, returned if event == "return" else None)
            changed = {name: mark for name, mark in now.items() if before.get(name) != mark}
            self._add(Event("held", file, line, changed))
            if event == "line":
                self._add(Event("line", file, frame.f_lineno))
            self._frames[id(frame)] = (frame.f_lineno, now)
        return self._in_frame

    def _locals(self, frame: FrameType, returned: Any = None) -> Marks:
        """What the local variables hold, and the attributes of the objects among them; what the function returned."""
        marks: Marks = {}
        self._looking = True
        try:
            for name, value in list(frame.f_locals.items()):
                marks[name] = _mark(value)
                if isinstance(value, nn.Module) or users_module(type(value).__module__) is not None:
                    marks |= {f"{name}.{key}": _mark(held) for key, held in attributes_of(value)}
            return marks | {frame.f_code.co_name + CALLED: _mark(returned)}
        finally:
            self._looking = False


def traced(function: Callable[[], Any]) -> list[Event]:
    """What happened in a call, in order.

    Raises:
        Exception: What the call raises.
    """
    tracer, previous = _Tracer(), sys.gettrace()
    with tracer:
        sys.settrace(tracer.calls)
        try:
            function()
        finally:
            sys.settrace(previous)
    return tracer.events


def parting(one: list[Event], two: list[Event]) -> Place | None:
    """The line at which Python held another value in the second call than in the first.

    Args:
        one: What happened in one call.
        two: What happened in one that should do the same.

    Returns:
        The line; ``None`` where an operator of torch made something else of the same arguments, or nothing differs.
    """
    for i, (a, b) in enumerate(zip_longest(one, two)):
        if a is None or b is None or (a.kind, a.file, a.line) != (b.kind, b.file, b.line):
            return _decision(one, two, i)
        if a.kind == "made" and a.marks != b.marks:
            return None
        if a.kind == "given" and a.marks != b.marks:
            return _source(one, two, i, Place(a.file, a.line))
    differing = next(_differing(one, two, len(one)), None)
    return Place(differing[0].file, differing[0].line) if differing is not None else None


def _differing(one: list[Event], two: list[Event], before: int) -> Iterator[tuple[Event, Event]]:
    """Pairs of what names held, where it differs, in order."""
    for a, b in zip(one[:before], two[:before], strict=False):
        if a.kind == b.kind == "held" and a.marks != b.marks:
            yield a, b


def _source(one: list[Event], two: list[Event], i: int, place: Place) -> Place:
    """From a line back to the line that bound what it names, and what that names, as far as they held other values."""
    for a, b in reversed(list(_differing(one, two, i))):
        names = [name.removesuffix(CALLED) for name, mark in a.marks.items() if b.marks.get(name) != mark]
        if any(re.search(rf"\b{re.escape(name)}\b", place.source) for name in names):
            place = Place(a.file, a.line)
    return place


def _decision(one: list[Event], two: list[Event], i: int) -> Place | None:
    """The line that chose which line runs at event `i`, or what it asks."""
    lines = [(event.file, event.line) for event in (one if i < len(one) else two)[: i + 1] if event.kind == "line"]
    place = divergence.decision(lines, len(lines) - 1) if lines else None
    return place and _source(one, two, i, place)


def mark_of_module(model: nn.Module) -> Hashable:
    """The same for models that hold the same numbers and Python values."""
    tensors = [(name, _mark(tensor)) for name, tensor in model.state_dict(keep_vars=True).items()]
    held = [(name, _mark(value)) for module in model.modules() for name, value in attributes_of(module)]
    return tuple(tensors), tuple(held)


def _marks_of(tree: Any) -> Marks:
    return {str(place): _mark(leaf) for place, leaf in enumerate(pytree.tree_leaves(tree))}


def _mark(value: Any, depth: int = 0) -> Hashable:
    """The same for equal values; what is known by its address only is known by its class."""
    if isinstance(value, (type(None), bool, int, float, complex, str, bytes)):
        return type(value).__name__, repr(value)
    if isinstance(value, torch.Tensor):
        return _mark_of_tensor(value)
    if depth < MAX_DEPTH and isinstance(value, CONTAINERS):
        held = [_mark(item, depth + 1) for item in elements(value)]
        keys = [_mark(key, MAX_DEPTH) for key in list(dict.keys(value))] if isinstance(value, dict) else []
        ordered = sorted(held, key=repr) if isinstance(value, set) else held
        return type(value).__name__, tuple(keys), tuple(ordered)
    return type(value).__qualname__


def _mark_of_tensor(value: torch.Tensor) -> Hashable:
    about = (str(value.dtype), tuple(value.shape))
    if value.layout is not torch.strided or value.device.type == "meta":
        return about
    plain = value.detach().cpu()
    if plain.numel() > MAX_HASHED:
        plain = plain.abs().double().sum()
    return (*about, repr(plain.tolist()))
