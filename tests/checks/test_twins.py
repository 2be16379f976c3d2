"""Programs that depend on the example that they were exported from."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import nn

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
        case(Branch, dynamic_shapes=None),
    ],
)
def test_one_program_for_both_examples_is_silent(same):
    result = check(same)
    assert (result.outcome, alarms(result), result.notes) == ("passed", [], ()), result


def test_a_model_that_is_not_captured_is_not_checked():
    class Breaks(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    result = check(ModelCase(Breaks, args=(torch.ones(2),)))
    assert (result.outcome, result.reason) == ("not_checked", "the model is not captured")
    result = check(ModelCase(Sum, args=(torch.ones(2),)))
    assert (result.outcome, result.reason) == ("not_checked", "the model does not run: the eager call fails")
