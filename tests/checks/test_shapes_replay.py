"""Calls that end the process of the check ``shapes``: replayed and made smaller."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from commands import marked
from torch import nn
from torch.export import Dim

from exportlint import ModelCase
from exportlint.checks.runner import Options, Runner
from exportlint.checks.shapes import journal, replay, trials
from exportlint.shapes.contents import Recipe
from exportlint.shapes.contract import declared, wanted
from exportlint.shapes.strategies import Space

HERE = Path(__file__)
ROWS = {"x": {0: Dim("rows", min=1, max=32)}}
X = torch.randn(4, 3)


@torch.library.custom_op("exportlint_tests::ends", mutates_args=())
def ends(x: torch.Tensor, how: str) -> torch.Tensor:
    if x.shape[0] >= 6 and how == "abort":
        os.abort()  # at: abort
    if x.shape[0] >= 6 and how == "sleep":
        time.sleep(1000)  # at: sleep
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


class Sleeps(nn.Module):
    def forward(self, x):
        return ends(x, "sleep")


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


class Leaves(nn.Module):
    def forward(self, x):
        if not torch.compiler.is_exporting() and x.shape[0] >= 6:
            os._exit(3)  # at: leaves
        return x * 2


class Quits(nn.Module):
    def forward(self, x):
        if not torch.compiler.is_exporting() and x.shape[0] >= 6:
            raise SystemExit("bye")  # at: quits
        return x * 2


@pytest.mark.parametrize(
    ("model", "mark", "words"),
    [
        (Leaves, "leaves", "ends the process with status 3"),
        (Quits, "quits", "raises SystemExit, which ends the process,"),
    ],
)
def test_a_call_that_exits_is_replayed_and_made_smaller(model, mark, words):
    shapes = shapes_of(model, "shapes")["shapes"]
    reason = f"the eager model {words} in a call inside the contract: x of shape [6, 3] (zeros)"
    assert (shapes.outcome, shapes.reason) == ("crashed", reason)
    assert [(f.rule, f.line) for f in shapes.findings] == [("EXP002", marked(HERE, mark))]
    assert "the smallest failing call: model(torch.zeros([6, 3]))" in shapes.notes
    assert "calls that are as large in every dynamic size, or larger, were not tried any more" in shapes.notes


@pytest.mark.slow
def test_a_call_that_hangs_is_replayed(monkeypatch):
    monkeypatch.setattr(trials, "CALL_SECONDS", 1.0)
    began = time.monotonic()
    shapes = shapes_of(Hangs, "shapes")["shapes"]
    assert time.monotonic() - began < 200  # not the time of the whole check
    assert shapes.outcome == "timed_out"
    assert shapes.reason.startswith("the eager model does not end in a call inside the contract: x of shape [")
    assert [f.line for f in shapes.findings] == [marked(HERE, "hang")]


@pytest.mark.slow
def test_a_call_that_hangs_is_named_where_there_is_no_time_to_replay_it(monkeypatch):
    monkeypatch.setattr(trials, "CALL_SECONDS", 2.0)
    shapes = shapes_of(Sleeps, "shapes", timeout=6.0)["shapes"]
    assert shapes.outcome == "timed_out"
    assert shapes.reason.startswith("the eager model does not end in a call inside the contract: x of shape [")
    (finding,) = shapes.findings
    assert (finding.rule, finding.line) == ("EXP002", marked(HERE, "sleep"))
    assert finding.rewrite.startswith("Let the model accept every call that")
    assert shapes.notes[0].startswith("the call: model(torch.")


class AbortsAndDiffers(nn.Module):
    def forward(self, x):
        if not torch.compiler.is_exporting() and x.shape[0] == 3:  # at: differs
            return x + 1
        return ends(x, "abort")


def test_what_is_unlike_the_call_that_aborts_is_tried_too():
    shapes = shapes_of(AbortsAndDiffers, "shapes")["shapes"]
    assert shapes.outcome == "crashed"
    assert {f.line for f in shapes.findings} == {marked(HERE, "abort"), marked(HERE, "differs")}
    assert "calls that are as large in every dynamic size, or larger, were not tried any more" in shapes.notes


class LateOnce(nn.Module):
    flag = ""

    def forward(self, x):
        if not torch.compiler.is_exporting() and x.shape[0] >= 6 and not Path(LateOnce.flag).exists():
            Path(LateOnce.flag).touch()
            time.sleep(120)
        return x * 2


def test_a_call_that_is_late_only_once_is_no_finding(monkeypatch, tmp_path):
    monkeypatch.setattr(trials, "CALL_SECONDS", 3.0)
    monkeypatch.setattr(LateOnce, "flag", str(tmp_path / "flag"))
    shapes = shapes_of(LateOnce, "shapes")["shapes"]
    assert (shapes.outcome, shapes.findings) == ("passed", ())
    assert any(note.startswith("the eager model took too long for one call once, and alone") for note in shapes.notes)


def test_contents_that_a_call_needs_to_end_its_process_are_needed_of_one_that_is_like_it():
    X6 = torch.randn(6, 3)  # noqa: N806
    example, shapes = ((X6,), {}), {"x": {0: Dim("n")}}
    contract = declared(nn.Identity(), example, {"input": shapes["x"]})
    space = Space(example, contract, wanted(contract), {})
    subject = SimpleNamespace(asked=[leaf.size(d) for leaf, d, _ in contract.asked])

    def call(rows, kind):
        return trials.Trial.of(space.made({0: Recipe((rows, 3), "torch.float32", kind)}))

    anything = replay.likeness(subject, space, call(6, "zeros"))
    assert [anything(call(n, "normal")) for n in (5, 6, 7)] == [False, True, True]
    negative = replay.likeness(subject, space, call(6, "negative"))
    assert [negative(call(7, kind)) for kind in ("zeros", "negative")] == [False, True]


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
