"""Programs that depend on the example that they were exported from."""

from __future__ import annotations

import itertools
import math
import os
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils import _pytree as pytree

from exportlint.checks import twins
from exportlint.checks.case import ModelCase
from exportlint.checks.context import Context, Settings


def line_of(marker):
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {marker}"))


class Sum(nn.Module):
    def forward(self, x):
        return x.sum(1) / x.shape[1]


class Short(nn.Module):
    def forward(self, x):
        return x[:, :8].sum(1)  # short


class Branch(nn.Module):
    def forward(self, x):
        return x.exp() if x.shape[1] > 8 else x * 2  # branch


class Unrolled(nn.Module):
    def forward(self, x):
        parts = [piece.exp() for piece in x.split(4, 1)]  # unrolled
        return torch.cat(parts, 1)


class Listed(nn.Module):
    def forward(self, x):
        parts = self.parts(x)
        return torch.stack(parts).sum(0)

    def parts(self, x):
        return list(x)  # listed


class Looped(nn.Module):
    def forward(self, x):
        return self.scan(x)

    def scan(self, x):
        total, length = torch.zeros_like(x[:, 0]), int(x.shape[1])  # looped
        for i in range(length):
            total = total * 0.5 + x[:, i]
        return total


DYNAMIC = ({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC},)


def case(kind, sizes=(2, 6), second=(3, 12), dynamic_shapes=DYNAMIC):
    examples = [torch.linspace(-1, 1, math.prod(size)).view(size) for size in (sizes, second)]
    return ModelCase(kind, args=(examples[0],), inputs2=(examples[1],), dynamic_shapes=dynamic_shapes)


def check(case):
    return twins.run(Context(case, Settings(("twins",)), lambda _: None))


def alarms(result):
    return [(f.rule, f.severity, f.line, f.evidence) for f in result.findings if f.severity != "info"]


@pytest.mark.parametrize(("kind", "line"), [(Branch, line_of("branch")), (Unrolled, line_of("unrolled"))])
def test_a_program_that_depends_on_the_size_of_the_example(kind, line):
    result = check(case(kind))
    assert [found[:3] for found in alarms(result)] == [("EXP301", "warning", line)], result
    assert result.outcome == "failed"
    assert result.reason.endswith("another example gives another program")


@pytest.mark.parametrize(("kind", "line"), [(Listed, line_of("listed")), (Looped, line_of("looped"))])
def test_a_size_that_every_program_holds_as_a_constant_is_told_where_it_became_one(kind, line):
    result = check(case(kind, dynamic_shapes=None))
    assert [found[:3] for found in alarms(result)] == [("EXP301", "warning", line)], result


def test_dimensions_in_which_two_calls_differ_are_dynamic_without_a_word_of_the_case():
    result = check(case(Branch, dynamic_shapes=None))
    assert [found[:3] for found in alarms(result)] == [("EXP301", "warning", line_of("branch"))], result


class Cache:
    """Makes its tensors anew each time it is flattened."""

    def __init__(self, keys):
        self.keys = keys


pytree.register_pytree_node(
    Cache,
    lambda cache: ([cache.keys.clone()], None),
    lambda keys, _: Cache(*keys),
    serialized_type_name="test_twins.Cache",
    flatten_with_keys_fn=lambda cache: ([(pytree.GetAttrKey("keys"), cache.keys.clone())], None),
)


class Cached(nn.Module):
    def __init__(self, branch):
        super().__init__()
        self.branch = branch

    def forward(self, x, cache, start):
        keys = torch.cat([cache.keys, x], 1) * start
        return keys.exp() if self.branch and keys.shape[1] > 12 else keys * 2  # cached


@pytest.mark.parametrize("branch", [True, False])
def test_a_cache_and_a_number_among_the_arguments(branch):
    calls = [((torch.ones(2, 3), Cache(torch.ones(2, length)), start), {}) for length, start in ((7, 2), (14, 4))]
    result = check(ModelCase(lambda: Cached(branch), *calls[0], inputs2=calls[1], name="cached"))
    assert [found[:3] for found in alarms(result)] == [("EXP301", "warning", line_of("cached"))] * branch, result
    assert branch or (result.outcome, result.reason) == ("passed", "size and dtype"), result


def test_a_size_that_is_pinned_from_one_example_only():
    result = check(case(Short, (2, 8), (3, 12), dynamic_shapes=None))
    assert [found[3] for found in alarms(result)] == ["dimension 1 of input 0 may be 8 only or 8 and more"], result


def test_an_export_that_works_from_one_example_only():
    result = check(case(Unrolled, (2, 4), (3, 5)))
    ((rule, severity, line, evidence),) = alarms(result)
    assert (rule, severity, line) == ("EXP301", "warning", line_of("unrolled"))
    assert evidence.startswith("the export from the second example call fails: UserError: Constraints violated")


@pytest.mark.parametrize(
    ("dynamic_shapes", "note"),
    [
        (({1: torch.export.Dim("n", max=8)},), "not in range [2, 8]"),
        (({0: (n := torch.export.Dim("n")), 1: n},), "is not equal to"),
    ],
)
def test_a_second_example_that_the_case_does_not_allow_for_is_a_note(dynamic_shapes, note):
    result = check(case(Sum, (6, 6), (2, 12), dynamic_shapes=dynamic_shapes))
    assert (result.outcome, alarms(result)) == ("passed", [])
    assert note in result.notes[0]


def test_a_second_example_that_the_model_refuses_is_a_note():
    class Pairs(nn.Module):
        def forward(self, x):
            return x.view(x.shape[0], -1, 2).sum(1)

    result = check(case(Pairs, (2, 6), (3, 7)))
    assert (result.outcome, alarms(result)) == ("passed", [])
    assert result.notes[0].startswith("the second example call fails: RuntimeError: shape '[3, -1, 2]' is invalid")


