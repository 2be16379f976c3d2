from __future__ import annotations

import collections
from collections import deque
from dataclasses import dataclass

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
    assert found.imports[0] == "from torch.export import Dim"
    namespace = {}
    exec("; ".join(found.imports), namespace)
    program = export(eval(found.code, namespace))
    return found, program


Pair = collections.namedtuple("Pair", ["first", "second"])


@dataclass
class Record:
    pair: Pair
    missing: torch.Tensor | None
    y: torch.Tensor


torch.export.register_dataclass(Record, serialized_type_name="exportlint_tests.CorrectedRecord")


def several(self, x, y):
    if x.shape[0] % 4 == 0:
        x = x * 2
    return x[:, :8].sum() + y.sum()


def added(self, x, y):
    return x + y


def shifted(self, x, y):
    return x + y[1:]


def shifted_back(self, x, y):
    return x[1:] + y


def shifted_twice(self, x, y, z):
    return x[2:] + y[1:] + z


def shortened(self, x, y):
    return x[:-3] * 2 + y[4:]


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


def thirds(self, x):
    return x * 2 if (4 * x.shape[0]) % 12 == 0 else x


def odd(self, x):
    return x * 2 if (x.shape[0] + 1) % 2 == 0 else x


def sixths(self, x):
    x = x * 2 if x.shape[0] % 2 == 0 else x
    return x * 2 if x.shape[0] % 3 == 0 else x


def related(self, x, y, z):
    return x.sum() + y + z[1:, :1]


def divided(self, x, y):
    return x.sum() + y * 2 if y.shape[0] % 2 == 0 else y


def unequal(self, x, y):
    return (x if x.shape[0] == 9 else x * 2).sum() + y


def first_eight(self, x):
    return x[:, :8] * 2


T = Dim("t", min=2, max=64)


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
        # The smallest is the root: torch takes no difference without an upper bound.
        (
            shifted_back,
            (torch.ones(5, 6), X),
            {"x": {0: Dim("b")}, "y": {0: Dim("c")}},
            "{'x': {0: Dim('c') + 1}, 'y': {0: Dim('c')}}",
        ),
        (
            shifted_back,
            (torch.ones(5, 6), X),
            {"x": {0: Dim("b", min=3, max=64), 1: Dim("n")}, "y": {0: Dim("c"), 1: Dim("m")}},
            "{'x': {0: Dim('c', min=2, max=63) + 1, 1: Dim('n')}, 'y': {0: Dim('c', min=2, max=63), 1: Dim('n')}}",
        ),
        (
            shifted_twice,
            (torch.ones(6, 2), torch.ones(5, 2), torch.ones(4, 2)),
            {"x": {0: Dim("b")}, "y": {0: Dim("c")}, "z": {0: Dim("d")}},
            "{'x': {0: Dim('d') + 2}, 'y': {0: Dim('d') + 1}, 'z': {0: Dim('d')}}",
        ),
        (
            shortened,
            (torch.ones(8, 2), torch.ones(9, 2)),
            {"x": {0: Dim("b")}, "y": {0: Dim("c")}},
            "{'x': {0: Dim('b', min=5)}, 'y': {0: Dim('b', min=5) + 1}}",
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
        (
            several,
            (X, Y),
            {"x": {0: Dim("b")}, "y": {0: Dim("b")}},
            "{'x': {0: 4 * Dim('b_4', min=2) - 4}, 'y': {0: 4 * Dim('b_4', min=2) - 4}}",
        ),
        (several, (X, Y), {"x": {0: Dim("b", max=64)}, "y": None}, "{'x': {0: Dim.DYNAMIC(max=64)}, 'y': None}"),
        # Linear forms of a size: the divisor is what is left of it.
        (thirds, (torch.ones(6, 2),), {"x": {0: Dim("b", max=64)}}, "{'x': {0: 3 * Dim('b_3', max=21)}}"),
        (odd, (torch.ones(7, 2),), {"x": {0: Dim("b", max=64)}}, "{'x': {0: 2 * Dim('b_2', max=31) + 1}}"),
        (odd, (torch.ones(3, 2),), {"x": {0: Dim("b", max=64)}}, "{'x': {0: 2 * Dim('b_2', min=1, max=32) - 1}}"),
        (sixths, (torch.ones(12, 2),), {"x": {0: Dim("b")}}, "{'x': {0: 6 * Dim('b_6')}}"),
        # Relations of the user and of the program together.
        (
            related,
            (torch.ones(8, 2), X, torch.ones(5, 2)),
            {"x": {0: 2 * Dim("b", max=30)}, "y": {0: Dim("b", max=30)}, "z": {0: Dim("c", max=9)}},
            "{'x': {0: 2 * Dim('b', max=8)}, 'y': {0: Dim('b', max=8)}, 'z': {0: Dim('b', max=8) + 1}}",
        ),
        (
            divided,
            (torch.ones(8, 2), X),
            {"x": {0: 2 * Dim("b", max=30)}, "y": {0: Dim("b", max=30)}},
            "{'x': {0: 4 * Dim('b_2', max=15)}, 'y': {0: 2 * Dim('b_2', max=15)}}",
        ),
        (first_eight, (torch.ones(4, 20),), {"x": {1: T}}, "{'x': {1: Dim('t', min=9, max=64)}}"),
        # What no name can say is left to torch, within the ranges that were asked for.
        (
            unequal,
            (X, Y),
            {"x": {0: Dim("b", min=3, max=64)}, "y": {0: Dim("c", max=8)}},
            "{'x': {0: Dim.DYNAMIC(min=3, max=64)}, 'y': {0: Dim('c', max=8)}}",
        ),
    ],
)
def test_what_is_suggested_was_exported(forward, args, shapes, code):
    found, _ = tried(forward, args, shapes)
    assert (found.code, found.lost) == (code, ())


