from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim

from exportlint.shapes.contract import declared, wanted
from exportlint.shapes.shrinking import Shrinker
from exportlint.shapes.strategies import Space


class Model(nn.Module):
    def forward(self, x, y):
        return x


ARGS = (torch.ones(9, 7), torch.ones(9, 5))


def smallest(fails, shapes, tries=60):
    contract = declared(Model(), (ARGS, {}), shapes)
    space = Space((ARGS, {}), contract, wanted(contract), {})
    start = space.call(
        {leaf.index: leaf.shape for leaf in contract.leaves}, lambda kinds, layouts: ("normal", 3, layouts[-1])
    )
    tried = []

    def count(recipes):
        tried.append(recipes)
        return fails(space.made(recipes).inputs[0])

    assert fails(start.inputs[0])
    found = Shrinker(space, count, tries).shrink(start.recipes)
    assert len(tried) <= tries
    return {i: (made.shape, made.kind, made.layout) for i, made in found.items()}


B, N = Dim("b", min=2), Dim("n", min=1)
SHAPES = {"x": {0: B, 1: N}, "y": {0: B}}


def test_sizes_and_contents():
    found = smallest(lambda args: args[0].shape[1] >= 4, SHAPES)
    assert found == {0: ((2, 4), "zeros", "contiguous"), 1: ((2, 5), "zeros", "contiguous")}


def test_dimensions_that_vary_together_shrink_together():
    found = smallest(lambda args: args[0].shape[0] == args[1].shape[0] >= 5, SHAPES)
    assert (found[0][0], found[1][0]) == ((5, 1), (5, 5))


def test_dimensions_that_the_model_alone_wants_equal():
    apart = {"x": {0: Dim("a"), 1: N}, "y": {0: Dim("c")}}
    found = smallest(lambda args: args[0].shape[0] == args[1].shape[0] >= 3, apart)
    assert (found[0][0], found[1][0]) == ((3, 1), (3, 5))


def test_contents_that_matter_are_kept():
    found = smallest(lambda args: float(args[0].var(unbiased=False)) > 0, SHAPES)
    assert found[0] == ((2, 1), "normal", "contiguous")
    assert found[1] == ((2, 5), "zeros", "contiguous")
    found = smallest(lambda args: float(args[0].abs().sum()) > 0, SHAPES)
    assert found[0] == ((2, 1), "constant", "contiguous")  # plainer than random numbers
    found = smallest(lambda args: args[0].stride(0) == 0, SHAPES)
    assert found[0][1:] == ("zeros", "expanded")


def test_a_failure_that_comes_back_at_some_sizes_only():
    found = smallest(lambda args: args[0].shape[0] % 3 == 0 and args[0].shape[1] in (3, 7), SHAPES)
    assert found[0][0] == (3, 3)


def test_sizes_come_before_the_contents_of_each_of_many_tensors():
    found = smallest(lambda args: args[0].stride(0) == 0 and args[0].shape[0] >= 3, SHAPES, tries=12)
    assert found[0][0] == (3, 1)


def test_no_more_tries_than_allowed():
    assert smallest(lambda args: args[0].shape[1] >= 4, SHAPES, tries=2)[0][0][1] >= 4
