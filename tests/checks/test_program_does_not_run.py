"""Programs that were captured and do not run, or hold what no check can read: checks say so, and are not at fault."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from exportlint import ModelCase
from exportlint.checks import jobs
from exportlint.checks.context import Context, Settings


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.graph = nn.Linear(4, 4)

    def forward(self, x):
        return self.graph(x)


class Codes(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("code", torch.randn(5, 4))

    def forward(self, x):
        return self.code[torch.cdist(x, self.code).argmin(-1)]


class Force(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4))

    def energy(self, x):
        return torch.tanh(x @ self.w).sum()

    def forward(self, x):
        return -torch.func.grad(self.energy)(x)


def check(name, model):
    case = ModelCase(model, (torch.randn(2, 4),), inputs2=(torch.randn(3, 4),))
    return jobs.run_check(name, Context(case, Settings((), 2), lambda _: None))


@pytest.mark.parametrize("model", [Towers, Codes])
@pytest.mark.parametrize("name", ["twins", "state", "shapes"])
def test_a_program_that_does_not_run_is_no_fault_of_the_check(name, model):
    result = check(name, model)
    assert result.outcome != "errored", result.reason
    assert not (result.reason or "").startswith("exportlint itself failed")


def test_what_is_missing_is_told():
    result = check("state", Codes)
    assert result.outcome == "not_checked"
    assert result.reason == "the program does not run: KeyError: \"attribute 'code' already exists\""


def test_constants_of_a_transform_hold_no_numbers():
    result = check("twins", Force)
    assert result.outcome != "errored", result.reason
