"""Calls that end the process of the check ``shapes``: replayed and made smaller."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import torch
from commands import marked
from torch import nn
from torch.export import Dim

from exportlint import ModelCase
from exportlint.checks.runner import Options, Runner
from exportlint.checks.shapes import journal, replay
from exportlint.shapes.contents import Recipe

HERE = Path(__file__)
ROWS = {"x": {0: Dim("rows", min=1, max=32)}}
X = torch.randn(4, 3)


@torch.library.custom_op("exportlint_tests::ends", mutates_args=())
def ends(x: torch.Tensor, how: str) -> torch.Tensor:
    if x.shape[0] >= 6 and how == "abort":
        os.abort()  # at: abort
    while x.shape[0] >= 6:
        time.sleep(0)  # at: hang
    return x.clone()


@ends.register_fake
def _(x, how):
    return torch.empty_like(x)


class Aborts(nn.Module):
    def forward(self, x):
        return ends(x, "abort")


class AbortsAsProgram(nn.Module):
    def forward(self, x):
        return ends(x, "abort") if torch.compiler.is_exporting() else x.clone()


class Hangs(nn.Module):
    def forward(self, x):
        return ends(x, "hang")


def shapes_of(model, *checks, timeout=300.0):
    with Runner(Options(checks=checks, timeout=timeout)) as runner:
        return {c.name: c for c in runner.check_object(ModelCase(model, (X,), dynamic_shapes=ROWS), "t").checks}


@pytest.mark.parametrize(
    ("model", "who", "rule"), [(Aborts, "eager model", "EXP002"), (AbortsAsProgram, "program", "EXP004")]
)
def test_a_call_that_aborts_is_replayed_and_made_smaller(model, who, rule):
    checks = shapes_of(model, "capture", "shapes", "twins")
    shapes = checks["shapes"]
    assert (checks["capture"].outcome, shapes.outcome) == ("passed", "crashed")
    assert shapes.reason == f"the {who} is killed by SIGABRT in a call inside the contract: x of shape [6, 3] (zeros)"
    (finding,) = shapes.findings
    assert (finding.rule, finding.line) == (rule, marked(HERE, "abort"))
    assert finding.rewrite.startswith("Let the model accept every call that") == (rule == "EXP002")
    assert "the smallest failing call: model(torch.zeros([6, 3]))" in shapes.notes
    assert "exportlint itself" not in (checks["twins"].reason or "")  # the other checks go on


@pytest.mark.slow
def test_a_call_that_hangs_is_replayed(monkeypatch):
    monkeypatch.setattr(replay, "CPU_SECONDS", 1.0)
    shapes = shapes_of(Hangs, "shapes", timeout=8.0)["shapes"]
    assert shapes.outcome == "timed_out"
    assert shapes.reason.startswith("the eager model does not end in a call inside the contract: x of shape [")


def test_a_journal_is_read_back(tmp_path):
    assert journal.read(str(tmp_path)) is None
    kept = journal.Journal(tmp_path / journal.NAME)
    assert journal.read(str(tmp_path)) is None
    entry = journal.Entry(
        "program", "x of shape [2]", "model(...)", {3: Recipe((2, 3), "torch.int64", "range", 5, 0, 9)}
    )
    kept.write(entry)
    kept.write(journal.Entry("eager model", "a far longer entry" * 9, "", {}))
    kept.write(entry)
    assert journal.read(str(tmp_path)) == entry
    kept.forget()
    assert journal.read(str(tmp_path)) is None
    journal.Journal().write(entry)  # without a file nothing happens
