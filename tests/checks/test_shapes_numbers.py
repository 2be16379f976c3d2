"""Python numbers that were asked to be dynamic: what is asked of them, granted, drawn and found."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from commands import marked
from hypothesis import HealthCheck, given, settings
from torch import nn
from torch.export import Dim

from exportlint import ModelCase, strategies
from exportlint.checks.context import Context, Settings
from exportlint.checks.shapes import check as shapes
from exportlint.shapes.contract import inferred

HERE = Path(__file__)
X = torch.randn(4, 6)
FREE = {"x": None, "n": Dim.AUTO}
QUICK = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None)


def case(forward, args=(X, 5), dynamic_shapes=FREE, **settings):
    model = type(forward.__name__.title(), (nn.Module,), {"forward": forward})
    return ModelCase(model, args, dynamic_shapes=dynamic_shapes, **settings)


def check(forward, *args, examples=20, **settings):
    context = Context(case(forward, *args, **settings), Settings((), examples), lambda _: None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return shapes.run(context)


def told(result):
    return [(f.rule, f.line, f.message) for f in result.findings if f.counts]


def scaled(self, x, n):
    return x * n


def baked(self, x, n):
    return x * float(int(n))  # at: baked


def narrowed(self, x, n):
    if n <= 10:  # at: narrowed
        return x * n
    return x


@pytest.mark.parametrize(
    ("dim", "example"),
    [(Dim.AUTO, 5), (Dim.DYNAMIC, 0), (Dim.AUTO, 1), (Dim.DYNAMIC, -3), (Dim.AUTO(min=2, max=9), 5)],
)
def test_a_number_that_stays_dynamic_is_no_finding(dim, example):
    found = check(scaled, (X, example), {"x": None, "n": dim})
    assert (found.outcome, found.findings) == ("passed", ())
    assert int(found.reason.split()[0]) > 5


def test_a_number_that_became_a_constant_is_found():
    found = check(baked)
    (message,) = {message for rule, line, message in told(found) if line == marked(HERE, "baked")}
    assert found.outcome == "failed"
    assert message == "n should be dynamic and became the constant 5"
    assert {rule for rule, _, _ in told(found)} == {"EXP301"}
    assert any(note.startswith("n: asked from 2, granted the constant 5 (") for note in found.notes)


def test_a_number_that_is_narrowed_is_told_with_its_range_and_the_smallest_call():
    found = check(narrowed)
    ((_, line, message),) = told(found)
    assert line == marked(HERE, "narrowed")
    assert message.endswith("it holds only while n <= 10")
    assert any(note.startswith("n: asked from 2, granted from 0 to 10 (") for note in found.notes)
    (code,) = [n for n in found.notes if n.startswith("the smallest failing call: ")]
    assert code == "the smallest failing call: model(torch.zeros([4, 6]), 11)"
    assert "n = 11" in found.findings[0].evidence


def test_a_declared_range_of_a_number_is_what_is_asked():
    asked = {"value_ranges": {"n": (3, 10)}}
    assert check(narrowed, **asked).outcome == "passed"
    assert told(check(narrowed, value_ranges={"n": (3, 20)}))


def negative(self, x, n):
    if not torch.compiler.is_exporting() and n < 0:  # at: negative
        return x
    return x * n


def above(self, x, n):
    if not torch.compiler.is_exporting() and n > 8:  # at: above
        return x
    return x * n


def test_a_number_outside_of_what_is_asked_must_not_be_answered_wrongly():
    assert [line for _, line, _ in told(check(negative))] == [marked(HERE, "negative")]
    kept = {"x": None, "n": Dim.AUTO(min=2, max=8)}
    assert told(check(above, (X, 5), kept)) == []  # torch checks the largest
    assert [line for _, line, _ in told(check(above))] == [marked(HERE, "above")]


def nested(self, x, options):
    return x * options["scales"][0] + float(int(options["scales"][1]))  # at: nested


def test_a_number_in_a_nested_argument():
    found = check(nested, (X, {"scales": [4, 4]}), {"x": None, "options": {"scales": [Dim.AUTO, Dim.AUTO]}})
    assert {(line, message) for _, line, message in told(found)} == {
        (marked(HERE, "nested"), "options['scales'][1] should be dynamic and became the constant 4")
    }


def numbered(self, x, n):
    return x + torch.arange(n)[:, None]


def test_a_number_that_must_be_a_size():
    related = {"x": {0: Dim.AUTO}, "n": Dim.AUTO}
    found = check(numbered, (X, 4), related)
    assert (found.outcome, told(found)) == ("passed", [])
    assert any(note.startswith("n: asked from 2, granted the same as x.shape[0]") for note in found.notes)
    found = check(numbered, (X, 4), None, inputs2=(torch.randn(7, 6), 7))
    assert (found.outcome, told(found)) == ("passed", [])


def test_numbers_that_differ_between_calls_are_dynamic_and_vary_with_sizes():
    made = inferred(nn.Identity(), ((X, 4), {}), ((torch.randn(7, 6), 7), {}))
    assert [leaf.words for leaf in made.leaves if leaf.asked] == ["args[0]", "args[1]"]
    assert {ask.root for leaf in made.leaves for ask in leaf.asked.values()} == {"4/7"}
    assert inferred(nn.Identity(), ((X, 4), {}), ((X, 4), {})).leaves[-1].words == "args[0]"
    found = check(baked, (X, 5), None, inputs2=(X, 7))
    assert "n should be dynamic and became the constant 5" in {message for _, _, message in told(found)}


@pytest.mark.parametrize(
    ("dynamic_shapes", "ranges", "lowest", "highest"),
    [
        (FREE, {}, 2, 12),
        ({"x": {0: Dim.AUTO}, "n": Dim.DYNAMIC(min=4, max=8)}, {}, 4, 8),
        (FREE, {"n": (-2, 3)}, -2, 3),
        ({"x": None, "n": None}, {}, 5, 5),
    ],
)
def test_numbers_are_drawn_inside_what_is_asked(dynamic_shapes, ranges, lowest, highest):
    seen = set()

    @QUICK
    @given(strategies.inputs(case(scaled, (X, 5), dynamic_shapes, value_ranges=ranges)))
    def draw(inputs):
        (x, n), _ = inputs
        assert type(n) is int
        assert x.shape[1] == 6
        seen.add(n)

    draw()
    assert (min(seen), max(seen)) == (lowest, highest)
