"""What else would fail after a capture failed: only what a plain export of the mended model refuses too."""

from __future__ import annotations

import pytest
import torch

from exportlint.checks import explore
from exportlint.checks.case import ModelCase
from exportlint.checks.context import Context, Settings


class Model(torch.nn.Module):
    """Fails at a branch; `then` comes after it."""

    def __init__(self, then, branch=True):
        super().__init__()
        self.then, self.branch = then, branch

    def forward(self, x):
        if self.branch and x.sum() > 0:
            x = x + 1
        return self.then(x)


def offset_in_a_table(x):
    rows = x[x[:, 0] > 0]
    return torch.arange(20.0)[10 - rows.size(0) :] * rows.sum()


def decision_on_a_count(x):
    rows = x[x[:, 0] > 0]
    return rows.sum() if rows.size(0) > 2 else rows.mean()


def lines_of(then):
    case = ModelCase(lambda: Model(then), (torch.ones(4, 3),), name="model")
    found = explore.draft_findings(Context(case, Settings(("capture",)), lambda _: None))
    return [f.line for f in found if f.line is not None and f.line > then.__code__.co_firstlineno]


def exports(then):
    try:
        torch.export.export(Model(then, branch=False), (torch.ones(4, 3),), strict=False)
    except Exception:
        return False
    return True


@pytest.mark.parametrize("then", [offset_in_a_table, decision_on_a_count])
def test_a_line_is_said_to_fail_as_well_exactly_where_a_plain_export_fails_there(then):
    assert bool(lines_of(then)) == (not exports(then))


def test_both_kinds_are_tried():
    assert exports(offset_in_a_table)
    assert not exports(decision_on_a_count)
