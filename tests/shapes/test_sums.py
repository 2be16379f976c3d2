from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch import nn
from torch.export import AdditionalInputs

from exportlint import strategies
from exportlint.shapes import sums
from exportlint.shapes.contract import declared, inferred, keeps_relations
from exportlint.shapes.edges import Asked
from exportlint.shapes.sums import Relation

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None)
PAST, NEW = (5, 7, 2), (3, 4, 6)


class Model(nn.Module):
    def forward(self, x, past, mask):
        return torch.cat([past, x], 1) * mask[..., None]


def decoding(batch, new, past, more=0):
    return (torch.randn(batch, new, 4), torch.randn(batch, past, 4), torch.ones(batch, past + new + more)), {}


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        ({PAST: {0}, NEW: {1}, (8, 11, 8): {2}}, {(8, 11, 8): Relation((NEW, PAST))}),
        ({(5, 7): {0}, (3, 4): {1}, (8, 11): {2}}, {(8, 11): Relation(((3, 4), (5, 7)))}),
        ({PAST: {0}, (6, 8, 3): {1}}, {(6, 8, 3): Relation((PAST,), offset=1)}),
        ({PAST: {0}, (10, 14, 4): {1}}, {(10, 14, 4): Relation((PAST,), factor=2)}),
        ({PAST: {0}, NEW: {1}, (9, 12, 9): {2}}, {(9, 12, 9): Relation((NEW, PAST), offset=1)}),
        # clean: nothing follows from two calls where a number is in it, nor where all grow by one factor
        ({(5, 7): {0}, (6, 8): {1}}, {}),
        ({(5, 7): {0}, (10, 14): {1}}, {}),
        ({(2, 4): {0}, (3, 6): {1}, (5, 10): {2}}, {}),
        # nor of two sizes of one tensor, which are made larger by the same, nor of three of one
        ({(2, 3, 4): {0, 1}, (5, 6, 7): {1}}, {}),
        ({PAST: {0}, NEW: {0}, (8, 11, 8): {1}}, {}),
        ({PAST: {0}, NEW: {1}, (8, 11, 9): {2}}, {}),
    ],
)
def test_what_follows_other_sizes_in_every_call(owners, expected):
    assert sums.relations(owners) == expected


@pytest.mark.parametrize("more", [0, 1])
def test_draws_and_edges_keep_what_holds_in_every_call(more):
    calls = [decoding(2, 3, 5, more), decoding(3, 4, 7, more), decoding(5, 6, 2, more)]
    asked = inferred(Model(), *calls)
    ask = asked.leaves[2].asked[1]
    assert ask.words == f"x.shape[1] + past.shape[1]{' + 1' if more else ''} from {4 + more}"
    shapes = Asked(asked).shapes({asked.leaves[0].asked[1].root: 9})
    assert (shapes[0][1], shapes[1][1], shapes[2][1]) == (9, 5, 14 + more)
    seen = set()

    @QUICK
    @given(strategies.shapes(asked))
    def check(shapes):
        assert shapes["mask"][1] == shapes["x"][1] + shapes["past"][1] + more
        assert shapes["mask"][0] == shapes["x"][0] == shapes["past"][0]
        seen.add(shapes["x"][1] - shapes["past"][1])

    check()
    assert len(seen) > 5
    sizes = {leaf.size(d): size for leaf in asked.leaves for d, size in enumerate(leaf.shape)}
    assert keeps_relations(asked, sizes)
    assert not keeps_relations(asked, sizes | {"L['mask'].size()[1]": 99})


def test_calls_of_additional_inputs_say_what_varies_together():
    added = AdditionalInputs()
    for sizes in ((3, 4, 7), (5, 6, 2)):
        added.add(decoding(*sizes)[0])
    asked = declared(Model(), decoding(2, 3, 5), added)
    assert asked.leaves[0].asked[0] == asked.leaves[1].asked[0]
    assert asked.leaves[2].asked[1].follows == "x.shape[1] + past.shape[1]"
