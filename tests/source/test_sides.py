"""Comparisons of a size with a constant: which of them the example decides for all other sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exportlint.rules.examples import example
from exportlint.source.engine import Options, lint

if TYPE_CHECKING:
    from pathlib import Path

DYNAMIC = '{"x": {1: torch.export.Dim.DYNAMIC}}'
AUTO = '{"x": {1: torch.export.Dim.AUTO}}'
BOUNDED = '{"x": {1: torch.export.Dim("t", min=2, max=8)}}'
EVEN = '{"x": {1: 2 * torch.export.Dim("t")}}'


def found(tmp_path: Path, forward: str, second: int = 12, shapes: str = "", init: str = "") -> list[str]:
    """Codes of what is found where the second dimension is 6 in the example."""
    file = tmp_path / "model.py"
    inputs = {"inputs": "torch.ones(4, 6)", "inputs2": f"torch.ones(4, {second})"}
    file.write_text(example(forward, init=init, shapes=shapes, **inputs), encoding="utf-8")
    return [p.rule.code for p in lint([file], Options())]


def chosen(test: str) -> str:
    return f"def forward(self, x):\n    t = x.shape[1]\n    return x * 2 if {test} else x"


@pytest.mark.parametrize(
    "test",
    ["t > 8", "8 < t", "t == 7", "t != 6", "t % 2 == 0", "t % 5", "not t % 2", "t - 2 > 0", "t // 4 >= 2", "t / 2 > 4",
     "(8 - t % 8) % 8", "x.ndim == 2 and t > 8", "bool(t > 8)", "2 < t < 8", "t > self.most", "x.size(-1) > 1000"],
)  # fmt: skip
@pytest.mark.parametrize("shapes", ["", DYNAMIC, AUTO])
def test_the_example_decides(tmp_path: Path, test: str, shapes: str) -> None:
    assert found(tmp_path, chosen(test), shapes=shapes, init="self.most = 8") == ["EXP301"]


@pytest.mark.parametrize(
    "test",
    ["t > 1", "t >= 2", "t", "t == 0", "t == 1", "t - 1 > 0", "t // 2 > 0", "t * 2 % 2 == 0", "t + 8 > 9", "-t < 0",
     "x.shape[0] > 8", "t == t", "t > x.shape[0]", "8 % (t - 6) > 0"],
)  # fmt: skip
def test_all_sizes_give_one_answer_or_it_is_not_known(tmp_path: Path, test: str) -> None:
    assert found(tmp_path, chosen(test)) == []


@pytest.mark.parametrize(
    "body",
    [
        "if t > 8:\n        raise ValueError('long')",
        "if t % 2 == 0:\n        x = x * 3\n    else:\n        raise ValueError('odd')",
        "if x.ndim == 2 and t == 0:\n        raise ValueError('empty')",
        "if t > 8:\n        if self.training:\n            raise ValueError('long')",
        "assert t % 2 == 0",
    ],
)
def test_validations_are_silent(tmp_path: Path, body: str) -> None:
    forward = f"def forward(self, x):\n    t = x.shape[1]\n    {body}\n    return x * 2"
    assert found(tmp_path, forward, second=8) == []


def test_a_condition_in_the_body_of_a_validation_is_judged_by_itself(tmp_path: Path) -> None:
    forward = "def forward(self, x):\n    if x.ndim > 1:\n        x = x * 2 if x.shape[1] > 8 else x\n    return x"
    assert found(tmp_path, forward) == ["EXP301"]


def test_a_dimension_that_may_have_bounds_is_judged_by_the_examples(tmp_path: Path) -> None:
    assert found(tmp_path, chosen("t > 8"), second=7, shapes=BOUNDED) == []
    assert found(tmp_path, chosen("t > 6"), second=7, shapes=BOUNDED) == ["EXP301"]
    assert found(tmp_path, chosen("t % 2 == 0"), second=8, shapes=EVEN) == []


def test_a_dimension_that_does_not_vary_is_silent(tmp_path: Path) -> None:
    assert found(tmp_path, chosen("t > 8"), second=6) == []
    assert found(tmp_path, chosen("t > 8"), second=6, shapes='{"x": {0: torch.export.Dim.DYNAMIC}}') == []


def test_arithmetic_that_is_not_followed_says_nothing(tmp_path: Path) -> None:
    forward = "def forward(self, x):\n    t = x.shape[1]\n    t %= 2\n    return x * 2 if t == 0 else x"
    assert found(tmp_path, forward) == []
    assert found(tmp_path, chosen("max(t, 9) > 8")) == []
