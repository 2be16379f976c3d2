"""Programs that were captured and do not run, or hold what no check can read: checks say so, and are not at fault."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from commands import marked
from torch import nn

from exportlint import ModelCase, blame
from exportlint.checks import jobs
from exportlint.checks.context import Context, Settings
from exportlint.checks.shapes import check as shapes


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


class Once(nn.Module):
    calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls > 1:
            raise ValueError("called twice\nreally")  # at: twice
        return x * 2


def test_a_later_call_that_raises_is_the_models_fault():
    result = check("shapes", Once)
    assert result.outcome == "errored"
    assert result.reason == "the model, or its case, fails in a later call than the first: ValueError: called twice"
    (finding,) = result.findings
    assert (finding.rule, finding.line) == ("EXP002", marked(Path(__file__), "twice"))
    assert finding.rewrite.startswith("Let the model take further calls")
    assert "called twice" in result.stack


class Asked(nn.Linear):
    def named_parameters(self, *args, **kwargs):
        raise TypeError("no params")  # at: asked


@pytest.mark.parametrize("name", ["capture", "state"])
def test_what_a_check_asks_of_a_model_is_no_later_call(name):
    case = ModelCase(lambda: Asked(2, 2), (torch.ones(1, 2),), name="asked")
    result = jobs.run_check(name, Context(case, Settings(()), lambda _: None))
    words = "the model, or its case, fails in Asked.named_parameters, which a check calls: TypeError: no params"
    assert (result.outcome, result.reason, result.runs) == ("errored", words, name != "capture")
    assert result.findings[0].line == marked(Path(__file__), "asked")


class UnsaidError(Exception):
    def __str__(self):
        raise ValueError("no words")


class Unsaid(nn.Module):
    def forward(self, x):
        raise UnsaidError  # at: unsaid


def test_an_exception_without_words_is_told_by_its_class():
    result = check("capture", Unsaid)
    (finding,) = result.findings
    assert (finding.rule, finding.line, finding.evidence) == ("EXP002", marked(Path(__file__), "unsaid"), "UnsaidError")


@pytest.mark.parametrize("name", ["device", "state", "twins", "shapes", "reload"])
def test_an_exception_without_words_ends_no_other_check(name):
    assert check(name, Unsaid).outcome in ("errored", "not_checked")


class Endless(nn.Module):
    def forward(self, x):  # at: endless
        found = [x * 2]
        found.append(found)
        return found


def endless():
    args = [torch.ones(2)]
    args.append(args)
    return (args,)


def test_a_result_that_contains_itself_is_told_as_such():
    result = check("capture", Endless)
    assert (result.outcome, result.runs) == ("errored", False)
    (finding,) = result.findings
    assert (finding.rule, finding.line) == ("EXP002", marked(Path(__file__), "endless"))
    assert finding.message == "the model returns what no program can return"
    assert "a container contains itself" in finding.evidence


@pytest.mark.parametrize("name", ["device", "state", "twins", "shapes", "reload", "checkpoint", "compile"])
def test_a_result_that_contains_itself_ends_no_other_check(name):
    result = check(name, Endless)
    assert result.outcome in ("errored", "not_checked")
    assert "exportlint itself" not in result.reason


@pytest.mark.parametrize("given", [{"args": endless}, {"args": (torch.ones(2),), "inputs2": endless}])
def test_arguments_that_contain_themselves_are_the_cases_fault(given):
    case = ModelCase(nn.Identity, name="endless", **given)
    result = jobs.run_check("shapes" if "inputs2" in given else "capture", Context(case, Settings(()), lambda _: None))
    assert result.outcome == "errored"
    assert "an argument cannot be taken apart: a container contains itself" in result.reason


def no_scores(out):
    raise KeyError("scores")  # at: scores


@pytest.mark.parametrize("name", ["capture", "shapes"])
def test_a_canonical_that_raises_is_the_cases_fault(name):
    rows = {"x": {0: torch.export.Dim("rows", max=8)}}
    case = ModelCase(nn.Identity, (torch.randn(2, 4),), canonical=no_scores, dynamic_shapes={"input": rows["x"]})
    result = jobs.run_check(name, Context(case, Settings((), 2), lambda _: None))
    assert result.outcome == "errored"
    assert result.reason == "the case's canonical fails for what the eager model returns: KeyError: 'scores'"
    (finding,) = result.findings
    assert (finding.rule, finding.line) == ("EXP002", marked(Path(__file__), "scores"))
    assert finding.rewrite.startswith("Let canonical take")


def test_a_check_that_raises_is_exportlints_own_fault(monkeypatch):
    monkeypatch.setattr(shapes, "_searched", blame.place_of)
    result = check("shapes", nn.Identity)
    assert (result.outcome, result.findings) == ("errored", ())
    assert result.reason.startswith("exportlint itself failed: AttributeError: ")
