from __future__ import annotations

import sys
from pathlib import Path

import torch
from commands import marked
from torch import nn

from exportlint.checks import divergence
from exportlint.places import Place

HERE = Path(__file__)


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        x = self.linear(x)
        if x.shape[0] > 4:  # at: branch
            return x * 2
        return self.helper(x)

    def helper(self, x):
        total = x
        for row in x:  # at: loop
            total = total + row
        return total


def calls(one, two):
    model = Branching()
    return divergence.place(lambda: model(torch.ones(one, 3)), lambda: model(torch.ones(two, 3)))


def test_the_line_that_decides():
    assert calls(4, 9) == Place(str(HERE), marked(HERE, "branch"))


def test_a_loop_that_runs_more_often():
    assert calls(2, 3) == Place(str(HERE), marked(HERE, "loop"))


def test_calls_that_run_the_same_lines():
    assert calls(3, 3) is None
    assert calls(7, 9) is None


def test_a_call_that_raises_on_the_way():
    def fails(x):
        y = x.view(2, -1)  # at: view
        y += 1
        return y

    assert divergence.place(lambda: fails(torch.ones(4)), lambda: fails(torch.ones(3))) == Place(
        str(HERE), marked(HERE, "view")
    )


def test_the_tracer_that_was_there_comes_back():
    seen = []

    def mine(frame, event, argument):
        seen.append(event)

    previous = sys.gettrace()
    sys.settrace(mine)
    try:
        calls(2, 2)
        assert sys.gettrace() is mine
    finally:
        sys.settrace(previous)


def test_lines_are_those_of_the_users_code_alone():
    model = Branching()
    lines = divergence.lines_of(lambda: model(torch.ones(1, 3)))
    assert lines
    assert {file for file, _ in lines} == {str(HERE)}
