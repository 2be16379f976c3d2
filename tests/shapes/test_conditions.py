from __future__ import annotations

import re

import pytest
import sympy
import torch
from torch import nn
from torch.export import Dim
from torch.utils._sympy.functions import (
    FloatPow,
    FloorDiv,
    IntTrueDiv,
    Max,
    Mod,
    OpaqueUnaryFn_sqrt,
    ToFloat,
    TruncToInt,
)

from exportlint.shapes import conditions
from exportlint.shapes.contract import declared, granted
from exportlint.shapes.terms import terms
from exportlint.torch_hooks.guards import Guard, GuardLog

A, B, C = sympy.symbols("s0 s1 s2", integer=True, positive=True)
SOURCES = {"s0": "L['x'].size()[0]", "s1": "L['x'].size()[1]", "s2": "L['y'].size()[0]"}


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (sympy.Eq(Mod(8 * A, 24), 0), "x.shape[0] is divisible by 3"),
        (sympy.Eq(8 * A, 24 * FloorDiv(A, 3)), "x.shape[0] is divisible by 3"),
        (sympy.Eq(Mod(8 * A, 3 * FloorDiv(A, 3)), 0), "x.shape[0] is divisible by 3"),
        (sympy.Eq(FloorDiv(A, 2), A - FloorDiv(A, 2)), "x.shape[0] is divisible by 2"),
        (sympy.Eq(FloorDiv(A + 1, 2), FloorDiv(A, 2)), "x.shape[0] is divisible by 2"),
        (sympy.Eq(IntTrueDiv(A, 4), ToFloat(FloorDiv(A, 4))), "x.shape[0] is divisible by 4"),
        (sympy.Eq(Mod(A - 1, 3), 1), "x.shape[0] leaves 2 when divided by 3"),
        (sympy.Eq(Mod(A * B, 24), 0), "x.shape[0]*x.shape[1] is divisible by 24"),
        (sympy.Eq(A * B, 24 * FloorDiv(A * B, 24)), "x.shape[0]*x.shape[1] is divisible by 24"),
        (sympy.Eq(Mod(A * B, 4 * B), 0), "x.shape[0] is divisible by 4"),
        (sympy.Eq(6 * A * B, 12 * A * FloorDiv(B, 2)), "x.shape[1] is divisible by 2"),
        (sympy.Eq(Mod(8 * A, B), 0), "8*x.shape[0] is divisible by x.shape[1]"),
        (sympy.Eq(A * B, C * FloorDiv(A * B, C)), "x.shape[0]*x.shape[1] is divisible by y.shape[0]"),
        (
            sympy.Eq(3 * A * B, 768 * FloorDiv(A, 16) * FloorDiv(B, 16)),
            "x.shape[0] is divisible by 16 and x.shape[1] is divisible by 16",
        ),
        (
            sympy.Eq(A * B * C, 64 * C * FloorDiv(A, 4) * FloorDiv(B, 16)),
            "x.shape[0] is divisible by 4 and x.shape[1] is divisible by 16",
        ),
        # What is no divisibility, or more than that.
        (sympy.Eq(A, 4), "x.shape[0] == 4"),
        (sympy.Ne(FloorDiv(A, 2), 1), "x.shape[0] // 2 != 1"),
        (sympy.Eq(A * B, 24 * FloorDiv(A, 3)), "x.shape[0]*x.shape[1] == 24*(x.shape[0] // 3)"),
        (sympy.Eq(Mod(A, FloorDiv(A, 3)), 0), "x.shape[0] % (x.shape[0] // 3) == 0"),
        (sympy.Eq(FloorDiv(A + 3, 4), 2), "(x.shape[0] + 3) // 4 == 2"),
        (sympy.Eq(TruncToInt(0.5 * ToFloat(A)), 16), "int(0.5*x.shape[0]) == 16"),
        (sympy.Eq(TruncToInt(FloatPow(ToFloat(A), 0.5)), 3), "int(x.shape[0]**0.5) == 3"),
        (sympy.Eq(TruncToInt(OpaqueUnaryFn_sqrt(ToFloat(A))), 3), "int(sqrt(x.shape[0])) == 3"),
        (IntTrueDiv(A, B + 1) < 2, "x.shape[0] / (x.shape[1] + 1) < 2"),
        (sympy.Ne(Max(1, A - 8), B), "max(1, x.shape[0] - 8) != x.shape[1]"),
        (A * B < 100, "x.shape[0]*x.shape[1] < 100"),
        (sympy.Symbol("s9") < 100, "a size < 100"),
        (sympy.Symbol("u0") < 100, "a number that depends on the data < 100"),
    ],
)
def test_conditions_in_words(expression, words):
    assert conditions.words(Guard(expression, False, None, SOURCES)) == words


