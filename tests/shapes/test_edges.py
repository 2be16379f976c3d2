from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import Dim

from exportlint.shapes import edges
from exportlint.shapes.contract import declared, granted
from exportlint.shapes.edges import Asked
from exportlint.shapes.strategies import Space
from exportlint.torch_hooks.guards import GuardLog

HERE = Path(__file__)
X = torch.ones(4, 6)
BOTH = {"x": {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}}


def module(forward):
    return type("Model", (nn.Module,), {"forward": forward})()


def space_and_guards(forward, args, shapes, affordable=None):
    model = module(forward)
    with GuardLog() as log:
        program = torch.export.export(model, args, dynamic_shapes=shapes, strict=False)
    contract = declared(model, (args, {}), shapes)
    return Space((args, {}), contract, granted(program), {}, affordable), log.guards


def sliced(self, x):
    return x[:, :8]


def product(self, x):
    return x * 2 if x.shape[0] * x.shape[1] <= 100 else x


def even(self, x):
    return x * 2 if x.shape[0] % 2 == 0 else x


def not_seven(self, x):
    return x * 2 if x.shape[0] == 7 else x


def free(self, x):
    return x * 2


@pytest.mark.parametrize(
    ("forward", "kept", "violated"),
    [
        (sliced, (4, 7), (4, 8)),
        (product, None, None),
        (even, (4, 6), (5, 6)),
        (not_seven, (6, 6), (7, 6)),
    ],
)
def test_both_sides_of_a_guard(forward, kept, violated):
    space, guards = space_and_guards(forward, (X,), BOTH)
    found = {
        (flip.kept[0], flip.violated[0])
        for flip, *_ in edges.flips(space, guards)
        if flip.guard.place.file == str(HERE)
    }
    if kept is not None:
        assert (kept, violated) in found
    else:
        ((inner, outer),) = found
        assert inner[0] * inner[1] <= 100 < outer[0] * outer[1]
        assert sum(abs(a - b) for a, b in zip(inner, outer, strict=True)) == 1


def test_sizes_that_are_one_to_the_program_change_together():
    def doubled(self, x, y):
        z = x.repeat_interleave(2, 0) + y
        return z if z.shape[0] <= 20 else z[:20]

    space, guards = space_and_guards(doubled, (X, torch.ones(8, 6)), {"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}})
    (limit,) = (ways for ways in edges.flips(space, guards) if "20" in ways[0].guard.text)
    assert [(flip.kept[i][0], flip.violated[i][0]) for flip in limit[:1] for i in (0, 1)] == [(10, 11), (20, 22)]
    assert all(ways[0].violated[1][0] != 2 * ways[0].violated[0][0] for ways in edges.flips(space, guards[:1]))


def test_a_program_without_guards_has_no_sides():
    assert list(edges.flips(*space_and_guards(free, (X,), BOTH))) == []


def test_sides_that_cost_too_much_are_left_out():
    def huge(self, x):
        return x * 2 if x.shape[0] < 100_000 else x

    space, guards = space_and_guards(huge, (X,), BOTH)
    assert len(list(edges.flips(space, guards))) == 1
    space, guards = space_and_guards(huge, (X,), BOTH, lambda sizes: max(sizes.values()) < 1000)
    assert list(edges.flips(space, guards)) == []


def test_dimensions_that_vary_together_have_one_variable():
    batch, half = Dim("batch", min=2, max=16), Dim("half", min=1, max=8)
    args = (torch.ones(4, 6), torch.ones(4, 6))
    shapes = {"x": {0: batch, 1: 2 * half}, "y": {0: batch, 1: 2 * half + 0}}
    asked = Asked(declared(module(lambda self, x, y: x + y), (args, {}), shapes))
    assert set(asked.uses) == {"batch", "half"}
    assert asked.example("half") == 3
    assert asked.bounds("half") == (1, 8)
    assert asked.shapes({"batch": 5, "half": 4}) == {0: (5, 8), 1: (5, 8)}


def test_sizes_that_torch_treats_apart():
    space, _ = space_and_guards(free, (X,), BOTH)
    assert [o.shapes[0] for o in edges.special(space)] == [(1, 1), (1, 6), (4, 1), (0, 0), (0, 6), (4, 0)]


def test_shapes_outside_of_the_contract():
    batch, half = Dim("batch", min=3, max=16), Dim("half", min=1, max=8)

    def pair(self, x, y):
        return x * 2, y * 2

    args = (torch.ones(4, 6, 5), torch.ones(4, 6))
    shapes = {"x": {0: batch, 1: 2 * half}, "y": {0: batch}}
    space, _ = space_and_guards(pair, args, shapes)
    found = {o.words: (o.shapes[0], o.shapes[1]) for o in edges.outside(space)}
    assert found == {
        "x.shape[0] above 16": ((17, 6, 5), (17, 6)),
        "x.shape[0] below 3": ((2, 6, 5), (2, 6)),
        "y.shape[0] other than x.shape[0]": ((4, 6, 5), (5, 6)),
        "x.shape[1] above 16": ((4, 18, 5), (4, 6)),
        "x.shape[1] other than 2*half": ((4, 7, 5), (4, 6)),
        "x.shape[2] other than 5": ((4, 6, 6), (4, 6)),
        "y.shape[1] other than 6": ((4, 6, 5), (4, 7)),
    }


def test_other_sizes_of_one_dimension():
    contract = declared(module(free), ((X,), {}), {"x": {0: Dim("n", max=6)}})
    assert [shapes[0] for shapes in edges.others(contract, contract.leaves[0], 0)] == [(5, 6), (3, 6)]
