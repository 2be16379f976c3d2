"""Compare the result of a program with that of the eager model: structure, dtype, device, shape and every value.

The normal case on one device is equality bit for bit. Only where that fails is a result in float64 asked for, which
says how far eager itself is from it (`tolerance`); no share of wrong values is allowed in any case. Fixed tolerances
replace this where a case asks for them.

Bit for bit means equal values: 0.0 and -0.0 are the same, and so is every NaN. Compilers and kernels are free in both,
and users do not take them for an error. What the sign of a zero decides, such as the infinity of a division, is seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

from exportlint.parity import tolerance
from exportlint.text import said

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from exportlint.parity.reference import Reference
    from exportlint.parity.tolerance import Allowance

NO_DATA = "the program returns a tensor without data"


class Bounds(TypedDict, total=False):
    """Fixed tolerances, as `compare` takes them."""

    rtol: float
    atol: float


@dataclass(frozen=True, slots=True)
class Difference:
    """The first output that differs, in words.

    Attributes:
        where: The output.
        what: How it differs.
        worst: The largest absolute difference, where values differ.
        index: Where in the tensor that is.
        leaf: The place of the output among the flattened results; -1 for their structure.
    """

    where: str
    what: str
    worst: float = math.nan
    index: tuple[int, ...] = ()
    leaf: int = -1

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


@dataclass
class _Judge:
    """How two leaves are compared.

    Attributes:
        rtol: Fixed relative tolerance, or ``None``.
        atol: Fixed absolute tolerance, or ``None``.
        reference: The same call in float64, if it can be made.
        leaves: How many leaves the results have.
    """

    rtol: float | None
    atol: float | None
    reference: Reference | None
    leaves: int
    leaf: int = field(default=0)

    def compare(self, where: str, a: Any, b: Any) -> Difference | None:
        import torch

        if isinstance(a, torch.Tensor) != isinstance(b, torch.Tensor):
            return self.difference(where, f"a {type(a).__name__} in eager, a {type(b).__name__} in the program")
        if isinstance(a, torch.Tensor):
            return self._tensors(where, a, b)
        try:
            same = type(a) is type(b) and bool(a == b or (a != a and b != b))  # noqa: PLR0124 - NaN
        except Exception:
            return None
        return None if same else self.difference(where, f"{a!r:.60} in eager, {b!r:.60} in the program")

    def difference(self, where: str, what: str, worst: float = math.nan, index: Sequence[int] = ()) -> Difference:
        return Difference(where, what, worst, tuple(index), self.leaf)

    def _tensors(self, where: str, a: torch.Tensor, b: torch.Tensor) -> Difference | None:
        from exportlint.parity.subclasses import parts

        if a.device.type == b.device.type == "meta" and a.shape == b.shape and a.dtype == b.dtype:
            return None
        unlike = _unlike(a, b)
        if unlike is not None:
            return self.difference(where, unlike)
        for suffix, x, y in parts(a, b):
            found = self._plain(where + suffix, x, y, alone=not suffix)
            if found is not None:
                return found
        return None

    def _plain(self, where: str, a: torch.Tensor, b: torch.Tensor, *, alone: bool) -> Difference | None:
        a, b = _dense(a.detach()), _dense(b.detach())
        if a.shape != b.shape or a.dtype != b.dtype:
            return self.difference(where, f"{_kind(a)} in eager, {_kind(b)} in the program")
        if equal_bits(a, b):
            return None
        if not (a.is_floating_point() or a.is_complex()):
            return self._whole_numbers(where, a, b)
        return self._values(where, a, b, alone=alone)

    def _whole_numbers(self, where: str, a: torch.Tensor, b: torch.Tensor) -> Difference:
        import torch

        wrong, worst = a != b, math.nan
        index = _index(wrong.flatten().int().argmax(), a.shape)
        what = f"{int(wrong.sum())} of {a.numel()} values differ, the first at {list(index)}"
        if a.dtype is not torch.bool:
            index = _index((a.double() - b.double()).abs().where(wrong, -1.0).flatten().argmax(), a.shape)
            worst = float(abs(a[index].item() - b[index].item()))
            what = f"{int(wrong.sum())} of {a.numel()} values differ, by at most {worst:.10g}, at {list(index)}"
        return self.difference(where, f"{what}: {_at(a, index)} in eager, {_at(b, index)}", worst, index)

    def _values(self, where: str, a: torch.Tensor, b: torch.Tensor, *, alone: bool) -> Difference | None:
        import torch

        wide = torch.complex128 if a.is_complex() else torch.float64
        x, y = a.to(wide), b.to(wide)
        infinite = x.isinf() | y.isinf()
        for name, wrong in (("NaN", x.isnan() != y.isnan()), ("infinities", (x != y) & infinite)):
            if bool(wrong.any()):
                index, number = _index(wrong.flatten().int().argmax(), a.shape), int(wrong.sum())
                values = f"{number} of {a.numel()} values, first at {list(index)}"
                words = f"{values}: {_at(a, index)} in eager, {_at(b, index)}"
                return self.difference(where, f"{name} in other places than in eager, {words}", math.inf, index)
        finite = ~(infinite | x.isnan())
        excess = self._excess(where, a, b, (x, y), finite, alone=alone)
        if excess is None:
            return None
        error = torch.where(finite, (x - y).abs(), torch.zeros_like(x.abs()))
        worst, index = float(error.max()), _index(error.flatten().argmax(), a.shape)
        count, why = excess.partition("; ")[::2]
        words = f"{count}, by at most {worst:.3g}, at {list(index)}: {_at(a, index)} in eager, {_at(b, index)}"
        reservation = self.reference.reservation() if self.reference is not None else ""
        words += "".join(f"; {more}" for more in (why, reservation) if more)
        return self.difference(where, words, worst, index)

    def _excess(
        self,
        where: str,
        a: torch.Tensor,
        b: torch.Tensor,
        wide: tuple[torch.Tensor, torch.Tensor],
        finite: torch.Tensor,
        *,
        alone: bool,
    ) -> str | None:
        """How the program's values go beyond what is allowed; ``None`` where they do not."""
        import torch

        x, y = wide[0][finite], wide[1][finite]
        eps = torch.finfo(a.dtype).eps
        if self.rtol is not None or self.atol is not None:
            return _beyond(x, y, (self.atol or 0.0) + (self.rtol or 0.0) * x.abs(), a.numel())
        exact = self.reference.leaf(self.leaf, self.leaves, a) if self.reference is not None and alone else None
        if self.reference is not None and exact is not None:
            r = exact.detach().to(wide[0].dtype)[finite]
            sane = r.abs().isfinite()
            allowed = tolerance.by_reference(x[sane], r[sane], eps, self.reference.coarsest(eps))
            if allowed is not None:
                self.reference.tell(where, allowed, float(tolerance.rms_of(y[sane] - r[sane])))
                return _far(x[sane], y[sane], r[sane], allowed, eps) or _beyond(
                    x[~sane], y[~sane], tolerance.FLOOR_ULPS * eps * x[~sane].abs(), a.numel()
                )
            self.reference.useless(where)
        if self.reference is not None:
            eps = self.reference.coarsest(eps)
        worst = tolerance.by_dtype(x, eps).worst
        return _beyond(x, y, (worst * torch.ones_like(x.abs())).maximum(tolerance.ulps(eps) * eps * x.abs()), a.numel())


