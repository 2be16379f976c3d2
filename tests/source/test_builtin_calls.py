"""Python's own functions, called with tensors."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from exportlint.source.engine import Options, lint

if TYPE_CHECKING:
    from pathlib import Path

NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 4)

    def forward(self, x, steps: torch.Tensor, count: int):
        y = self.head(x)
        {body}
"""


def found(tmp_path: Path, body: str) -> list[tuple[str, str, str]]:
    """The code, variant and severity of each finding in a forward that ends with these lines."""
    file = tmp_path / "model.py"
    file.write_text(NET.format(body=textwrap.indent(body, "        ").strip()), encoding="utf-8")
    return [(p.rule.code, p.variant, p.severity) for p in lint([file], Options())]


NUMBER = [("EXP102", "", "error")]
ASKED = [("EXP101", "", "error")]
COMPARED = [("EXP101", "bool", "error")]


@pytest.mark.parametrize(
    ("bounds", "wanted"),
    [
        ("steps", NUMBER),
        ("y.max().long()", NUMBER),
        ("y.argmax()", NUMBER),
        ("0, steps", NUMBER),
        ("0, 8, steps", NUMBER),
        ("torch.tensor(3)", []),  # which the export knows; a strict one does not
        ("count", []),
        ("steps.dim()", []),
        ("y.shape[0]", []),
    ],
)
@pytest.mark.parametrize("use", ["for _ in range({}):\n    y = y * 2\nreturn y", "return [y for _ in range({})]"])
def test_a_range_whose_bound_is_a_tensor_is_found(
    tmp_path: Path, use: str, bounds: str, wanted: list[tuple[str, str, str]]
) -> None:
    assert [f for f in found(tmp_path, use.format(bounds)) if f[0] != "EXP301"] == wanted


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("torch.stack(sorted(y.flatten()))", ASKED),
        ("torch.stack(sorted(steps))", ASKED),
        ("torch.stack(sorted([y.sum(), y.mean()]))", ASKED),
        ("torch.stack(sorted(torch.tensor([1.0, 2.0]).to(x.device)))", ASKED),
        ("y if any(y.sum(1) > 0) else -y", ASKED),
        ("y if all(steps) else -y", ASKED),
        ("y if not any(torch.isnan(y).flatten()) else -y", ASKED),
        ("y * max(y.sum(1))", COMPARED),
        ("y / min(steps)", COMPARED),
        ("y * max(y.sum(), y.mean())", []),  # which the export traces
        ("y * sum(y.sum(1))", []),
        ("torch.stack(list(reversed(y)))", []),
        ("y * max(y.size())", []),
        ("y if any(y.shape) else -y", []),
        ("y if all(d > 1 for d in (count, 3)) else -y", []),
        ("y * sorted([count, 3])[0]", []),
        ("y * min(count, 3)", []),
    ],
)
def test_what_is_in_a_tensor_cannot_be_ordered_or_asked_by_python(
    tmp_path: Path, expression: str, wanted: list[tuple[str, str, str]]
) -> None:
    assert [f for f in found(tmp_path, f"return {expression}") if f[0] == "EXP101"] == wanted


@pytest.mark.parametrize(
    "body",
    [
        "for t in limits:\n    if t > 1:\n        y = y * 2\nreturn y",
        "low, high = limits\nreturn y if high > 1 else -y",
        "return y if limits[0] > 1 else -y",
    ],
)
def test_what_is_taken_out_of_a_constant_tensor_is_not_known(tmp_path: Path, body: str) -> None:
    assert found(tmp_path, f"limits = torch.tensor([1.0, 2.0])\n{body}") == ASKED