def of_a_tuple(self, p):
    return p.first + p.second[0]["a"]


def of_a_record(self, r):
    return r.pair.first + r.y


def of_a_deque(self, q):
    return q[0] + q[1]


PAIR = Pair(X, ({"a": Y, "n": 3},))


@pytest.mark.parametrize(
    ("forward", "args", "shapes", "code"),
    [
        (
            of_a_tuple,
            (PAIR,),
            {"p": Pair({0: Dim("b", max=64)}, ({"a": {0: Dim("c")}, "n": None},))},
            "{'p': Pair(first={0: Dim('b', max=64)}, second=({'a': {0: Dim('b', max=64)}, 'n': None},))}",
        ),
        (
            of_a_record,
            (Record(Pair(X, []), None, Y),),
            {"r": [Pair({0: Dim("b")}, []), {0: Dim("c", max=9)}]},
            "{'r': [Pair(first={0: Dim('b', max=9)}, second=[]), {0: Dim('b', max=9)}]}",
        ),
        (
            of_a_deque,
            (deque([X, Y]),),
            {"q": deque([{0: Dim("b")}, {0: Dim("c")}])},
            "{'q': deque([{0: Dim('b')}, {0: Dim('b')}])}",
        ),
    ],
)
def test_what_is_suggested_for_nested_inputs_can_be_pasted(forward, args, shapes, code):
    found, _ = tried(forward, args, shapes)
    assert found.code == code


def test_relations_that_only_hints_are_left_for_are_told():
    def bounded_away(self, x, y):
        return (x if x.shape[0] == 9 else x * 2).sum() + y

    shapes = {"x": {0: Dim("b", min=3, max=64)}, "y": {0: Dim("b", min=3, max=64)}}
    found, program = tried(bounded_away, (X, Y), shapes)
    hint = "{0: Dim.DYNAMIC(min=3, max=64)}"
    assert (found.code, found.lost) == (f"{{'x': {hint}, 'y': {hint}}}", ("x.shape[0] and y.shape[0]",))
    assert {(int(r.lower), int(r.upper)) for r in program.range_constraints.values()} == {(3, 64)}


def test_nothing_is_suggested_where_nothing_exports():
    def branching(self, x):
        return x * 2 if x.sum() > 0 else x

    model = type("Model", (nn.Module,), {"forward": branching})
    contract = declared(model(), ((X,), {}), {"x": {0: Dim("b")}})

    def export(wanted):
        return torch.export.export(model(), (X,), dynamic_shapes=wanted, strict=False)

    assert corrected(model(), ((X,), {}), contract, export, list) is None
