"""Traces and scripts of models, beside what eager computes."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import nn

from exportlint import joining
from exportlint.checks import torchscript
from exportlint.checks.case import ModelCase
from exportlint.checks.context import Context, Settings
from exportlint.findings import CheckResult


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(x)


class Branches(Plain):
    def forward(self, x):
        if x.shape[0] > 2:  # decides
            return self.fc(x)
        return self.fc(x) * 2


class Loops(Plain):
    def forward(self, x):
        rows = [self.fc(row) for row in x]  # a list
        return torch.stack(rows)


class Numbers(Plain):
    def forward(self, x):
        return self.fc(x).view(int(x.shape[0]), 3).sum(0)  # the number is kept


class Sizes(Plain):
    def forward(self, x):
        return self.fc(x).view(x.shape[0], 3).sum(0)


class Untraceable(Plain):
    def forward(self, x):
        return torch.cond(x.sum() > 0, self.fc, self.twice, (x,))

    def twice(self, x):
        return self.fc(x) * 2


class Helped(Plain):
    def forward(self, x):
        return self.help(x), {"sum": x.sum(), "number": 3, "none": None}

    def help(self, x, scale=2):
        return self.fc(x) * scale.real  # of help


class Keyword(Plain):
    def forward(self, x, *, mask=None, twice=False):
        y = self.fc(x) if mask is None else self.fc(x) * mask
        return y * 2 if twice else y


class Number(nn.Module):
    def forward(self, x):
        return x.shape[0]


class Fails(nn.Module):
    def forward(self, x):
        raise ValueError("no")


X, LONGER = torch.linspace(-1, 1, 8).view(2, 4), torch.linspace(-1, 1, 20).view(5, 4)


def check(model, args=(X,), kwargs=None, **settings):
    case = ModelCase(model, args, kwargs or {}, name="net", **settings)
    return torchscript.run(Context(case, Settings(()), announce=lambda _: None))


def line_of(model, words):
    lines, first = inspect.getsourcelines(model)
    return next(first + i for i, line in enumerate(lines) if words in line)


def test_a_plain_model_holds_both_ways():
    result = check(Plain, inputs2=(LONGER,))
    assert (result.outcome, result.reason, result.findings) == ("passed", "by trace and by script", ())


def test_without_a_second_call_it_says_so():
    assert check(Plain).reason == "by trace and by script, for the example alone: there is no second call"


@pytest.mark.parametrize(
    ("model", "words", "evidence"),
    [
        (Branches, "# decides", "15 of 15 values differ"),
        (Numbers, "# the number is kept", "it raises RuntimeError: shape '[2, 3]' is invalid for input of size 15"),
        (Loops, "# a list", "it raises RuntimeError: Expected 2 elements in a list but found 5"),
    ],
)
def test_a_trace_that_froze_a_decision(model, words, evidence):
    result = check(model, inputs2=(LONGER,))
    wrong = [found for found in result.findings if found.rule == "EXP903"]
    assert (result.outcome, len(wrong), wrong[0].severity) == ("failed", 1, "warning")
    assert wrong[0].line == line_of(model, words)
    assert "keeps what the example decided here" in wrong[0].message
    assert evidence in wrong[0].evidence
    assert "in the program" not in wrong[0].evidence


def test_the_first_call_alone_shows_no_frozen_branch():
    result = check(Branches)
    assert (result.outcome, result.findings) == ("passed", ())


class Remembers(Plain):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1  # remembers
        return self.fc(x) * self.calls


class Notes(Remembers):
    def forward(self, x):
        self.calls += 1  # nothing reads it
        return self.fc(x)


class Buffer(Plain):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        y = self.fc(x)
        self.total = self.total * 0 + y.mean(0)
        return y - y.mean(0)


class Once(Remembers):
    def forward(self, x):
        self.calls += 1
        if self.calls > 2:
            raise ValueError("spent")
        return self.fc(x)


def test_a_trace_that_froze_what_the_model_remembers():
    result = check(Remembers)
    (wrong,) = [found for found in result.findings if found.rule == "EXP903"]
    assert (result.outcome, wrong.line) == ("failed", line_of(Remembers, "# remembers"))
    assert wrong.message == (
        "torch.jit.trace is wrong for the same call again, since it keeps what the model remembered here"
    )
    assert "6 of 6 values differ" in wrong.evidence


@pytest.mark.parametrize("model", [Notes, Buffer, Once])
def test_what_is_remembered_and_changes_no_result_is_fine(model):
    assert not [found for found in check(model).findings if found.rule == "EXP903"]


class Size(Plain):
    def forward(self, x):
        return self.fc(x), {"rows": x.shape[0]}, 3, 0.5


class WrongSize(Plain):
    def forward(self, x):
        return self.fc(x), torch.tensor(len(x.tolist()))  # frozen


def test_a_number_that_is_a_tensor_in_a_trace_is_the_same_number():
    for result in (check(Size), check(Size, inputs2=(LONGER,))):
        assert (result.outcome, [f for f in result.findings if f.rule == "EXP903"]) == ("passed", [])
        assert "trace: result 1 is a number in eager, and a tensor in the trace" in result.notes
    wrong = [found for found in check(WrongSize, inputs2=(LONGER,)).findings if found.rule == "EXP903"]
    assert "5 in eager, 2" in wrong[0].evidence


def test_a_size_that_a_trace_follows_is_not_frozen():
    assert check(Sizes, inputs2=(LONGER,)).findings == ()


def test_what_neither_way_captures():
    result = check(Untraceable)
    assert result.outcome == "failed"
    assert {found.rule for found in result.findings} == {"EXP902"}
    assert {found.message for found in result.findings} == {
        "torch.jit.trace cannot capture this",
        "torch.jit.script cannot capture this",
    }
    assert {found.line for found in result.findings} <= {
        line_of(Untraceable, "torch.cond"),
        line_of(Untraceable, "def forward"),
    }


def test_what_only_the_script_refuses_is_advice_at_its_line():
    result = check(Helped, inputs2=(LONGER,))
    assert (result.outcome, result.reason) == ("passed", "by trace")
    (found,) = result.findings
    assert (found.rule, found.severity, found.outcomes) == ("EXP902", "info", {})
    assert found.line in (line_of(Helped, "# of help"), line_of(Helped, "def help"))


def test_keywords_that_are_no_tensors_are_constants_of_a_trace():
    mask = torch.tensor([1.0, 0.0, 1.0])
    assert (
        check(Keyword, (X,), {"mask": mask, "twice": True}, inputs2=((LONGER,), {"mask": mask, "twice": True})).red
        is False
    )
    other = check(Keyword, (X,), {"mask": mask, "twice": True}, inputs2=((LONGER,), {"mask": mask, "twice": False}))
    assert "trace: the second call differs in more than its tensors, which a trace holds" in other.notes


@pytest.mark.parametrize(("model", "reason"), [(Number, "returns no tensor"), (Fails, "the model does not run")])
def test_what_cannot_be_checked(model, reason):
    result = check(model)
    assert result.outcome == "not_checked"
    assert reason in result.reason


def test_its_findings_neither_confirm_nor_count_as_missed():
    found = check(Branches, inputs2=(LONGER,)).findings[0]
    result = CheckResult(name=torchscript.NAME, outcome="failed", findings=(found,))
    joined = joining.join([result], [], joining.Exercised({found.file: frozenset({found.line})}))
    assert joined[0].findings[0].verdict is None
