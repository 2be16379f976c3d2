"""The check ``shapes`` where sizes follow each other in every example call."""

from __future__ import annotations

import contextlib
import warnings
from pathlib import Path

import pytest
import torch
from commands import marked
from torch import nn
from torch.export import AdditionalInputs, Dim

from exportlint import ModelCase
from exportlint.checks.context import Context, Settings
from exportlint.checks.shapes import check as shapes

HERE = Path(__file__)
RELEASE = tuple(map(int, torch.__version__.split(".")[:2]))


class Decoder(nn.Module):
    """Pads a mask that is too short, which no example call has."""

    def forward(self, x, past, mask):
        total = past.shape[1] + x.shape[1]
        if mask.shape[1] < total:
            mask = nn.functional.pad(mask, (0, total - mask.shape[1]), value=1.0)
        keys = torch.cat([past, x], 1) * mask[:, :total, None]
        return (x @ keys.transpose(1, 2)).softmax(-1) @ keys


class Limited(Decoder):
    def forward(self, x, past, mask):
        if past.shape[1] > 11:  # at: limited
            return super().forward(x, past[:, -11:], mask[:, -11 - x.shape[1] :])
        return super().forward(x, past, mask)


def decoding(batch, new, past):
    return torch.randn(batch, new, 4), torch.randn(batch, past, 4), torch.ones(batch, past + new)


def check(model, **case):
    return run(ModelCase(model, decoding(2, 3, 5), **case))


def run(case):
    context = Context(case, Settings((), 12), lambda _: None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return shapes.run(context)


@pytest.mark.parametrize("calls", [[decoding(3, 4, 7)], [decoding(3, 4, 7), decoding(5, 6, 2)]])
def test_a_sum_that_holds_in_every_example_call_is_part_of_what_is_asked(calls):
    found = check(Decoder, more_inputs=calls)
    assert (found.outcome, found.findings) == ("passed", ())
    mask = next(made for made in found.contract if made.name == "mask.shape[1]")
    assert (mask.asked, mask.granted, mask.narrower) == ("x.shape[1] + past.shape[1] from 4", "as asked", False)
    assert not any("refused" in note or "granted" in note for note in found.notes)


def test_what_narrows_the_parts_of_a_sum_is_found():
    found = check(Limited, more_inputs=[decoding(3, 4, 7), decoding(5, 6, 2)])
    assert (found.outcome, {f.line for f in found.findings}) == ("failed", {marked(HERE, "limited")})


def test_calls_of_additional_inputs_are_kept_as_further_calls_are():
    added = AdditionalInputs()
    for call in (decoding(3, 4, 7), decoding(5, 6, 2)):
        added.add(call)
    found = check(Decoder, dynamic_shapes=added)
    assert (found.outcome, found.findings) == ("passed", ())
    assert not any("refused" in note for note in found.notes)


class Keyed(nn.Module):
    def forward(self, x, **more):
        return x + more["y"]


class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Keyed()

    def forward(self, x, y):
        return self.inner(x, y=y)


def test_arguments_that_nobody_can_ask_to_be_dynamic_are_named():
    """torch exports a call with `**kwargs`, and before 2.14 takes no dynamic shapes for it."""
    x, kwargs = torch.ones(3, 4), {"y": torch.ones(3, 4)}
    more = [((torch.ones(5, 4),), {"y": torch.ones(5, 4)})]
    refuses = pytest.raises(AssertionError, match="tree_name") if RELEASE < (2, 14) else contextlib.nullcontext()
    with refuses:
        torch.export.export(Keyed(), (x,), kwargs, dynamic_shapes={"x": {0: Dim.AUTO}, "more": {"y": {0: Dim.AUTO}}})
    found = run(ModelCase(Keyed, (x,), kwargs, more_inputs=more))
    assert (found.outcome, found.findings) == ("not_checked", ())
    assert "here y; to check other sizes, wrap the model" in found.reason
    assert run(ModelCase(Wrapped, (x,), kwargs, more_inputs=more)).outcome == "passed"


class Shifted(nn.Module):
    def forward(self, x, y):
        return x[1:] + y * 2


@pytest.mark.parametrize(("least", "refuses"), [(2, False), (3, True)])
def test_the_model_refuses_other_sizes_only_where_it_took_none(least, refuses):
    """A single element is broadcast, so that the sizes need not be related as torch has it."""
    hints = {"x": {0: Dim.AUTO(min=least, max=9)}, "y": {0: Dim.AUTO(min=3, max=8)}}
    found = run(ModelCase(Shifted, (torch.ones(5), torch.ones(4)), dynamic_shapes=hints))
    assert any("granted" in note for note in found.notes)
    assert any("the model itself refuses other sizes" in note for note in found.notes) == refuses


class Flagged(nn.Module):
    def forward(self, x, scale=1.0, flag=False):
        if flag:
            x = -x
        return x * scale


@pytest.mark.parametrize(
    ("held", "other", "words"),
    [
        ({"scale": 0.25}, {"scale": 0.75}, "it holds scale = 0.25"),
        ({"flag": True}, {"flag": False}, "it holds flag = True"),
        ({"scale": 2.0, "flag": False}, {"scale": 3.0, "flag": True}, "it holds scale = 2.0, flag = False"),
    ],
)
def test_what_is_no_tensor_and_refused_is_no_size(held, other, words):
    found = run(ModelCase(Flagged, (torch.ones(3, 4),), held, more_inputs=[((torch.ones(5, 4),), other)]))
    (finding,) = found.findings
    assert (found.outcome, finding.rule) == ("failed", "EXP304")
    assert words in finding.message
    assert finding.rewrite == "Make it a tensor where it varies, or export one program for each value."
    same = run(ModelCase(Flagged, (torch.ones(3, 4),), held, more_inputs=[((torch.ones(5, 4),), held)]))
    assert (same.outcome, same.findings) == ("passed", ())
