"""The node at which the backward pass of a program parts."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from exportlint.parity.backward import backward_parting


class Reverses(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)  # reversed

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()  # rounded

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Net(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.first, self.last, self.function = nn.Linear(4, 6), nn.Linear(6, 2), function

    def forward(self, x):
        h = self.first(x).tanh()  # tanh
        return self.last(self.function(h)).square().sum() + h.mean()  # the end


def plain(h):
    return h * 2


def hooked(h):
    if h.requires_grad:
        h.register_hook(lambda gradient: gradient.clamp(-1e-3, 1e-3))
    return h


def written(h):
    return h.clone().mul_(3).add_(h)


def found(function):
    torch.manual_seed(0)
    model, x = Net(function), torch.randn(3, 4)
    program = torch.export.export(model, (x,), strict=False)
    return backward_parting(model, lambda: model(x), program, [x], lambda run, flat: run(*flat))


@pytest.mark.parametrize(
    ("function", "operator", "to", "line"),
    [
        (Straight.apply, "aten.round.default", "tanh", "# rounded"),
        (lambda h: Straight.apply(h * 4), "aten.round.default", "mul", "# rounded"),
        (hooked, "aten.tanh.default", "linear", "# tanh"),
        (Reverses.apply, "aten.view_as.default", "tanh", "# reversed"),
    ],
)
def test_the_node_that_passes_another_gradient_back(function, operator, to, line):
    parted = found(function)
    assert parted is not None
    assert (parted.at.operator, parted.to) == (operator, to)
    assert parted.place is not None
    assert parted.place.source.endswith(line)
    assert f"({operator})" in str(parted)
    assert str(parted).startswith("backwards they part in ")


@pytest.mark.parametrize("function", [plain, written, nn.Identity()])
def test_right_gradients_do_not_part(function):
    assert found(function) is None
