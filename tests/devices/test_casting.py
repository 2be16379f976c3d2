"""Programs in bfloat16: cast as users cast them, and in float32 with the precision of bfloat16."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from exportlint.devices import casting

X = torch.linspace(-2, 3, 12).view(3, 4)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 4)
        self.outside = torch.ones(4) / 3

    def forward(self, x, scale=1.0):
        y = self.linear(x).clone()
        y[:, 0] = 0
        y[:, 1:].mul_(2)
        return y * self.outside, x.argmax(1), scale


def exported(model, *args):
    with torch.no_grad():
        return torch.export.export(model, args, strict=False)


def test_a_cast_program_is_what_torch_makes_of_it():
    program = exported(Net(), X)
    found = casting.run_cast(program, ((X,), {}))
    wanted = exported(Net(), X).module(check_guards=False).to(torch.bfloat16)(X.to(torch.bfloat16))
    assert [leaf.dtype for leaf in found[:2]] == [torch.float32, torch.int64]  # constants are not cast
    assert torch.equal(found[0], wanted[0])
    assert program.state_dict["linear.weight"].dtype == torch.float32


def test_a_cast_program_that_raises_names_the_line():
    class Island(nn.Module):
        def forward(self, x):
            return x.exp().float()

    with pytest.raises(casting.CastProgramError) as caught:
        casting.run_cast(exported(Island(), X), ((X,), {}))
    assert caught.value.place.source == "return x.exp().float()"
    assert "dtype mismatch" in str(caught.value.__cause__)


def test_rounding_has_the_error_of_bfloat16():
    exact, rounded = casting.run_rounded(exported(Net(), X), ((X,), {}), 3)
    eager = Net().to(torch.bfloat16)(X.to(torch.bfloat16))
    errors = [casting.distance(exact, each) for each in rounded]
    assert len(errors) == 4
    assert all(2**-10 < error < 2**-4 for error in errors)
    assert len(set(errors)) > 1  # runs are disturbed
    assert casting.distance(exact, list(eager)) < 4 * max(errors)


@pytest.mark.parametrize(
    ("other", "wanted"),
    [
        ([torch.tensor([1.0, -4.0]), torch.tensor([7])], 0.0),
        ([torch.tensor([1.0, -3.0]), torch.tensor([7])], 0.25),
        ([torch.tensor([1.0, -4.0]), torch.tensor([8])], 0.0),
        ([torch.tensor([1.0, math.nan]), torch.tensor([7])], math.inf),
        ([torch.tensor([1.0]), torch.tensor([7])], math.inf),
    ],
)
def test_distance(other, wanted):
    assert casting.distance([torch.tensor([1.0, -4.0]), torch.tensor([7])], other) == wanted


def test_random_numbers_are_seen_in_nested_graphs_too():
    class Drawn(nn.Module):
        def forward(self, x):
            with torch.autocast("cpu", enabled=False):
                return nn.functional.dropout(x, 0.5, training=True)

    assert casting.draws_random_numbers(exported(Drawn(), X))
    assert not casting.draws_random_numbers(exported(Net(), X))
