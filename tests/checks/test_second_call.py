from __future__ import annotations

import pytest
import torch
from torch import nn

from exportlint.checks import inference
from exportlint.checks.second_call import SecondCall, others

IDS = torch.zeros(2, 8, dtype=torch.long)


def shapes(inputs) -> list[tuple[int, ...]]:
    return [tuple(value.shape) for value in (*inputs[0], *inputs[1].values()) if isinstance(value, torch.Tensor)]


def test_rows_and_tokens_grow_together():
    mask, images, scale = torch.ones(2, 8), torch.ones(2, 8, 4, 4), torch.ones(())
    (both, longer), (rows, more) = others(((IDS, 3), {"mask": mask.long(), "images": images, "scale": scale}))
    assert both == "3 rows of length 9"
    assert shapes(longer) == [(3, 9), (3, 9), (3, 8, 4, 4), ()]
    assert rows == "3 rows"
    assert shapes(more) == [(3, 8), (3, 8), (3, 8, 4, 4), ()]
    assert longer[0][1] == 3


@pytest.mark.parametrize("inputs", [((), {}), ((3,), {}), ((torch.ones(()),), {}), ((torch.ones(0, 3),), {})])
def test_without_a_size_there_is_nothing_to_try(inputs):
    assert list(others(inputs)) == []
    assert SecondCall(nn.Identity, lambda: inputs).words == "no other size is checked: no tensor to make larger"


class OfLength(nn.Module):
    """Takes any number of rows, each of eight tokens."""

    def forward(self, ids):
        return ids.view(-1, 2, 4)[:, :, : ids.shape[1] // 8 + 3] + torch.zeros(ids.shape[0], 1, 4)


class OfTwoRows(nn.Module):
    def forward(self, ids):
        return ids + torch.zeros(2, 8)


def test_what_the_model_refuses_is_left_out_and_told():
    second = SecondCall(OfLength, lambda: ((IDS,), {}))
    assert second.words == "and once more with 3 rows"
    assert shapes(second.inputs) == [(3, 8)]
    none = SecondCall(OfTwoRows, lambda: ((IDS,), {}))
    assert none.inputs is None
    words = "no other size is checked: 3 rows of length 9 (RuntimeError); 3 rows (RuntimeError)"
    assert none.words == words


class Frozen(nn.Linear):
    def __init__(self):
        super().__init__(4, 4)

    def forward(self, x):
        return super().forward(x) * int(x.shape[0])


def test_a_case_that_nobody_wrote_is_reshaped():
    from exportlint.checks.runner import Options, Runner

    case = inference.case_of(Frozen, "frozen")
    assert shapes(case.further_examples()[0]) == [(3, 4)]
    with Runner(Options(checks=("shapes",), isolation="none")) as runner:
        (result,) = runner.check_object(case, "target").checks
    assert result.outcome == "failed"
    assert result.findings[0].source == "return super().forward(x) * int(x.shape[0])"
