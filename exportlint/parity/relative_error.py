"""How far a result is from another one, as one number for a plot; nothing is judged by it."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree


def relative_error(expected: Any, actual: Any) -> float | None:
    """The largest difference of floating-point values, as a part of the largest expected value of the same tensor.

    Values that are not finite in either do not count.

    Returns:
        0.0 where all are equal; ``None`` where there are no such values, or the results have different structures.
    """
    left, structure = pytree.tree_flatten(expected)
    right, other = pytree.tree_flatten(actual)
    if structure != other:
        return None
    errors = [_of_tensors(a, b) for a, b in zip(left, right, strict=True)]
    return max((error for error in errors if error is not None), default=None)


def _of_tensors(a: Any, b: Any) -> float | None:
    if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.shape == b.shape):
        return None
    if not a.is_floating_point() or type(a) is not type(b) or a.layout is not torch.strided or a.device.type == "meta":
        return None
    if a.numel() and torch.equal(a, b):
        return 0.0
    x, y = a.detach().double(), b.detach().double()
    finite = x.isfinite() & y.isfinite()
    x, y = x[finite], y[finite]
    if not x.numel():
        return None
    worst, scale = float((x - y).abs().max()), float(x.abs().max())
    return worst / scale if scale else float(worst > 0)
