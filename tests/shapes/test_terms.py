from __future__ import annotations

from pathlib import Path

import pytest
import torch
from commands import marked
from torch import nn
from torch.export import Dim

from exportlint.shapes.advice import CHANGES
from exportlint.shapes.contract import declared, granted
from exportlint.shapes.terms import terms
from exportlint.torch_hooks.guards import GuardLog

X, Y = torch.ones(4, 6), torch.ones(4, 6)
AUTO = {0: Dim.AUTO, 1: Dim.AUTO}


def of(forward, args, shapes):
    model = type("Model", (nn.Module,), {"forward": forward})()
    with GuardLog() as log:
        program = torch.export.export(model, args, dynamic_shapes=shapes, strict=False)
    found = terms(declared(model, (args, {}), shapes), granted(program), log.guards)
    return {term.name: term for term in found}


def free(self, x):
    return x * 2


def pinned(self, x):
    return x + torch.ones(int(x.shape[0]), 1)


def sliced(self, x):
    return x[:8] * 2


def even(self, x):
    return x * 2 if x.shape[0] % 2 == 0 else x


def product(self, x):
    return x * 2 if x.shape[0] * x.shape[1] < 100 else x


def equal(self, x, y):
    return x + y


def half(self, x):
    return x + torch.ones(int(x.shape[0] * 0.5)).sum()


def fours(self, x):
    return sum(part.sum() for part in x.split(4))


def shifted(self, x, y):
    return x[1:] + y


@pytest.mark.parametrize(
    ("forward", "args", "grant", "words"),
    [
        (free, (X,), "as asked", "x.shape[0]: asked from 2, granted as asked"),
        (pinned, (X,), "constant", "x.shape[0]: asked from 2, granted the constant 4"),
        (sliced, (X,), "range", "x.shape[0]: asked from 2, granted from 2 to 7"),
        (even, (X,), "divisible", "x.shape[0]: asked from 2, granted where x.shape[0] is divisible by 2"),
        (product, (X,), "bound", "x.shape[0]: asked from 2, granted where x.shape[1]*x.shape[0] < 100"),
        (half, (X,), "bound", "x.shape[0]: asked from 2, granted where int(0.5*x.shape[0]) == 2"),
        (
            fours,
            (torch.ones(10, 2),),
            "range",
            "x.shape[0]: asked from 2, granted from 8 where (x.shape[0] + 3) // 4 == 3",
        ),
        (equal, (X, Y), "equal", "x.shape[0]: asked from 2, granted the same as y.shape[0]"),
        (shifted, (torch.ones(5, 6), Y), "related", None),
    ],
)
def test_what_is_granted_of_a_hint(forward, args, grant, words):
    term = of(forward, args, dict.fromkeys("xy"[: len(args)], AUTO))["x.shape[0]"]
    assert term.grant == grant
    if words is not None:
        assert term.words == words
    assert grant == "as asked" or (term.guards and grant in CHANGES)


def test_what_was_asked_for_by_name_is_granted():
    batch, half = Dim("batch", min=2, max=64), Dim("half", min=1, max=8)
    shapes = {"x": {0: batch, 1: 2 * half}, "y": {0: batch, 1: 2 * half}}
    found = of(equal, (X, Y), shapes)
    assert {term.grant for term in found.values()} == {"as asked"}
    assert found["x.shape[0]"].words == "x.shape[0]: asked batch from 2 to 64, granted as asked"


def twice(self, x, y):
    return torch.cat([x, x]) + y


def joined(self, x, y, z):
    return torch.cat([x, y]) + z


X8 = torch.ones(8, 6)


@pytest.mark.parametrize(
    ("forward", "args", "shapes", "name", "granted"),
    [
        (twice, (X, X8), {"x": AUTO, "y": AUTO}, "y.shape[0]", "2*x.shape[0]"),
        (twice, (X, X8), {"x": {0: 2 * Dim("b")}, "y": AUTO}, "y.shape[0]", "4*b"),
        (joined, (X, Y, X8), dict.fromkeys("xyz", AUTO), "z.shape[0]", "x.shape[0] + y.shape[0]"),
        (equal, (X, Y), {"x": {0: 2 * Dim("b")}, "y": AUTO}, "y.shape[0]", "2*b"),
    ],
)
def test_what_is_granted_is_told_in_the_users_names(forward, args, shapes, name, granted):
    told = of(forward, args, shapes)[name].granted
    assert set(told.split(" + ")) == set(granted.split(" + "))


def merged_then_pinned(self, x, y):
    h = x + y
    return h + torch.ones(int(h.shape[0]), 1)  # at: pins


def test_what_pins_one_of_several_equal_sizes_is_why_all_are_constant():
    found = of(merged_then_pinned, (X, Y), {"x": AUTO, "y": AUTO})
    for name in ("x.shape[0]", "y.shape[0]"):
        assert found[name].granted == "the constant 4"
        assert {g.place.line for g in found[name].guards} == {marked(Path(__file__), "pins")}
        assert len(found[name].guards) == 1
    assert (found["x.shape[1]"].grant, found["y.shape[1]"].grant) == ("equal", "equal")


def halves(self, x):
    one, other = x.chunk(2, 1)
    return one.sum(1) + other.sum(1)


def doubled_then_pinned(self, x, y):
    h = x + y + torch.ones(int(x.shape[0]), 1)
    return h.view(2, -1)


def windows(self, x):
    return x.view(x.shape[0], x.shape[1] // 3, 3, 2).sum(1)


def test_conditions_that_narrow_nothing_are_not_told():
    assert all("== 2" not in term.granted for term in of(halves, (X,), {"x": AUTO}).values())
    found = of(doubled_then_pinned, (X, Y), {"x": AUTO, "y": AUTO})
    assert "where" not in found["x.shape[1]"].granted  # 4 times a size is a multiple of 2
    found = of(windows, (torch.ones(4, 6, 2),), {"x": AUTO})
    assert found["x.shape[0]"].grant == "as asked"
    assert found["x.shape[1]"].granted == "where x.shape[1] is divisible by 3"


def squares(self, x):
    side = int(x.shape[1] ** 0.5)
    return x.view(x.shape[0], side, side, -1).mean(1)


def test_what_leaves_some_sizes_is_told_beside_a_multiple():
    found = of(squares, (torch.ones(2, 9, 4),), {"x": {0: Dim.AUTO, 1: Dim.AUTO}})
    assert found["x.shape[1]"].granted == "where x.shape[1] is divisible by 9 and int(x.shape[1]**0.5) == 3"
