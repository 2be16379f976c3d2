"""Compare the result of a program with that of the eager model: structure, dtype, shape and every value.

The normal case on one device is equality bit for bit. Where that fails, values may differ by the tolerance that the
case asks for, or by one that follows from the dtype.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# Relative to the largest magnitude in the tensor: rounding accumulates over a reduction, so a multiple of the epsilon.
# Types of half precision and less accumulate in a wider one, and 64 of their epsilons would be half the value.
ULPS, ULPS_OF_LOW_PRECISION = 64, 4
LOW_PRECISION = 1e-4
FAR_ABOVE = 1e5  # times all other values lies a sentinel


@dataclass(frozen=True, slots=True)
class Difference:
    """The first output that differs, in words; `worst` is the largest absolute difference where values differ."""

    where: str
    what: str
    worst: float = math.nan

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


def compare(expected: Any, actual: Any, *, rtol: float | None = None, atol: float | None = None) -> Difference | None:
    """The first difference between two nested results, or ``None``.

    Args:
        expected: Result of the eager model: nested containers of tensors and Python values.
        actual: Result of the program.
        rtol: Relative tolerance for floating-point values; with `atol`, replaces the one that follows from the dtype.
        atol: Absolute tolerance.
    """
    from torch.utils import _pytree as pytree

    left, left_spec = pytree.tree_flatten_with_path(expected)
    right, right_spec = pytree.tree_flatten_with_path(actual)
    if len(left) != len(right):
        return Difference("", f"{len(left)} outputs in eager, {len(right)} in the program")
    if left_spec != right_spec and not _same_shape(left_spec, right_spec):
        return Difference("", f"the structure is {_short(left_spec)} in eager, {_short(right_spec)} in the program")
    for (path, a), (_, b) in zip(left, right, strict=True):
        difference = _leaf(f"output{pytree.keystr(path)}", a, b, rtol, atol)
        if difference is not None:
            return difference
    return None


def _same_shape(left: Any, right: Any) -> bool:
    """Whether two tree specs differ in class only; a reloaded program may return another class of the same make."""
    if left.type is right.type and left.context != right.context:  # such as the keys of a dict
        return False
    return left.num_children == right.num_children and all(
        _same_shape(a, b) for a, b in zip(left.children(), right.children(), strict=True)
    )


def _short(spec: Any) -> str:
    text = " ".join(str(spec).split())
    return text if len(text) <= 80 else text[:77] + "..."


def _leaf(where: str, a: Any, b: Any, rtol: float | None, atol: float | None) -> Difference | None:
    import torch

    if isinstance(a, torch.Tensor) != isinstance(b, torch.Tensor):
        return Difference(where, f"a {type(a).__name__} in eager, a {type(b).__name__} in the program")
    if isinstance(a, torch.Tensor):
        return _tensor(where, a, b, rtol, atol)
    try:
        same = type(a) is type(b) and bool(a == b or (a != a and b != b))  # noqa: PLR0124 - NaN
    except Exception:
        return None
    return None if same else Difference(where, f"{a!r:.60} in eager, {b!r:.60} in the program")


def _tensor(where: str, a: torch.Tensor, b: torch.Tensor, rtol: float | None, atol: float | None) -> Difference | None:
    if a.shape != b.shape:
        return Difference(where, f"shape {list(a.shape)} in eager, {list(b.shape)} in the program")
    if a.dtype != b.dtype:
        return Difference(where, f"{a.dtype} in eager, {b.dtype} in the program")
    if a.device.type == "meta" or b.device.type == "meta" or is_fake(b):
        return Difference(where, "the program returns a tensor without data") if a.device.type != "meta" else None
    a, b = _dense(a.detach()), _dense(b.detach())
    if equal_bits(a, b):
        return None
    return _values(where, a, b, rtol, atol)


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def is_fake(tensor: torch.Tensor) -> bool:
    """Whether the tensor is a fake one, left behind by a capture."""
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor)


def equal_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one shape and dtype hold the same values, NaN in the same places."""
    import torch

    if torch.equal(a, b):
        return True
    if not (a.is_floating_point() or a.is_complex()):
        return False
    return bool(torch.all((a == b) | (a.isnan() & b.isnan())))


def _magnitude(sizes: torch.Tensor) -> float:
    """The largest of the values, a sentinel left out.

    A value such as -1e9 in masked places says nothing about how exact the other values are. It is told by its distance
    from them, and by standing in more places than one.
    """
    if not sizes.numel():
        return 0.0
    largest = float(sizes.max())
    others = sizes[sizes < 0.999 * largest]
    if not others.numel() or sizes.numel() - others.numel() < 2 or float(others.max()) * FAR_ABOVE > largest:
        return largest
    return float(others.max())


def _values(where: str, a: torch.Tensor, b: torch.Tensor, rtol: float | None, atol: float | None) -> Difference | None:
    import torch

    if not (a.is_floating_point() or a.is_complex()):
        wrong = int((a != b).sum())
        return Difference(where, f"{wrong} of {a.numel()} values differ", math.nan)
    wide = torch.complex128 if a.is_complex() else torch.float64
    x, y = a.to(wide), b.to(wide)
    if not torch.equal(x.isnan(), y.isnan()):
        return Difference(where, "NaN in other places than in eager")
    infinite = x.isinf() | y.isinf()
    if bool(((x != y) & infinite).any()):
        return Difference(where, "infinities in other places than in eager")
    finite = ~(infinite | x.isnan())
    x, y = x[finite], y[finite]
    error = (x - y).abs()
    worst = float(error.max()) if error.numel() else 0.0
    if rtol is None and atol is None:
        eps = torch.finfo(a.dtype).eps
        ulps = ULPS if eps < LOW_PRECISION else ULPS_OF_LOW_PRECISION
        allowed: Any = ulps * eps * x.abs().clamp(min=_magnitude(x.abs()))
    else:
        allowed = (atol or 0.0) + (rtol or 0.0) * x.abs()
    wrong = int((error > allowed).sum())
    if not wrong:
        return None
    return Difference(where, f"{wrong} of {a.numel()} values differ, by at most {worst:.3g}", worst)