def test_a_factor_of_both_sides_decides_nothing():
    known = Guard(sympy.Eq(Mod(A * B, 4 * B), 0), False, None, {"s0": SOURCES["s0"], "s1": SOURCES["s1"]})
    assert conditions.sizes_of(known) == {SOURCES["s0"]}
    product = Guard(sympy.Eq(Mod(A * B, 4), 0), False, None, {"s0": SOURCES["s0"], "s1": SOURCES["s1"]})
    assert conditions.sizes_of(product) == {SOURCES["s0"], SOURCES["s1"]}


def by_fours(self, x):
    return x.view(x.shape[0], -1, 4) * 2


def test_a_size_that_is_not_divided_is_granted_as_asked():
    model, shapes = type("Model", (nn.Module,), {"forward": by_fours})(), {"x": {0: Dim.AUTO, 1: Dim.AUTO}}
    with GuardLog() as log:
        program = torch.export.export(model, (torch.ones(3, 8),), dynamic_shapes=shapes, strict=False)
    found = terms(declared(model, ((torch.ones(3, 8),), {}), shapes), granted(program), log.guards)
    assert [(term.grant, term.granted) for term in found][1] == ("divisible", "where x.shape[1] is divisible by 4")
    assert "x.shape[1] is divisible" not in found[0].granted


def grouped(self, x):
    return x.view(-1, 24)


def thirds(self, x):
    return x.view(x.shape[0] // 3, 3, -1)


def halves(self, x):
    return x[: x.shape[0] // 2] + x[x.shape[0] // 2 :]


@pytest.mark.parametrize("forward", [grouped, thirds, halves])
@pytest.mark.parametrize("dims", [(0,), (0, 1)])
def test_what_torch_asks_for_is_told_in_words(forward, dims):
    model, shapes = type("Model", (nn.Module,), {"forward": forward})(), {"x": dict.fromkeys(dims, Dim.DYNAMIC)}
    args = (torch.ones(12, 8),)
    with GuardLog() as log:
        program = torch.export.export(model, args, dynamic_shapes=shapes, strict=False)
    found = terms(declared(model, (args, {}), shapes), granted(program), log.guards)
    told = [term.granted for term in found]
    by = r"3|24|2" if dims == (0,) or forward is not thirds else r"3\*\(x\.shape\[0\] // 3\)"
    assert re.search(rf"^where x\.shape.* is divisible by ({by})$", told[0])
    assert not any(re.search(r"\b[su]\d+\b|Eq\(|Mod\(", words) for words in told)


PADDED = A + Mod(-A, 4)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (sympy.Le(-A, -4, evaluate=False), "x.shape[0] >= 4"),
        (sympy.Le(C - B + A, 0, evaluate=False), "x.shape[0] + y.shape[0] <= x.shape[1]"),
        (sympy.Lt(A - B, 3, evaluate=False), "x.shape[0] < x.shape[1] + 3"),
        (sympy.Ge(4 - A, B, evaluate=False), "x.shape[0] + x.shape[1] <= 4"),
        (sympy.Le(A, 4, evaluate=False), "x.shape[0] <= 4"),
    ],
)
def test_nothing_is_subtracted_in_an_inequality(expression, words):
    assert conditions.words(Guard(expression, False, None, SOURCES)) == words


@pytest.mark.parametrize(
    ("expression", "sizes"),
    [
        (sympy.Ne(8 * A * FloorDiv(B, 4), 0), {B}),
        (sympy.Ne(8 * A * FloorDiv(B, 4) * FloorDiv(B, FloorDiv(B, 4)), 0), {B}),
        (A + C <= B, {A, B, C}),
        (A * B < 100, {A, B}),
        (A * B < 10_000_000, {A, B}),
        (sympy.Eq(A, B), {A, B}),
    ],
)
def test_what_decides_nothing_in_a_condition_is_left_out(expression, sizes):
    guard = Guard(expression, False, None, {str(s): SOURCES[str(s)] for s in expression.free_symbols})
    assert conditions.sizes_of(guard) == {SOURCES[str(symbol)] for symbol in sizes}


@pytest.mark.parametrize(
    ("expression", "always"),
    [
        (sympy.Eq(Mod(PADDED, 4), 0), True),
        (sympy.Eq(Mod(PADDED, FloorDiv(PADDED, 4)), 0), True),
        (sympy.Eq(FloorDiv(A + FloorDiv(A + 1, 2) - 1, FloorDiv(A + 1, 2)), 2), True),
        (sympy.Le(B * A, A * (B - 1) + A, evaluate=False), True),
        (sympy.Eq(Mod(A, 4), 0), False),
        (sympy.Ne(FloorDiv(A, 2), 1), False),
        (sympy.Ne(Mod(A, 700), 690), False),
        (A <= 100_000, False),
        (A * B <= 100_000, False),
        (sympy.Ne(A, 5000), False),
    ],
)
def test_what_holds_for_every_size(expression, always):
    assert conditions.always(expression) == always
