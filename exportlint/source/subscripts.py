"""``value[index]``."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from exportlint.source import attributes
from exportlint.source.events import Indexed
from exportlint.source.state import place_of
from exportlint.source.tree import indices as indices_of
from exportlint.source.values import (
    LATER,
    NONE,
    UNKNOWN,
    Array,
    Class,
    Const,
    Dict,
    External,
    Loaded,
    Number,
    Sequence,
    Setting,
    Shape,
    Size,
    Static,
    Tensor,
    TorchModule,
    Union,
    Value,
    join,
    join_all,
    options,
    sizes,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from exportlint.source.interpreter import Interpreter
    from exportlint.source.state import State


def get(it: Interpreter, node: ast.Subscript, state: State) -> Value:
    """The value of the expression."""
    base = it.expression(node.value, state)
    indices = tuple(index(it, part, state) for part in indices_of(node))
    whole: Value = indices[0] if len(indices) == 1 else Sequence(indices, kind="tuple")
    entry = attributes.entry_of(base, whole)
    if entry is not None:
        return attributes.of_instance(it, *entry, state)
    if isinstance(base, (Sequence, Dict)) and base.kept and isinstance(whole, Const):
        slot = state.heap.get((place_of(base.kept, state), f"[{whole.value!r}]"))
        if slot is not None and slot.sure:
            it.emit(Indexed(it.site(node, state), unread(base), whole))
            return slot.value  # this call put it there
        if slot is not None and isinstance(base, Dict) and not base.items:  # this call, or an earlier one
            it.emit(Indexed(it.site(node, state), base, whole))
            return join(slot.value, LATER if base.element == UNKNOWN else base.element)
    it.emit(Indexed(it.site(node, state), base, whole))
    return join_all(tuple(_item(option, indices) for option in options(base)))


def unread(base: Value) -> Value:
    """The container for an access that sees nothing of what earlier calls left in it."""
    return replace(base, kept="") if isinstance(base, (Sequence, Dict)) else base


def index(it: Interpreter, node: ast.expr, state: State) -> Value:
    """One index: the value of an expression, or ``slice`` of the bounds."""
    if not isinstance(node, ast.Slice):
        return it.expression(node, state)
    bounds = tuple(
        it.expression(part, state) if part is not None else NONE for part in (node.lower, node.upper, node.step)
    )
    return Sequence(bounds, kind="slice")


def _item(base: Value, indices: tuple[Value, ...]) -> Value:
    reader = _READERS.get(type(base))
    if reader is not None:
        return reader(base, indices)
    return base if isinstance(base, (Array, Class, External, Loaded, Setting)) else UNKNOWN


def _of_dict(base: Dict, indices: tuple[Value, ...]) -> Value:
    key = indices[0]
    if isinstance(key, Const):
        return next((value for known, value in base.items if known == key.value), base.element)
    return join_all((*(value for _, value in base.items), base.element)) if base.items else base.element


def _of_sequence(base: Sequence, indices: tuple[Value, ...]) -> Value:
    position = indices[0]
    if base.items is not None and isinstance(position, Const) and isinstance(position.value, int):
        inside = -len(base.items) <= position.value < len(base.items)
        return base.items[position.value] if inside else UNKNOWN
    if isinstance(position, Sequence) and position.kind == "slice":
        bounds = position.items or ()
        if base.items is not None and all(isinstance(b, Const) for b in bounds):
            return replace(base, items=base.items[slice(*(b.value for b in bounds))], kept="")  # type: ignore[attr-defined]
        return Sequence(None, base.any, base.kind)
    return base.any


def _of_shape(base: Shape, indices: tuple[Value, ...]) -> Value:
    position = indices[0]
    if isinstance(position, Sequence) and position.kind == "slice":
        return replace(base)
    return base.size(position.value if isinstance(position, Const) and isinstance(position.value, int) else None)


def _of_container(base: TorchModule, indices: tuple[Value, ...]) -> Value:
    position = indices[0]
    if not base.parts:
        return UNKNOWN
    if isinstance(position, Sequence):
        return base
    if isinstance(position, Const) and isinstance(position.value, int) and abs(position.value) < len(base.parts):
        return base.parts[position.value]
    return join_all(base.parts)


def _of_tensor(base: Tensor, indices: tuple[Value, ...]) -> Value:
    masks = [i for i in indices if isinstance(i, Tensor) and i.boolean and i.scalar is not True]
    gathered = [i for i in indices if isinstance(i, Tensor) and i.counted]
    dims, scalar = _dims(base, indices), base.scalar
    numbers = [i for i in indices if isinstance(i, (Const, Number, Static, Size)) and i not in _PLACES]
    if numbers or any(isinstance(i, Tensor) for i in indices):
        scalar = None if dims is None else not dims
    elif any(isinstance(i, Union) for i in indices):
        scalar = None
    elif Const(None) in indices:
        scalar = False
    first = indices[0]
    keeps = base.counted and isinstance(first, Sequence) and first.kind == "slice" and first.items == (Const(None),) * 3
    return replace(
        base,
        dims=dims,
        scalar=scalar,
        counted=bool(masks) or bool(gathered) or keeps,
        sized=base.sized or bool(sizes(indices)),
        fed=base.fed or any(isinstance(i, Tensor) and i.fed for i in indices),
        boolean=base.boolean,
        full=base.full and any(isinstance(i, Sequence) and i.kind == "slice" for i in indices),
        exact=False,  # a capture knows the whole, not what is taken out of it
    )


def _dims(base: Tensor, indices: tuple[Value, ...]) -> tuple[Value, ...] | None:
    """The sizes that are left, for an index of numbers, full slices and ``None`` alone."""
    if base.dims is None:
        return None
    left: list[Value] = list(base.dims)
    result: list[Value] = []
    for position in indices:
        if position == Const(None):
            result.append(Const(1))
        elif isinstance(position, Sequence) and position.kind == "slice" and left:
            dim = left.pop(0)
            result.append(dim if position.items == (Const(None),) * 3 else UNKNOWN)
        elif isinstance(position, (Const, Static, Size, Number)) and position != Const(...) and left:
            left.pop(0)
        else:
            return None
    return (*result, *left)


_PLACES = (Const(None), Const(...))
_READERS: dict[type[Value], Callable[[Any, tuple[Value, ...]], Value]] = {
    Tensor: _of_tensor,
    Sequence: _of_sequence,
    Shape: _of_shape,
    Dict: _of_dict,
    TorchModule: _of_container,
}
