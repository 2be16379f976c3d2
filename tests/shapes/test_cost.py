from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

from exportlint.shapes import cost
from exportlint.shapes.contract import declared, granted
from exportlint.shapes.cost import Cost


class Outer(nn.Module):
    def forward(self, x):
        return x.unsqueeze(0) * x.unsqueeze(1)


X = torch.ones(8)


def of(seconds, shapes=None):
    shapes = shapes or {"x": {0: Dim("n")}}
    program = torch.export.export(Outer(), (X,), dynamic_shapes=shapes)
    contract = declared(Outer(), ((X,), {}), shapes)
    return Cost(program, granted(program), contract.leaves, seconds)


def test_bytes_are_those_of_all_values():
    n = 100
    inputs, views, result = n * 4, 2 * n * 4, n * n * 4
    assert of(1e-3).bytes_of({"L['x'].size()[0]": n}) == inputs + views + result


class Attends(nn.Module):
    def forward(self, q, k):
        return nn.functional.scaled_dot_product_attention(q, k, k)


def test_attention_costs_as_many_scores_as_there_are_pairs():
    q, k = torch.ones(2, 3, 5, 4), torch.ones(2, 3, 7, 4)
    dims = {"q": {2: Dim("n")}, "k": {2: Dim("m")}}
    program = torch.export.export(Attends(), (q, k), dynamic_shapes=dims)
    contract = declared(Attends(), ((q, k), {}), dims)
    found = Cost(program, granted(program), contract.leaves, 1e-3)
    rows = {"L['q'].size()[2]": 50, "L['k'].size()[2]": 70}
    values = 2 * 3 * 4 * 4 * (50 + 70 + 50)  # both arguments and the result, of four bytes each
    assert found.bytes_of(rows) == values + 2 * 3 * 50 * 70 * 2 * 4


def test_a_call_may_not_take_more_memory_than_there_is(monkeypatch):
    monkeypatch.setattr(cost, "memory_left", lambda: cost.SHARE * 4 * 100**2)
    assert of(1e-9).affords({"L['x'].size()[0]": 98})
    assert not of(1e-9).affords({"L['x'].size()[0]": 101})


def test_a_call_may_not_take_longer_than_two_seconds():
    slow = of(1.0)
    assert slow.affords({"L['x'].size()[0]": 8})
    assert slow.affords({"L['x'].size()[0]": 11})
    assert not slow.affords({"L['x'].size()[0]": 12})


def test_a_call_as_small_as_the_example_is_always_affordable(monkeypatch):
    monkeypatch.setattr(cost, "memory_left", lambda: 0)
    assert of(100.0).affords({"L['x'].size()[0]": 8})
    assert not of(100.0).affords({"L['x'].size()[0]": 9})


def test_a_size_that_is_a_constant_to_the_program_counts_in_proportion():
    constant = of(1e-3, {"x": None})
    assert constant.bytes_of({"L['x'].size()[0]": 16}) == pytest.approx(2 * constant.bytes_of({"L['x'].size()[0]": 8}))


def test_memory_that_is_left_is_a_number_of_bytes():
    assert 2**20 < cost.memory_left() < 2**50


def flattened(self, x):
    return x.reshape(-1, 12)


def joined(self, x, y, z):
    return torch.cat([x, y]) + z


@pytest.mark.parametrize(
    ("forward", "shapes"),
    [(flattened, {"x": (4, 6)}), (joined, {"x": (4, 6), "y": (5, 6), "z": (9, 6)})],
)
def test_sizes_that_a_value_has_no_part_of_cost_nothing_there(forward, shapes):
    model = type("Model", (nn.Module,), {"forward": forward})()
    args = tuple(torch.ones(shape) for shape in shapes.values())
    auto = {name: {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO} for name in shapes}
    program = torch.export.export(model, args, dynamic_shapes=auto)
    leaves = declared(model, (args, {}), auto).leaves
    made = Cost(program, granted(program), leaves, 1e-3)
    sizes = {leaf.size(d): 1 for leaf in leaves for d in range(2)}  # no row of 12
    assert 0 < made.bytes_of(sizes) < made.bytes_of(dict.fromkeys(sizes, 24))
