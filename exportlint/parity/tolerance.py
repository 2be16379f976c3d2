"""How far a program's tensor may lie from the eager one where they are not equal bit for bit.

The yardstick is the error that eager itself makes against float64: the program may make a small multiple of it, by
root mean square and at its worst element, and a few ulps of the tensor's magnitude in any case. Where there is no
float64 result, or eager is nowhere near it, a tolerance that follows from the dtype alone stands in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

MULTIPLE = 3.0  # of eager's own error
MULTIPLE_OF_FEW = 10.0  # where a tensor has so few values that eager may be exact by luck
FEW = 16
FLOOR_ULPS = 4.0  # times the magnitude, whatever eager's error is
# Without a reference. Relative to the largest magnitude in the tensor: rounding accumulates over a reduction. Types of
# half precision and less accumulate in a wider one, and 64 of their epsilons would be half the value.
ULPS, ULPS_OF_LOW_PRECISION = 64, 4
LOW_PRECISION = 1e-4
SMALL = 30.0  # times below the largest value lie those that are judged once more, by themselves
FAR_ABOVE = 1e5  # times all other values lies a sentinel
NOISE = 1e-3  # of its size is left of eager's values in float64 where they are nothing but rounding error


@dataclass(frozen=True, slots=True)
class Allowance:
    """What is allowed of one tensor.

    Attributes:
        rms: Root mean square of the error against float64; ``None`` where there is no reference.
        worst: Largest error of an element: against float64, or against eager without a reference.
        own: Eager's own root mean square error, likewise.
    """

    rms: float | None
    worst: float
    own: float | None = None


def by_reference(eager: torch.Tensor, reference: torch.Tensor, eps: float, coarsest: float = 0.0) -> Allowance | None:
    """What eager's own error allows; ``None`` where eager is nowhere near the reference, which then says nothing.

    Args:
        eager: Finite values in float64 or complex128, one dimension.
        reference: The same elements computed in float64.
        eps: Epsilon of the dtype that eager computed in.
        coarsest: The same of the steps before, where one was computed in less.
    """
    plain = ~sentinels(eager)
    error, sizes = (eager - reference).abs()[plain], reference.abs()[plain]
    magnitude = magnitude_of(sizes)
    own, size = rms_of(error), rms_of(sizes)
    if not math.isfinite(own):
        return None
    # Where float64 is nearly nothing, such as a gradient that is zero, eager is nothing but rounding error.
    if own > math.sqrt(max(eps, coarsest)) * size and size > NOISE * rms_of(eager[plain]):
        return None
    multiple = MULTIPLE if error.numel() > FEW else MULTIPLE_OF_FEW
    worst = float(error.max()) if error.numel() else 0.0
    return Allowance(
        max(multiple * own, FLOOR_ULPS * eps * size), max(multiple * worst, FLOOR_ULPS * eps * magnitude), own
    )


def of_small(eager: torch.Tensor, reference: torch.Tensor, eps: float) -> tuple[torch.Tensor, float] | None:
    """Which of the values lie far below the largest, and what is allowed of the median of their errors.

    A few large values, such as a channel of a hidden state, would otherwise hide that all others are wrong. The median,
    since one value that is what large terms have left of each other may rightly be far off.

    Args:
        eager: Finite values in float64 or complex128, one dimension, sentinels left out.
        reference: The same elements computed in float64.
        eps: Epsilon of the dtype that eager computed in.

    Returns:
        ``None`` where there are too few of them, or they are nothing but zeros.
    """
    sizes = reference.abs()
    small = sizes * SMALL <= magnitude_of(sizes)
    if int(small.sum()) <= FEW:
        return None
    size, own = float(sizes[small].median()), float((eager - reference)[small].abs().median())
    if size == 0:
        return None
    exact = math.sqrt(eps) * size if own == 0 else 0.0  # by luck, perhaps: then only what is plainly wrong counts
    return small, max(MULTIPLE_OF_FEW * own, FLOOR_ULPS * eps * size, exact)


def sentinels(values: torch.Tensor) -> torch.Tensor:
    """Which of the values stand far above all others, such as those of masked places."""
    sizes = values.abs()
    magnitude = magnitude_of(sizes)
    return sizes >= FAR_ABOVE * magnitude if magnitude else sizes < 0


def by_dtype(eager: torch.Tensor, eps: float) -> Allowance:
    """What the dtype allows of the distance from eager.

    Args:
        eager: Finite values in float64 or complex128.
        eps: Epsilon of the dtype that eager computed in.
    """
    return Allowance(None, ulps(eps) * eps * magnitude_of(eager.abs()))


def ulps(eps: float) -> float:
    """How many ulps the dtype alone allows."""
    return ULPS if eps < LOW_PRECISION else ULPS_OF_LOW_PRECISION


def rms_of(values: torch.Tensor) -> float:
    """Root mean square; 0 for none."""
    return float(values.abs().square().mean().sqrt()) if values.numel() else 0.0


def magnitude_of(sizes: torch.Tensor) -> float:
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
