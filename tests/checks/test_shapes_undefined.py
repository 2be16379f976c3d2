"""Calls for which the eager model has no answer, and calls of another structure."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

from exportlint.checks.case import ModelCase
from exportlint.checks.context import Context, Settings
from exportlint.checks.shapes import check as shapes

X, PAD = torch.randn(3, 5, 8), torch.tensor([[False] * 5, [False, False, False, True, True], [False] * 4 + [True]])
BATCH = Dim("batch", min=2, max=16)


class Attends(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x, pad):
        return self.attention(x, x, x, key_padding_mask=pad)[0]


class Optional(nn.Module):
    def forward(self, x, more=None):
        return x * 2 if more is None else x + more


def run(case):
    return shapes.run(Context(case, Settings(("shapes",), examples=20), lambda _: None))


def attends():
    torch.manual_seed(0)
    return Attends().eval()


@pytest.mark.parametrize("layer", ["attention", "encoder"])
def test_rows_in_which_all_is_padding_are_no_fault(layer):
    class Encodes(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

        def forward(self, x, pad):
            return self.layer(x, src_key_padding_mask=pad)

    model = attends if layer == "attention" else (lambda: Encodes().eval())
    case = ModelCase(model, (X, PAD), name="net", dynamic_shapes={"x": {0: BATCH}, "pad": {0: BATCH}})
    result = run(case)
    assert (result.outcome, [f for f in result.findings if f.counts]) == ("passed", []), result


def test_a_wrong_number_beside_them_is_one():
    class Wrong(Attends):
        def forward(self, x, pad):
            scale = float(x.shape[0]) if not torch.compiler.is_exporting() else 3.0
            return super().forward(x, pad) * scale

    case = ModelCase(Wrong, (X, PAD), dynamic_shapes={"x": {0: BATCH}, "pad": {0: BATCH}})
    assert run(case).outcome == "failed"


def test_a_call_of_another_structure_takes_no_declared_dimension_away():
    args, more = (X,), (X, X)
    result = run(ModelCase(Optional, args, inputs2=more, dynamic_shapes={"x": {0: BATCH}}))
    assert result.outcome == "passed"
    assert any("another structure" in note for note in result.notes)
    assert run(ModelCase(Optional, args, inputs2=more)).outcome == "not_checked"


def test_sizes_of_a_cache_may_be_inferred():
    from transformers import DynamicCache
    from transformers.integrations.executorch import register_dynamic_cache_export_support

    register_dynamic_cache_export_support()

    def cache(length, number=2):
        made = DynamicCache()
        made.update(torch.randn(number, 2, length, 4), torch.randn(number, 2, length, 4), 0)
        return made

    class Reads(nn.Module):
        def forward(self, x, cache):
            return x + cache.layers[0].keys.sum(dim=2)

    def arguments(length, number=2):
        return torch.randn(number, 2, 4), cache(length, number)

    case = ModelCase(Reads, lambda: arguments(5), inputs2=lambda: arguments(7, 3))
    result = run(case)
    assert (result.outcome, [f for f in result.findings if f.counts]) == ("passed", []), result
