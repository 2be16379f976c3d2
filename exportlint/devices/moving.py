"""How a module moves to a device whose tensors torch cannot write into the memory of its own."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

M = TypeVar("M", bound=torch.nn.Module)


@contextlib.contextmanager
def moving_modules(move: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """Within it, ``Module.to`` puts what `move` makes of a tensor in its place, where torch writes to its data.

    What a module's own ``to`` and ``_apply`` move beside its parameters and buffers is moved as they do it.
    """

    def to(self: M, *_: Any, **__: Any) -> M:
        moved: M = self._apply(move)  # type: ignore[no-untyped-call]
        return moved

    def apply(self: M, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> M:
        for part in self.children() if recurse else ():
            part._apply(fn)  # type: ignore[no-untyped-call]
        for kept in (self._parameters, self._buffers):
            for name, value in list(kept.items()):
                if value is not None:  # a scripted module takes items one by one, and only if they were there
                    kept[name] = fn(value)  # type: ignore[assignment]
        return self

    known = torch.nn.Module.to, torch.nn.Module._apply
    torch.nn.Module.to, torch.nn.Module._apply = to, apply  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.nn.Module.to, torch.nn.Module._apply = known  # type: ignore[method-assign]