def compare(
    expected: Any,
    actual: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    reference: Reference | None = None,
    canonical: Callable[[Any], Any] | None = None,
) -> Difference | None:
    """The first difference between two nested results, or ``None``.

    Args:
        expected: Result of the eager model: nested containers of tensors and Python values.
        actual: Result of the program.
        rtol: Relative tolerance for floating-point values; with `atol`, replaces the one that is derived.
        atol: Absolute tolerance.
        reference: The same call in float64, made only where results are not equal bit for bit.
        canonical: Brings a result into a form in which what is free, such as an order, is the same.
    """
    from torch.utils import _pytree as pytree

    if canonical is not None:
        expected, found = canonical(expected), _brought(canonical, actual)
        if isinstance(found, Difference):
            return found
        actual = found
    left, left_spec = pytree.tree_flatten_with_path(expected)
    right, right_spec = pytree.tree_flatten_with_path(actual)
    if len(left) != len(right):
        return Difference("", f"{len(left)} outputs in eager, {len(right)} in the program")
    if left_spec != right_spec:
        return Difference("", f"the structure is {_short(left_spec)} in eager, {_short(right_spec)} in the program")
    judge = _Judge(rtol, atol, reference, len(left))
    for judge.leaf, ((path, a), (_, b)) in enumerate(zip(left, right, strict=True)):
        difference = judge.compare(f"output{pytree.keystr(path)}", a, b)
        if difference is not None:
            return difference
    return None


