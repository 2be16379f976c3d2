"""Gradients of the program in training mode, and of the joint graph of forward and backward pass."""

from __future__ import annotations

import functools
import re

import pytest
import torch
from torch import nn

from exportlint.checks import training
from exportlint.checks.case import ModelCase
from exportlint.checks.context import Context, Settings
from exportlint.torch_hooks import joint, packages


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.drop = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5)
        self.last, self.unused = nn.Linear(6, 2), nn.Linear(2, 2)

    def forward(self, x):
        return self.last(self.drop(self.norm(self.first(x))).relu())


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()  # rounds

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Quantised(Net):
    def forward(self, x):
        h = self.first(x)
        return self.last(Straight.apply(h))


class Attends(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)

    def forward(self, x):
        h = self.first(x)[None, None]  # what first computes
        return nn.functional.scaled_dot_product_attention(h, h * 2, h * 3)


class Fails(Net):
    def forward(self, x):
        return super().forward(x).detach()


def check(model, loss=lambda result: result.square().sum()):
    return training.run(
        Context(ModelCase(model, (torch.linspace(-1, 1, 32).view(8, 4),), name="net", loss=loss), Settings(()), str)
    )


def test_gradients_are_equal():
    result = check(Net)
    assert (result.outcome, result.findings) == ("passed", ())
    assert result.reason == "6 gradients, of the program and of the joint graph"


def test_of_the_joint_graph_the_module_is_told(monkeypatch):
    right = joint.gradients

    def wrong(*args):
        return {name: grad * 2 if name.endswith("first.bias") else grad for name, grad in right(*args).items()}

    monkeypatch.setattr(joint, "gradients", wrong)
    monkeypatch.setattr(joint, "why_not", lambda: None)
    (finding,) = check(Attends).findings
    assert finding.message == "the joint graph of forward and backward pass has other gradients"
    assert "the backward pass parts first, from the loss on, at bias of first (Linear)" in finding.evidence
    assert finding.source.endswith("# what first computes")


def test_a_gradient_of_ones_own_is_lost():
    result = check(Quantised)
    (finding,) = result.findings
    assert (result.outcome, finding.rule, finding.severity) == ("failed", "EXP004", "error")
    assert finding.message == "the program in training mode has another loss or other gradients"
    assert re.match(r"\['first\.(weight|bias)'\]: \d+ of \d+ values differ, by at most .*, at \[", finding.evidence)
    assert "; backwards they part in Quantised itself, first in what round_1 (aten.round.default)" in finding.evidence
    assert finding.evidence.endswith(" passes to linear")
    assert finding.source.endswith("# rounds")


class Detaches(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.detach() * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class Cuts(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return None


class Between(Net):
    function: type[torch.autograd.Function] = Detaches

    def __init__(self, tied=False):
        super().__init__()
        self.middle = nn.Linear(6, 6)
        self.again = nn.Linear(6, 6)
        if tied:
            self.again.weight = self.middle.weight

    def forward(self, x):
        return self.last(self.again(self.middle(self.function.apply(self.first(x)))))


@pytest.mark.parametrize("tied", [False, True])
def test_a_gradient_that_the_program_lacks(tied):
    found = check(functools.partial(Between, tied))
    assert found.outcome == "failed"
    assert re.search(r"no gradient of first\.\w+, which has one in eager", found.reason)


@pytest.mark.parametrize("tied", [False, True])
def test_a_gradient_that_only_the_program_has(tied):
    class Extra(Between):
        function = Cuts

    found = check(functools.partial(Extra, tied))
    assert found.outcome == "failed"
    assert "a gradient of first.bias, which has none in eager" in found.reason


def test_a_shared_parameter_has_a_joint_graph():
    class Tied(Net):
        def __init__(self):
            super().__init__()
            self.middle, self.again = nn.Linear(6, 6), nn.Linear(6, 6)
            self.again.weight = self.middle.weight

        def forward(self, x):
            return self.last(self.again(self.middle(self.first(x)).tanh()))

    found = check(Tied)
    assert (found.outcome, found.findings) == ("passed", ()), found.reason


class Block(nn.Module):
    def __init__(self, function=None, calls=3):
        super().__init__()
        self.linear, self.norm, self.function, self.calls = nn.Linear(6, 6), nn.BatchNorm1d(6), function, calls

    def forward(self, x):
        self.calls -= 1
        h = self.norm(self.linear(x)).tanh()
        return self.function(h) if self.function is not None and not self.calls else h  # the end of the block


class Shares(Net):
    """One block is called three times, the last time by another name."""

    def __init__(self, function=None, calls=3, alias=True):
        super().__init__()
        self.block = Block(function, calls)
        self.again = self.block if alias else None

    def forward(self, x):
        h = self.block(self.block(self.first(x)))
        return self.last((self.again or self.block)(h))


@pytest.mark.parametrize("alias", [True, False])
def test_a_module_that_is_called_several_times_has_a_joint_graph(alias):
    found = check(functools.partial(Shares, alias=alias))
    assert (found.outcome, found.findings) == ("passed", ()), found.reason
    assert found.reason == "8 gradients, of the program and of the joint graph"


def doubled(h):
    return h * 2 if torch.compiler.is_exporting() else h * 3


@pytest.mark.parametrize("calls", [1, 2, 3])
@pytest.mark.parametrize("alias", [True, False])
def test_the_call_in_which_a_shared_module_parts(alias, calls):
    found = check(functools.partial(Shares, doubled, calls, alias))
    (finding,) = found.findings
    assert "in the forward pass they part in block (Block), first at the node mul (aten.mul.Tensor)" in finding.evidence
    assert finding.source.endswith("# the end of the block")


@pytest.mark.parametrize("alias", [True, False])
def test_the_gradient_of_a_shared_module_that_parts_is_named(alias):
    found = check(functools.partial(Shares, Straight.apply, 1, alias))
    (finding,) = found.findings
    assert finding.message == "the program in training mode has another loss or other gradients"
    assert re.search(
        r"backwards they part in block \(Block\), first in what round_1 .* passes to tanh", finding.evidence
    )


def test_attention_in_the_joint_graph():
    """torch 2.13 hands the backward pass of attention on CPUs what its forward pass does not return."""
    result = check(Attends)
    assert result.outcome == "failed"
    assert result.findings[0].message == "the joint graph of forward and backward pass has other gradients"
    assert re.search(r"from the loss on, at (weight|bias) of first \(Linear\)", result.findings[0].evidence)


def test_a_model_that_does_not_train():
    result = check(Fails)
    assert (result.outcome, result.findings[0].rule) == ("errored", "EXP002")
    assert "does not require grad" in result.reason
    assert result.findings[0].rewrite.startswith("Let the loss take what the model returns")


def test_it_is_asked_for_by_a_loss():
    assert check(Net, loss=None).reason == "not asked for: the case has no loss"


@pytest.mark.parametrize("hook", [joint, packages])
def test_the_hooks_work_here(hook):
    assert hook.why_not() is None


def test_without_the_joint_graph_nothing_is_green(monkeypatch):
    monkeypatch.setattr(joint, "joint", lambda program: program)
    assert joint.why_not() is not None
    result = check(Net)
    assert result.outcome == "not_checked"
    assert result.reason.startswith("6 gradients of the program are the eager model's; its joint graph is not had: ")
