from __future__ import annotations

import math

import pytest
import torch

from exportlint.parity.relative_error import relative_error

X = torch.tensor([1.0, -4.0, 2.0])


def test_the_largest_difference_beside_the_largest_value():
    assert relative_error({"y": X}, {"y": X + torch.tensor([0.0, 0.0, 1.0])}) == 0.25
    assert relative_error((X, X), (X, 2 * X)) == 1.0


def test_what_is_equal_has_none():
    assert relative_error((X, 3), (X.clone(), 3)) == 0.0
    assert relative_error(torch.zeros(2), torch.zeros(2)) == 0.0
    assert relative_error(torch.zeros(2), torch.ones(2)) == 1.0


def test_values_that_are_not_finite_do_not_count():
    odd = torch.tensor([math.nan, math.inf, 2.0])
    assert relative_error(odd, odd) == 0.0
    assert relative_error(odd, torch.tensor([0.0, 0.0, 1.0])) == 0.5


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (3, 3),
        (torch.arange(3), torch.arange(3)),
        (X, X[:2]),
        (X, (X,)),
        (torch.empty(0), torch.empty(0)),
        (torch.full((2,), math.nan), torch.ones(2)),
        (X.to("meta"), X.to("meta")),
        (X.to_sparse(), X.to_sparse()),
    ],
)
def test_where_there_is_nothing_to_compare(expected, actual):
    assert relative_error(expected, actual) is None
