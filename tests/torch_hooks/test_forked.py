"""Accelerators that a forked process has lost, played by a cuda that says what it says after a fork."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo
from forking import in_fork
from torch import nn

from exportlint import ModelCase
from exportlint.checks.isolation import fork
from exportlint.checks.runner import Options, Runner
from exportlint.torch_hooks import forked

WORDS = "Cannot re-initialize CUDA in forked subprocess."


def refusing():
    """A function of its own at each call, as the compiler's tables want it."""

    def refuse(*_):
        raise RuntimeError(WORDS)

    return refuse


@pytest.fixture
def in_use(monkeypatch):
    """A cuda that this process has asked for: it says in every child that it is there, and is not."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for name in ("get_rng_state", "get_rng_state_all", "_lazy_init"):
        monkeypatch.setattr(torch.cuda, name, refusing())
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    monkeypatch.setattr(torch.xpu, "_is_in_bad_fork", lambda: False)


def strict():
    x = torch.ones(2, 3)
    return list(torch.export.export(nn.Linear(3, 3), (x,), strict=True).module()(x).shape)


@pytest.mark.usefixtures("in_use")
def test_strict_export_fails_where_it_is_not_hidden():
    """What the hook is for; torch forks its own children in the same way."""
    with pytest.raises(Exception, match=WORDS):
        strict()


@pytest.mark.usefixtures("in_use")
def test_a_lost_device_is_hidden():
    def child():
        words = ""
        try:
            torch.cuda._lazy_init()
        except RuntimeError as error:
            words = str(error)
        there = (torch.cuda.is_available(), torch.cuda.device_count(), torch.accelerator.is_available())
        return there, strict(), forked.lost("cuda"), forked.lost("xpu"), words

    there, shape, cuda, xpu, words = in_fork(child)
    assert (there, shape, cuda, xpu) == ([False, 0, False], [2, 3], True, False)
    assert words == "No CUDA devices are available: the process that was forked for this one had them in use"


def test_what_is_not_lost_is_left_alone(monkeypatch):
    for kind in forked.KINDS:
        monkeypatch.setattr(getattr(torch, kind), "_is_in_bad_fork", lambda: False)

    def child():
        before = torch.cuda.is_available
        forked.hide_lost()
        return torch.cuda.is_available is before and not any(map(forked.lost, forked.KINDS))

    assert in_fork(child)


class Follows(nn.Module):
    def forward(self, x):
        return x + torch.ones(3, device=x.device)


@pytest.mark.usefixtures("in_use")
def test_checks_of_a_forked_child_do_without_it():
    options = Options(checks=("capture", "device"), isolation="fork", devices=("second", "cuda"))
    with Runner(options) as runner:
        result = runner.check_object(ModelCase(Follows, (torch.ones(2, 3),)), "t")
        assert runner.notes == []
    capture, device = result.checks
    assert capture.outcome == "passed"
    assert device.outcome == "not_checked"
    assert "cuda: it was in use already in the process that was forked for this check" in device.reason
    assert [f for f in device.findings if f.severity != "info"] == []


def test_the_self_test_restores_what_it_hides():
    before = dict(vars(torch.cuda))
    assert forked.why_not() is None
    assert vars(torch.cuda) == before


WHY = f"torch {torch.__version__} asks for accelerators in another way than exportlint knows"


def test_a_torch_that_asks_otherwise(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: torch.device("cuda"))
    assert forked.why_not() == WHY
    assert fork.why_unsafe() == WHY


def test_a_torch_without_the_names(monkeypatch):
    monkeypatch.delattr(torch.cuda, "get_rng_state_all")
    assert forked.why_not() == WHY
