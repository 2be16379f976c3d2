"""What the program's results differ by in the calls that were tried, for the report's plot of errors over sizes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from exportlint.findings import Measurement
from exportlint.parity.relative_error import relative_error
from exportlint.text import one_line

if TYPE_CHECKING:
    from exportlint.checks.shapes.trials import Trial

MOST_SIZES = 40  # that are kept: a report holds hundreds of models


@dataclass
class Errors:
    """The largest error of the calls of each size; the call itself is known of the largest of all."""

    _worst: dict[int, float] = field(default_factory=dict)
    _words: dict[int, str] = field(default_factory=dict)

    def note(self, trial: Trial, expected: Any, actual: Any) -> None:
        """Take note of a call."""
        tensors = (leaf for leaf in pytree.tree_leaves(trial.inputs) if isinstance(leaf, torch.Tensor))
        size = sum(tensor.numel() for tensor in tensors)
        if size not in self._worst and len(self._worst) >= MOST_SIZES:
            return
        error = relative_error(expected, actual)
        if error is not None and error >= self._worst.get(size, 0.0):
            self._worst[size], self._words[size] = error, trial.words

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """One for each size, from the smallest to the largest."""
        largest = max(self._worst, key=lambda size: self._worst[size], default=None)
        return tuple(
            Measurement.rounded(
                "error", error, size=size, label=one_line(self._words[size], 200) if size == largest and error else ""
            )
            for size, error in sorted(self._worst.items())
        )
