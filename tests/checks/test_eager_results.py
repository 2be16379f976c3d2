"""Eager results of a model and of a patched copy of it: which calls are compared, and how differences are told."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import pytest
import torch

from exportlint.checks.eager_results import STATE, compared, leaves, main

if TYPE_CHECKING:
    from pathlib import Path

BEFORE = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(2)
        self.calls = 0

    def forward(self, x, n):
        {body}

def build():
    return Net()

def inputs():
    return (torch.ones(4, 2), torch.tensor([1.0]))
"""


def answer(folder: Path, before: str, after: str) -> dict[str, str]:
    for name, body in (("before", before), ("after", after)):
        (folder / f"{name}.py").write_text(BEFORE.replace("{body}", body.replace("\n", "\n        ")))
    main(str(folder / "before.py"), "before", str(folder / "results"))
    main(str(folder / "after.py"), "after", str(folder / "answer"), "", str(folder / "results"))
    found: dict[str, str] = json.loads((folder / "answer").read_text())
    return found


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("return x * 2", "return 2 * x", ""),
        ("return x if n > 0 else -x", "return torch.where(n > 0, x, -x)", ""),
        ("return x * 2", "return x * 3", "the example call: output: 8 of 8 values differ, by at most 1, at [0, 0]"),
        ("return x[0]", "return x[:1]", "the example call: output: shape [2] before, [1, 2] after"),
        # the way that the example does not go
        (
            "return x if n > 0 else x.sum(0)",
            "return torch.where(n > 0, x, x.sum(0))",
            "the example call with its values negated: output: shape [2] before, [4, 2] after",
        ),
        # what the first call leaves behind, seen in the next one and in the state
        (
            "self.calls += 1\nreturn x * self.calls",
            "return x * 1",
            "call 2: output: 8 of 8 values differ, by at most 1, at [0, 0]: 2 before, 1",
        ),
        (
            "return x if n > 0 else self.norm(x)",
            "return torch.where(n > 0, x, self.norm(x))",
            f"{STATE}: norm.running_mean: 2 of 2 values differ",
        ),
        ("return x", "x.add_(1)\nreturn x - 1", "the example call: input[0][0]: 8 of 8 values differ"),
        ("return x", "raise ValueError('no')", "the example call raises ValueError: no"),
        ("return x, n", "return x", "the example call: output[0] is there before only"),
    ],
)
def test_a_difference_is_told_with_its_call(tmp_path: Path, before: str, after: str, words: str) -> None:
    found = answer(tmp_path, before, after)
    assert list(found) == ["differs"]
    assert found["differs"].startswith(words)
    assert bool(found["differs"]) == bool(words)


def test_of_a_model_that_does_not_run_nothing_is_told(tmp_path: Path) -> None:
    assert answer(tmp_path, "return x.cuda(9)", "return x")["why"].startswith("the model itself raises ")


def test_calls_that_the_model_refuses_are_not_compared() -> None:
    one, two = {"output": torch.ones(1)}, {"output": torch.zeros(1)}
    assert compared({"a": one, "b": "ValueError"}, {"a": one, "b": two}) == {"differs": ""}


def test_objects_count_by_what_they_hold() -> None:
    @dataclasses.dataclass
    class Output:
        first: torch.Tensor
        more: list[int]

    class Cache:
        def __init__(self) -> None:
            self.own = self
            self.keys = [torch.ones(1)]

    found = leaves((Output(torch.ones(2), [3]), {"k": None}, Cache()), "output")
    assert {key: value if not isinstance(value, torch.Tensor) else len(value) for key, value in found.items()} == {
        "output[0]['first']": 2,
        "output[0]['more'][0]": 3,
        "output[1]['k']": None,
        "output[2]['own']": "a Cache",
        "output[2]['keys'][0]": 1,
    }
