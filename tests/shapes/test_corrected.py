from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

from exportlint.shapes.contract import declared
from exportlint.shapes.corrected import corrected
from exportlint.torch_hooks.guards import GuardLog

X, Y = torch.ones(4, 6), torch.ones(4, 6)


def tried(forward, args, shapes):
    """What is suggested, and whether torch exports with it."""
    model = type("Model", (nn.Module,), {"forward": forward})
    log = GuardLog()

    def export(wanted):
        log.guards.clear()
        with log:
            return torch.export.export(model(), args, dynamic_shapes=wanted, strict=False)

    with pytest.raises(Exception, match=r"onstraints violated|0/1 specialized"):
        export(shapes)
    contract = declared(model(), (args, {}), shapes)
    found = corrected(model(), (args, {}), contract, export, lambda: log.guards)
    export(eval(found.code, {"Dim": Dim}))
    return found.code


def several(self, x, y):
    if x.shape[0] % 4 == 0:
        x = x * 2
    return x[:, :8].sum() + y.sum()


def added(self, x, y):
    return x + y


def shifted(self, x, y):
    return x + y[1:]


def pinned(self, x):
    return x[: int(x.shape[0])].view(4, -1)


def bounded(self, x):
    return x if x.shape[0] <= 8 else x * 2


def halves(self, x):
    return x.view(x.shape[0] // 2, 2, -1)


def nested(self, x):
    return x["a"] * 2 + x["b"][0][:4]


def doubled(self, x):
    return x * 2


@pytest.mark.parametrize(
    ("forward", "args", "shapes", "code"),
    [
        (
            several,
            (torch.ones(8, 6), Y),
            {"x": {0: Dim("b"), 1: Dim("n")}, "y": {0: Dim("m")}},
            "{'x': {0: 4 * Dim('b_4'), 1: Dim('n', max=7)}, 'y': {0: Dim('m')}}",
        ),
        (
            added,
            (X, Y),
            {"x": {0: Dim("b", max=64)}, "y": {0: Dim("c")}},
            "{'x': {0: Dim('b', max=64)}, 'y': {0: Dim('b', max=64)}}",
        ),
        (
            shifted,
            (X, torch.ones(5, 6)),
            {"x": {0: Dim("b")}, "y": {0: Dim("c")}},
            "{'x': {0: Dim('b')}, 'y': {0: Dim('b') + 1}}",
        ),
        (pinned, (X,), {"x": {0: Dim("b"), 1: Dim("n")}}, "{'x': {1: Dim('n')}}"),
        (bounded, (X,), {"x": {0: Dim("b", min=2, max=64)}}, "{'x': {0: Dim('b', min=2, max=8)}}"),
        (halves, (X,), {"x": {0: Dim("b", min=2, max=64)}}, "{'x': {0: 2 * Dim('b_2', min=1, max=32)}}"),
        (
            nested,
            ({"a": X, "b": [Y]},),
            {"x": {"a": {0: Dim("b")}, "b": [{0: Dim("c")}]}},
            "{'x': {'a': None, 'b': [{0: Dim('c', min=4)}]}}",
        ),
        (doubled, (torch.ones(1, 6),), {"x": {0: Dim.DYNAMIC}}, "{'x': None}"),
        (several, (X, Y), {"x": {0: Dim("b")}, "y": {0: Dim("b")}}, "{'x': {0: Dim.DYNAMIC}, 'y': {0: Dim.DYNAMIC}}"),
    ],
)
def test_what_is_suggested_was_exported(forward, args, shapes, code):
    assert tried(forward, args, shapes) == code


def test_nothing_is_suggested_where_nothing_exports():
    def branching(self, x):
        return x * 2 if x.sum() > 0 else x

    model = type("Model", (nn.Module,), {"forward": branching})
    contract = declared(model(), ((X,), {}), {"x": {0: Dim("b")}})

    def export(wanted):
        return torch.export.export(model(), (X,), dynamic_shapes=wanted, strict=False)

    assert corrected(model(), ((X,), {}), contract, export, list) is None
