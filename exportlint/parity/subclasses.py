"""Tensor subclasses: those that hold other tensors are compared tensor by tensor, the others by name are not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import torch


def same_class(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors are of one class; a parameter counts as a tensor."""
    return _class(a) is _class(b)


def parts(a: torch.Tensor, b: torch.Tensor) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    """Plain tensors that make up two tensors of one class, in pairs, each with a suffix for its name."""
    inner = _inner(a)
    if inner is None:
        yield "", _plain(a), _plain(b)
        return
    for name in inner:
        for suffix, x, y in parts(getattr(a, name), getattr(b, name)):
            yield f".{name}{suffix}", x, y


def unsupported(values: Iterable[Any]) -> list[str]:
    """Names of the tensor classes among the values that cannot be compared: they hold neither data nor tensors."""
    import torch

    found: dict[str, None] = {}
    for value in values:
        if isinstance(value, torch.Tensor) and _class(value) is not torch.Tensor and _opaque(value):
            found[f"{type(value).__module__}.{type(value).__qualname__}"] = None
    return list(found)


def wrappers(values: Iterable[Any]) -> list[str]:
    """Names of the tensor classes among the values that stand for other tensors, such as those of a mesh of devices."""
    import torch

    found = (value for value in values if isinstance(value, torch.Tensor) and _inner(value) is not None)
    return list(dict.fromkeys(f"{type(value).__module__}.{type(value).__qualname__}" for value in found))


def _class(tensor: torch.Tensor) -> type:
    import torch

    return torch.Tensor if isinstance(tensor, torch.nn.Parameter) and _inner(tensor) is None else type(tensor)


def _inner(tensor: torch.Tensor) -> list[str] | None:
    """Names of the tensors that a wrapper holds; ``None`` for other tensors."""
    import torch
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    if type(tensor) in (torch.Tensor, torch.nn.Parameter) or not is_traceable_wrapper_subclass(tensor):
        return None
    return [name for name in tensor.__tensor_flatten__()[0] if isinstance(getattr(tensor, name), torch.Tensor)]


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    return tensor if type(tensor) is torch.Tensor else tensor.as_subclass(torch.Tensor)


def _opaque(tensor: torch.Tensor) -> bool:
    """Whether the tensor holds no data of its own and does not say which tensors it holds."""
    import torch

    names = _inner(tensor)
    if names is not None:
        return any(
            _opaque(getattr(tensor, name)) for name in names if _class(getattr(tensor, name)) is not torch.Tensor
        )
    if tensor.layout is not torch.strided or tensor.device.type == "meta":
        return False
    try:
        return tensor.numel() > 0 and _plain(tensor).untyped_storage().data_ptr() == 0
    except Exception:  # a wrapper without storage
        return True
