from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import torch
from commands import marked
from torch import nn
from torch.export import Dim
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from exportlint.torch_hooks import guards
from exportlint.torch_hooks.guards import GuardLog, user_words

HERE = Path(__file__)


def at(mark: str) -> int:
    """The line of this file with this mark."""
    return marked(HERE, mark)


class Narrowing(nn.Module):
    def helper(self, x):
        return x[:, :8] if x.shape[1] > 8 else x  # at: bound

    def forward(self, x, y):
        x = self.helper(x)
        if x.shape[0] == 4:  # at: pin
            x = x + 1
        return x.sum() + (x[:, :1] + y[:, :1]).sum()  # at: equal


def export(model, *args, refused=False, **shapes):
    expected = pytest.raises(Exception, match="Constraints violated") if refused else contextlib.nullcontext()
    with GuardLog() as log, expected:
        torch.export.export(model, args, dynamic_shapes=shapes, strict=False)
    return log.guards


def test_this_torch_is_known():
    assert guards.why_not() is None


def test_guards_have_the_line_that_asked_for_them():
    found = export(Narrowing(), torch.ones(4, 6), torch.ones(4, 6), x={0: Dim.AUTO, 1: Dim.AUTO}, y={0: Dim.AUTO})
    lines = {}
    for guard in found:
        if guard.place is not None and guard.place.file == str(HERE):
            lines.setdefault(guard.place.line, set()).add(guard.text)
    assert lines[at("bound")] == {"x.shape[1] <= 8"}
    assert lines[at("pin")] == {"Eq(x.shape[0], 4)"}
    assert at("equal") in lines


def test_guards_of_an_export_that_is_refused_are_kept():
    found = export(
        Narrowing(), torch.ones(4, 6), torch.ones(4, 6), x={0: Dim("b"), 1: Dim("n")}, y={0: Dim("b")}, refused=True
    )
    assert "Eq(x.shape[0], 4)" in {guard.text for guard in found}


def test_a_check_of_the_users_is_deferred():
    class Checked(nn.Module):
        def forward(self, x):
            n = x.sum().to(torch.int64).item()
            torch._check(n >= 0)
            torch._check(n < 99)
            return torch.zeros(n)

    found = export(Checked(), torch.ones(2))
    assert found
    assert all(guard.deferred for guard in found)


def test_the_hook_is_taken_out_again():
    original = ShapeEnv._log_guard
    with GuardLog():
        assert ShapeEnv._log_guard is not original
        with GuardLog() as inner:
            torch.export.export(nn.ReLU(), (torch.ones(2),))
        assert inner.guards == []
    assert ShapeEnv._log_guard is original
    with pytest.raises(ZeroDivisionError), GuardLog():
        raise ZeroDivisionError
    assert ShapeEnv._log_guard is original


def test_both_of_two_nested_logs_hear_a_guard():
    with GuardLog() as outer, GuardLog() as inner:
        torch.export.export(
            Narrowing(), (torch.ones(4, 6), torch.ones(4, 6)), dynamic_shapes={"x": {1: Dim.AUTO}, "y": None}
        )
    assert [g.text for g in outer.guards] == [g.text for g in inner.guards]
    assert "x.shape[1] <= 8" in {guard.text for guard in inner.guards}


@pytest.mark.parametrize("other", [None, lambda self, g: None, lambda self, prefix, g: None])
def test_another_torch_is_answered_with_a_reason_not_an_error(monkeypatch, other):
    if other is None:
        monkeypatch.delattr(ShapeEnv, "_log_guard")
    else:
        monkeypatch.setattr(ShapeEnv, "_log_guard", other)
    assert "keeps guards in another way" in guards.why_not()
    with GuardLog() as log:
        assert getattr(ShapeEnv, "_log_guard", None) is other
    assert log.guards == []


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("L['x'].size()[0]", "x.shape[0]"),
        ("L['batch']['ids'].size()[1]", "batch['ids'].shape[1]"),
        ("L['pair'].a.size()[2]", "pair.a.shape[2]"),
        ("L['args'][0][1].size()[0]", "args[0][1].shape[0]"),
    ],
)
def test_user_words(source, words):
    assert user_words(source) == words


def test_symbols_whose_names_begin_alike_are_kept_apart():
    import sympy

    s1, s10 = sympy.symbols("s1 s10", integer=True)
    guard = guards.Guard(sympy.Eq(s1 + s10, 4), False, None, {"s1": "L['x'].size()[0]", "s10": "L['y'].size()[0]"})
    assert guard.text == "Eq(x.shape[0] + y.shape[0], 4)"