@pytest.mark.parametrize(
    ("first", "second", "where"),
    [((1, 6), (3, 6), "dimension 0 of input 0 is 1"), ((2, 6), (2, 0), "dimension 1 of input 0 is 0")],
)
def test_sizes_that_torch_keeps_as_they_are_are_a_note(first, second, where):
    result = check(case(Sum, first, second, dynamic_shapes=None))
    assert (result.outcome, result.reason, alarms(result)) == ("passed", "dtype", [])
    assert result.notes == (
        f"the programs of the two example calls were not compared: {where} in one of them, which torch keeps as it is",
    )
    assert check(case(Sum, (1, 6), (1, 7), dynamic_shapes=None)).notes == ()


def test_another_order_of_results_is_another_program():
    class Sorted(nn.Module):
        def forward(self, x):
            one, other = x.sum(1), x.amax(1)
            return (one, other) if x.shape[1] > 8 else (other, one)

    assert [found[3] for found in alarms(check(case(Sorted)))] == ["other results are returned"]


# How a length is used, and the sides of it that a program cannot tell: what is captured depends on nothing else.
SIDES = {
    "slice": (lambda x: x[:, :6].sum(1), lambda n: (n > 6) - (n < 6)),
    "branch": (lambda x: x * 3 if x.shape[1] > 6 else x * 2, lambda n: n > 6),
    "loop": (lambda x: sum(x[:, i] for i in range(x.shape[1] // 6 + 1)), lambda n: n // 6),
    "pieces": (lambda x: torch.cat([p * 2 for p in x.split(6, 1)], 1), lambda n: -(-n // 6)),
    "rounded": (lambda x: x[:, : int(x.shape[1] * 0.5)].sum(1), lambda n: n // 2),
    "smaller": (lambda x: x[:, : min(6, x.shape[1])].sum(1), lambda n: 0),
    "padded": (lambda x: nn.functional.pad(x, (0, -x.shape[1] % 6)), lambda n: 0),
    "half": (lambda x: x[:, x.shape[1] // 2 :].sum(1), lambda n: 0),
    "mean": (lambda x: x.sum(1) / x.shape[1], lambda n: 0),
    "positions": (lambda x: x + torch.arange(x.shape[1]), lambda n: 0),
    "flat": (lambda x: x.flatten().view(x.shape[0], -1), lambda n: 0),
    "chunks": (lambda x: x.chunk(2, 1)[0], lambda n: 0),
    "returned": (lambda x: (x * 2, x.shape[1]), lambda n: 0),
}


LENGTHS = st.integers(2, 8) | st.integers(9, 20)


@pytest.mark.slow
@settings(max_examples=30)
@given(st.sampled_from(sorted(SIDES)), LENGTHS, LENGTHS, st.booleans())
def test_a_program_depends_on_the_example_where_the_sizes_are_on_two_sides(name, one, other, declared):
    function, side = SIDES[name]

    class Model(nn.Module):
        def forward(self, x):
            return function(x)

    numbers = [torch.arange(rows * n).view(rows, n) for rows, n in ((2, one), (3, other))]  # whole: no axis of dtypes
    dims = ({0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO},) if declared else None
    result = check(ModelCase(Model, args=(numbers[0],), inputs2=(numbers[1],), dynamic_shapes=dims))
    assert result.outcome == ("failed" if side(one) != side(other) else "passed"), result


def test_another_range_alone_is_enough():
    result = check(case(Short))
    assert [found[0] for found in alarms(result)] == ["EXP301"], result


@pytest.mark.parametrize(
    "same",
    [
        case(Sum),
        case(Branch, (2, 9), (3, 12)),
        case(Short, (2, 6), (3, 7)),
        case(Branch, second=(2, 6)),
        case(Branch, (1, 6), (2, 12), ({0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO},)),
        case(Branch, (2, 9), (3, 12), dynamic_shapes=None),
        case(Sum, dynamic_shapes=None),
    ],
)
def test_one_program_for_both_examples_is_silent(same):
    result = check(same)
    assert (result.outcome, alarms(result)) == ("passed", []), result
    assert all("which torch keeps as it is" in note for note in result.notes)


def test_a_model_that_is_not_captured_is_not_checked():
    class Breaks(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    result = check(ModelCase(Breaks, args=(torch.ones(2),)))
    assert (result.outcome, result.reason) == ("not_checked", "the model is not captured")
    result = check(ModelCase(Sum, args=(torch.ones(2),)))
    assert (result.outcome, result.reason) == ("not_checked", "the model does not run: the eager call fails")


UNSTEADY = {
    "a factor that is drawn": lambda x: x * (os.urandom(1)[0] + os.urandom(1)[0] / 7 + 1),
    "a branch that is drawn": lambda x: x * 1e3 if os.urandom(1)[0] > 127 else x.exp(),
    "a counter": lambda x: x * 10.0 ** next(COUNTER),
    "a branch by a counter": lambda x: x * 1e3 if next(COUNTER) % 2 else x.exp(),
}
COUNTER = itertools.count(1)


@pytest.mark.parametrize("name", UNSTEADY)
def test_a_model_that_differs_from_itself_is_not_blamed_for_its_dtype(name):
    function = UNSTEADY[name]

    class Model(nn.Module):
        def forward(self, x):
            return function(x)

    found = [check(ModelCase(Model, args=(torch.linspace(-1, 1, 12),))) for _ in range(4)]
    assert [alarms(result) for result in found] == [[]] * 4, found
    if "factor" in name or name == "a counter":
        assert {result.outcome for result in found} == {"not_checked"}
        assert "differs from itself with the same seeds" in found[0].reason
