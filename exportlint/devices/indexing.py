"""Indexing of fake tensors whose device this build of torch lacks.

``x[...]``, ``copy_``, moves and some more look for the driver of the device before they call an operator, and before
torch 2.14 they raise where the build has none. The operators themselves look for none, so they are called instead.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from exportlint.devices import hooks
from exportlint.text import said

_ATEN = torch.ops.aten
_GET, _SET = torch.Tensor.__getitem__, torch.Tensor.__setitem__
_MOVES = {getattr(torch.Tensor, name): name for name in ("cuda", "xpu", "mps") if hasattr(torch.Tensor, name)}
_NO_DRIVER = "not linked with support"
_OPERATORS = {"__invert__": "bitwise_not"}  # where the method has another name


def on_any_build(mode: Any, device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """A context in which fake tensors of this mode and device can be indexed; an empty one where torch itself can."""
    try:
        with torch.no_grad(), mode:
            hooks.fake_on(device, mode)[torch.tensor([0])]
            hooks.fake_on(device, mode)[torch.empty((), dtype=torch.long)]  # some releases ask for its number
    except RuntimeError:
        return Indexing(device)
    return contextlib.nullcontext()


class Indexing(TorchFunctionMode):
    """Calls operators for what would look for a driver."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (_GET, _SET) and hooks.is_fake(args[0]):
            selected, indices = _selected(args[0], args[1])
            return _read(selected, indices) if func is _GET else _write(selected, indices, args[2])
        if _MOVES.get(func) == self._device.type:
            func, args = torch.Tensor.to, (args[0], self._device)
        args, kwargs = pytree.tree_map_only((str, torch.device), self._with_index, (args, kwargs))
        try:
            return func(*args, **kwargs)
        except RuntimeError as error:
            name = getattr(func, "__name__", "")
            operator = getattr(_ATEN, _OPERATORS.get(name, name), None)
            if _NO_DRIVER not in said(error) or operator is None:
                raise
        return operator(*args, **kwargs)

    def _with_index(self, leaf: Any) -> Any:
        """The device for its mere type: which one is the current one is the driver's to say."""
        return self._device if leaf in (self._device.type, torch.device(self._device.type)) else leaf


def _read(selected: torch.Tensor, indices: list[torch.Tensor | None]) -> torch.Tensor:
    read: torch.Tensor = _ATEN.index.Tensor(selected, indices) if indices else _ATEN.alias.default(selected)
    return read


def _write(selected: torch.Tensor, indices: list[torch.Tensor | None], value: Any) -> None:
    if not isinstance(value, torch.Tensor):
        value = torch.tensor(value, dtype=selected.dtype)
    if indices:
        _ATEN.index_put_.default(selected, indices, value.to(selected.dtype))
    else:
        _ATEN.copy_.default(selected, value)


def _selected(tensor: torch.Tensor, index: Any) -> tuple[torch.Tensor, list[torch.Tensor | None]]:
    """The view that the parts of the index without tensors select, and the tensors that index it, by dimension."""
    indices: list[torch.Tensor | None] = []
    dim = 0
    for item in _whole(index if isinstance(index, tuple) else (index,), tensor.dim()):
        if item is None:
            tensor, dim = tensor.unsqueeze(dim), dim + 1
        elif isinstance(item, slice):
            tensor, dim = _ATEN.slice.Tensor(tensor, dim, item.start, item.stop, item.step or 1), dim + 1
        elif isinstance(item, torch.Tensor):
            indices += [None] * (dim - len(indices)) + _without_masks(item)
            dim += _takes(item)
        elif isinstance(item, bool):
            tensor = tensor.unsqueeze(dim)
            indices += [None] * (dim - len(indices)) + [torch.zeros(int(item), dtype=torch.long)]
            dim += 1
        else:
            tensor = tensor.select(dim, item)
    return tensor, indices


def _without_masks(item: torch.Tensor) -> list[torch.Tensor | None]:
    if item.dtype not in (torch.bool, torch.uint8):
        return [item]
    where = _ATEN.nonzero.default(item)
    return [where.select(1, dim) for dim in range(item.dim())]


def _whole(index: tuple[Any, ...], dims: int) -> list[Any]:
    """The index with lists as tensors, and with an ellipsis, at the end if it has none, as slices."""
    items = [torch.as_tensor(item) if isinstance(item, (list, range)) else item for item in index]
    at = next((i for i, item in enumerate(items) if item is Ellipsis), len(items))
    rest = [slice(None)] * (dims - sum(map(_takes, items)))
    return [*items[:at], *rest, *items[at + 1 :]]


def _takes(item: Any) -> int:
    """How many dimensions a part of an index takes."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    masks = isinstance(item, torch.Tensor) and item.dtype in (torch.bool, torch.uint8)
    return item.dim() if masks else 1
