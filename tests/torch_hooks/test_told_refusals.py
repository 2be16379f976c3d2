from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.fx.experimental.symbolic_shapes import DimConstraints

from exportlint.torch_hooks import refusals


class Whole(nn.Module):
    def forward(self, x):
        return x.reshape(-1, 12)


def export(dim, rows=4):
    torch.export.export(Whole(), (torch.ones(rows, 6),), dynamic_shapes={"x": {0: dim}}, strict=False)


def test_this_torch_is_known():
    assert refusals.why_not() is None


def test_a_refusal_that_torch_cannot_word_is_told():
    with pytest.raises(Exception, match="inconsistent"):
        export(Dim("b", min=3, max=5))
    with refusals.told(), pytest.raises(Exception, match=r"Constraints violated \(b\)"):
        export(Dim("b", min=3, max=5))


def test_a_refusal_that_torch_words_keeps_its_words():
    with refusals.told(), pytest.raises(Exception, match=r"Constraints violated \(b\)(.|\n)*Suggested fixes"):
        export(Dim("b", max=40))


def test_sizes_for_which_one_value_is_left_are_named():
    words = refusals._words({"b = L['x'].size()[0]": 4})
    assert "b = L['x'].size()[0]: your code specialized it to be a constant (4)" in words


def test_what_refuses_nothing_fails_as_it_did(monkeypatch):
    def failing(self, original_signature, dynamic_shapes, constraint_violation_error, forced_specializations):
        raise ZeroDivisionError

    monkeypatch.setattr(DimConstraints, "prettify_results", failing)
    with refusals.told(), pytest.raises(ZeroDivisionError):
        export(2 * Dim("b"))


def test_the_hook_is_taken_out_again():
    original = DimConstraints.prettify_results
    with refusals.told(), refusals.told():
        assert refusals.why_not() is None
    with pytest.raises(ZeroDivisionError), refusals.told():
        raise ZeroDivisionError
    assert DimConstraints.prettify_results is original


@pytest.mark.parametrize("other", [None, lambda self, error: ""])
def test_another_torch_is_answered_with_a_reason_not_an_error(monkeypatch, other):
    if other is None:
        monkeypatch.delattr(DimConstraints, "prettify_results")
    else:
        monkeypatch.setattr(DimConstraints, "prettify_results", other)
    assert "words what it refuses in another way" in refusals.why_not()
    with refusals.told():
        assert getattr(DimConstraints, "prettify_results", None) is other
