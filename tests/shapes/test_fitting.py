"""Sizes that guards leave."""

from __future__ import annotations

import pytest
import sympy
import torch
from hypothesis import HealthCheck, given, settings
from torch import nn
from torch.export import Dim
from torch.utils._sympy.functions import FloorDiv, Mod

from exportlint.shapes.contract import declared, granted
from exportlint.shapes.fitting import Fitting, nearest
from exportlint.shapes.strategies import Space
from exportlint.torch_hooks.guards import Guard, GuardLog

A, B = sympy.symbols("s0 s1", integer=True, positive=True)
SOURCES = {"s0": "L['x'].size()[0]", "s1": "L['x'].size()[1]"}


def guard(expression):
    return Guard(expression, False, None, {str(symbol): SOURCES[str(symbol)] for symbol in expression.free_symbols})


@pytest.mark.parametrize(
    ("expression", "fits", "misfits"),
    [
        (sympy.Eq(Mod(A, 24), 0), (48, 5), (47, 5)),
        (sympy.Eq(Mod(A, 6), 5), (11, 5), (12, 5)),
        (sympy.Eq(2 * FloorDiv(A - 1, 4) + 2, FloorDiv(A - 1, 2) + 1), (31, 5), (30, 5)),
        (A <= 64, (64, 5), (65, 5)),
        (sympy.Eq(A * B, 256 * FloorDiv(A, 16) * FloorDiv(B, 16)), (32, 48), (32, 40)),
        (sympy.Eq(Mod(A * B, 8), 0), (3, 8), (3, 4)),
    ],
)
def test_sizes_that_keep_a_guard(expression, fits, misfits):
    found = Fitting([guard(expression)])
    assert found.holds(dict(zip(SOURCES.values(), fits, strict=True)))
    assert not found.holds(dict(zip(SOURCES.values(), misfits, strict=True)))


def test_a_relation_of_two_sizes_leaves_every_single_one():
    found = Fitting([guard(sympy.Eq(A, 2 * B)), guard(A * B < 100)])
    assert not Fitting([guard(A * B < 100)])
    assert found.together == [frozenset(SOURCES.values())]
    assert found.holds(dict.fromkeys(SOURCES.values(), 50))


def test_the_nearest_size_that_fits():
    assert nearest(50, 2, 100, lambda n: n % 24 == 0) == 48
    assert nearest(5, 2, 100, lambda n: n % 24 == 0) == 24
    assert nearest(5, 2, 20, lambda n: n % 24 == 0) == 5


def patches(self, x):
    return x.view(-1, x.shape[1] // 24, 24) * 2


def test_calls_are_drawn_in_sizes_that_fit():
    model, shapes = type("Model", (nn.Module,), {"forward": patches})(), {"x": {0: Dim.AUTO, 1: Dim.AUTO}}
    args = (torch.ones(3, 48),)
    with GuardLog() as log:
        program = torch.export.export(model, args, dynamic_shapes=shapes, strict=False)
    contract = declared(model, (args, {}), shapes)
    space = Space((args, {}), contract, granted(program), {}, fits=Fitting(log.guards))
    swept = [drawn.recipes[0].shape for drawn in space.sweep(10)]
    assert {columns % 24 for _, columns in swept} == {0}
    assert len({columns for _, columns in swept}) > 2
    seen = []

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(space.drawn())
    def check(drawn):
        seen.append(drawn.recipes[0].shape[1])

    check()
    fit = sum(columns % 24 == 0 for columns in seen)
    assert len(seen) / 2 < fit < len(seen)  # others are drawn too
