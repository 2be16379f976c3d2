from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim

from exportlint.shapes import hints
from exportlint.shapes.contract import declared
from exportlint.shapes.edges import Asked

ROWS = Dim("rows", min=3, max=8)


class Model(nn.Module):
    def forward(self, x, y, z):
        return x


def tied(shapes, *equal):
    """The variables of the contract where the model takes only calls in which these places are equal."""
    args = (torch.ones(4, 4), torch.ones(4, 4), torch.ones(4))
    asked = declared(Model(), (args, {}), shapes)
    found = hints.tied(asked, lambda made: all(made[i][d] == made[j][k] for (i, d), (j, k) in equal))
    return [[f"{leaf.words}{d}" for leaf, d, _ in uses] for uses in Asked(found).uses.values()], found


def test_hints_are_tied_to_what_they_must_equal_and_to_nothing_else():
    auto = {"x": {0: Dim.AUTO, 1: Dim.AUTO}, "y": {0: Dim.AUTO, 1: Dim.AUTO}, "z": {0: Dim.AUTO}}
    assert tied(auto, ((0, 0), (1, 0)), ((0, 1), (1, 1)))[0] == [["x0", "y0"], ["x1", "y1"], ["z0"]]
    assert tied(auto, ((0, 0), (1, 0)), ((1, 0), (2, 0)))[0] == [["x0", "y0", "z0"], ["x1"], ["y1"]]
    assert len(tied(auto)[0]) == 5


def test_a_hint_follows_a_dim_in_the_bounds_of_both():
    groups, found = tied({"x": {0: ROWS}, "z": {0: Dim.AUTO(min=2, max=6)}}, ((0, 0), (2, 0)))
    assert groups == [["x0", "z0"]]
    assert {(ask.minimum, ask.maximum) for _, _, ask in found.asked} == {(3, 6)}


def test_what_is_declared_apart_stays_apart():
    groups, _ = tied({"x": {0: ROWS}, "y": {0: Dim("other")}}, ((0, 0), (1, 0)))
    assert groups == [["x0"], ["y0"]]
