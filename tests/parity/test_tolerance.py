"""What a float64 run allows, and when it says nothing."""

from __future__ import annotations

import torch

from exportlint.parity.tolerance import by_reference

EPS = torch.finfo(torch.float32).eps


def test_a_reference_of_other_random_numbers_allows_nothing():
    """Not even one that happens to be twenty times smaller: rounding noise shrinks by orders more in float64."""
    eager = torch.tensor([600000.0, 700000.0], dtype=torch.float64)
    assert by_reference(eager, eager / 20, EPS) is None


def test_values_that_are_nothing_but_rounding_error_are_judged_by_it():
    eager = torch.tensor([3e-8, -2e-8], dtype=torch.float64)
    allowed = by_reference(eager, eager * 1e-9, EPS)
    assert allowed is not None
    assert allowed.worst >= 3e-8