def _unlike(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """How two tensors are unlike before any value is looked at."""
    from exportlint.parity.subclasses import same_class

    if a.shape != b.shape:
        return f"shape {list(a.shape)} in eager, {list(b.shape)} in the program"
    if a.dtype != b.dtype:
        return f"{a.dtype} in eager, {b.dtype} in the program"
    if b.device.type == "meta" or is_fake(b):
        return NO_DATA
    if a.device != b.device:
        return f"on {a.device} in eager, on {b.device} in the program"
    if not same_class(a, b):
        return f"a {type(a).__name__} in eager, a {type(b).__name__} in the program"
    return None


def _brought(canonical: Callable[[Any], Any], actual: Any) -> Any:
    """The program's result in canonical form, or the difference that it cannot be brought into it."""
    try:
        return canonical(actual)
    except Exception as error:
        words = f"{type(error).__name__}: {said(error)}".splitlines()[0]
        return Difference("", f"the program's result has no canonical form, as eager's has: {words}")


def _far(x: torch.Tensor, y: torch.Tensor, r: torch.Tensor, allowed: Allowance, eps: float) -> str | None:
    """How the error against the reference goes beyond the allowance."""
    sentinel = tolerance.sentinels(x)
    beyond = _beyond(x[sentinel], y[sentinel], tolerance.FLOOR_ULPS * eps * x[sentinel].abs(), x.numel())
    error = (y - r).abs()[~sentinel]
    if beyond is not None or not error.numel():
        return beyond
    rms, worst = tolerance.rms_of(error), float(error.max())
    count = f"{int((x != y).sum())} of {x.numel()} values differ"
    if worst > allowed.worst:
        return f"{count}; one is {worst:.3g} from float64, where eager's own error allows {allowed.worst:.3g}"
    if allowed.rms is not None and rms > allowed.rms:
        return f"{count}; they are {rms:.3g} (rms) from float64, where eager's own error allows {allowed.rms:.3g}"
    return _small_are_far(x[~sentinel], r[~sentinel], error, eps, count)


def _small_are_far(x: torch.Tensor, r: torch.Tensor, error: torch.Tensor, eps: float, count: str) -> str | None:
    """How the error of the values that lie far below the largest goes beyond what is allowed of them."""
    found = tolerance.of_small(x, r, eps)
    if found is None:
        return None
    small, allowed = found
    median = float(error[small].median())
    if median <= allowed:
        return None
    words = f"those {tolerance.SMALL:g} times below the largest are {median:.3g} (median) from float64"
    return f"{count}; {words}, where eager's own error allows {allowed:.3g}"


def _beyond(x: torch.Tensor, y: torch.Tensor, allowed: torch.Tensor, number: int) -> str | None:
    wrong = int(((x - y).abs() > allowed).sum())
    return f"{wrong} of {number} values differ" if wrong else None


def _short(spec: Any) -> str:
    text = " ".join(str(spec).split())
    return text if len(text) <= 80 else text[:77] + "..."


def _kind(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {list(tensor.shape)}"


def _index(flat: torch.Tensor, shape: torch.Size) -> tuple[int, ...]:
    """The index of an element by its place among all."""
    place, index = int(flat), []
    for size in reversed(shape):
        index.append(place % size)
        place //= size
    return tuple(reversed(index))


def _at(tensor: torch.Tensor, index: tuple[int, ...]) -> str:
    value = tensor[index].item()
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def is_fake(tensor: torch.Tensor) -> bool:
    """Whether the tensor is a fake one, left behind by a capture."""
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor)


def equal_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one shape and dtype hold the same values, NaN in the same places; 0.0 equals -0.0."""
    import torch

    if torch.equal(a, b):
        return True
    if not (a.is_floating_point() or a.is_complex()):
        return False
    return bool(torch.all((a == b) | (a.isnan() & b.isnan())))
