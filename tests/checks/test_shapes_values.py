"""Contents that the check ``shapes`` tries: masks, and values that no example has."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from commands import marked
from torch import nn
from torch.export import Dim

from exportlint import ModelCase
from exportlint.checks.context import Context, Settings
from exportlint.checks.shapes import check as shapes

HERE = Path(__file__)
X = torch.randn(4, 6)
FREE = {"x": {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}}


def check(forward, args, **settings):
    model = type(forward.__name__.title(), (nn.Module,), {"forward": forward})
    context = Context(ModelCase(model, args, **settings), Settings((), 20), lambda _: None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return shapes.run(context)


def lines(result):
    return [f.line for f in result.findings if f.counts]


def hidden_row(self, x, mask):
    shown = mask if mask.dtype == torch.bool else mask > -1
    if not torch.compiler.is_exporting() and not shown.any(-1).all() and shown.any():  # at: hidden row
        return x
    return x * 2


@pytest.mark.parametrize("mask", [torch.ones(4, 6, dtype=torch.bool), torch.zeros(4, 6)])
def test_a_mask_that_hides_one_row_is_tried(mask):
    mask[0, 4:] = False if mask.dtype == torch.bool else -torch.inf
    found = check(hidden_row, (X, mask))
    assert (found.outcome, lines(found)) == ("failed", [marked(HERE, "hidden row")])
    assert "mask of shape [4, 6] (empty row)" in found.findings[0].evidence


def negative(self, x):
    if not torch.compiler.is_exporting() and x.min() < 0:  # at: negative
        return x - 1
    return x


def probable(self, x):
    if x.shape[0] and not torch.compiler.is_exporting() and not ((x >= 0) & (x <= 1)).all():
        raise ValueError("no probabilities")
    return torch.log(x + 1)


def test_an_example_between_0_and_1_hides_no_other_values():
    x = X.abs() / X.abs().max()
    found = check(negative, (x,), dynamic_shapes=FREE)
    assert (found.outcome, lines(found)) == ("failed", [marked(HERE, "negative")])
    assert lines(check(negative, (x,), dynamic_shapes=FREE, value_ranges={"x": (0, 1)})) == []
    found = check(probable, (x,), dynamic_shapes=FREE)  # what the model refuses is no example
    assert (found.outcome, lines(found)) == ("passed", [])


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(30, 4)

    def forward(self, ids, offsets):
        return self.bag(ids, offsets)


class Descending(nn.Module):
    def forward(self, x, lengths):
        if not torch.compiler.is_exporting() and bool((lengths[1:] > lengths[:-1]).any()):
            raise ValueError("lengths must descend")
        return x * (torch.arange(x.shape[1]) < lengths[:, None])


@pytest.mark.parametrize(
    ("model", "args", "dims"),
    [
        (
            Packed,
            (torch.randint(0, 30, (12,)), torch.tensor([0, 4, 8])),
            {"ids": {0: Dim("n", min=8)}, "offsets": None},
        ),
        (
            Descending,
            (torch.randn(4, 6), torch.tensor([6, 5, 3, 1])),
            {"x": {0: Dim("b", min=1)}, "lengths": {0: Dim("b", min=1)}},
        ),
    ],
)
def test_values_that_the_model_takes_no_others_for_are_kept(model, args, dims):
    result = shapes.run(Context(ModelCase(model, args, dynamic_shapes=dims), Settings((), 20), lambda _: None))
    assert (result.outcome, result.findings) == ("passed", ())
    assert int(result.reason.split()[0]) >= 15
    assert not any("the eager model refused" in note for note in result.notes)
