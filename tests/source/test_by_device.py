"""Tests of where a tensor is: what they decide is told where that is sure, at the place that asks."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from exportlint.source.engine import Options, lint

if TYPE_CHECKING:
    from pathlib import Path

    from exportlint.findings import Mode

NET = """
import torch
import torch.nn.functional as F
from torch import nn

KERNEL = object()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.fast = KERNEL is not None

    def forward(self, x: torch.Tensor):
"""


def found(tmp_path: Path, body: str, mode: Mode = "export") -> list[tuple[str, int, str]]:
    """The rules that hold in a forward with these statements, with the line of the statements and the severity."""
    file = tmp_path / "net.py"
    file.write_text(NET + textwrap.indent(body, " " * 8), encoding="utf-8")
    before = NET.count("\n")
    return [(p.rule.code, p.range.line - before, p.severity) for p in lint([file], Options(modes=(mode,)))]


@pytest.mark.parametrize(
    "test",
    [
        "x.is_cuda",
        "not x.is_cpu",
        'x.device.type == "cuda"',
        '"cuda" == x.device.type',
        'x.device != torch.device("cpu")',
        'x.device.type != "cpu"',
        'x.device.type in ("cuda", "xpu")',
        'x.device.type not in ["cpu"]',
        'x.is_cuda or x.device.type == "mps"',
        'not (x.device.type == "cpu")',
        "self.fc.weight.is_cuda",
    ],
)
@pytest.mark.parametrize(
    "body",
    [
        "return x * 2 if TEST else x",
        "if TEST:\n    return x * 2\nreturn x",
        "if TEST:\n    y = x * 2\nelse:\n    y = x * 3\nreturn y",
        "if TEST:\n    x = x + 1\nreturn x",
        "if TEST:\n    x += 1\nreturn x",
        "on = TEST\nreturn x * 2 if on else x",
    ],
)
def test_other_arithmetic_is_found_where_the_device_is_asked_for(tmp_path: Path, test: str, body: str) -> None:
    assert found(tmp_path, body.replace("TEST", test)) == [("EXP204", 1, "warning")]


@pytest.mark.parametrize(
    "body",
    [
        "kind = torch.float32 if TEST else torch.float64\nreturn x.to(kind)",
        "if TEST:\n    return x.float() * 2\nreturn x.double() * 2",
        "low = TEST\nif low:\n    y = x.float()\nelse:\n    y = x.to(torch.double)\nreturn self.fc(y.float())",
        "if not TEST:\n    x = x.double()\nreturn x.float()",
    ],
)
def test_numbers_that_the_device_has_not_are_found(tmp_path: Path, body: str) -> None:
    for test in ('x.device.type == "mps"', "x.is_mps", 'x.device.type in ("mps", "npu")'):
        assert found(tmp_path, body.replace("TEST", test)) == [("EXP204", 1, "warning")]
    assert found(tmp_path, body.replace("TEST", "x.is_cuda")) == [("EXP204", 1, "info")]


@pytest.mark.parametrize(
    "body",
    [
        "if x.is_cuda:\n    torch.cuda.synchronize()\nreturn self.fc(x)",
        "if torch.cuda.is_available() and x.is_cuda:\n    torch.cuda.synchronize()\nreturn self.fc(x)",
        "h = torch.sin(x)\nif x.is_cuda:\n    h = h.cuda()\nreturn h + x",
        "return KERNEL(x) if x.is_cuda else F.gelu(x)",
        'return F.gelu(x, approximate="tanh") if x.is_cuda else F.gelu(x)',
        "if x.is_cuda and self.fast:\n    return KERNEL(x)\nreturn x * 2",
        "if x.is_cuda and self.fast:\n    return x * 2\nreturn x",
        "y = x.contiguous() if x.is_cuda else x\nreturn y * 2",
        "rows = 64 if x.is_cuda else 32\nreturn x[:rows]",
        "return x * 2 if x.is_cuda else x * 2",
        'return x * 2 if x.device.type == "none" else x',
        "y = x + 1\nreturn y * 2 if y.device == x.device else x",
        'if x.device.type == "mps" and x.dtype == torch.float64:\n    x = x.float()\nreturn x',
        'if x.device.type == "mps":\n    return x * 2 if x.dtype == torch.float16 else x\nreturn x',
        'd = x.device.type if x.device.type != "mps" else "cpu"\nwith torch.autocast(d):\n    return x * 2',
        'return x * 2 if x.device == torch.device("cuda") else x',
        'if x.device.type == "cpu":\n    raise ValueError("slow")\nreturn x * 2',
    ],
)
def test_what_chooses_a_kernel_or_moves_something_is_not(tmp_path: Path, body: str) -> None:
    assert [each for each in found(tmp_path, body) if each[0] == "EXP204"] == []


def test_compile_captures_anew(tmp_path: Path) -> None:
    body = "return x * 2 if x.is_cuda else x"
    assert found(tmp_path, body, "export-strict") == [("EXP204", 1, "warning")]
    assert found(tmp_path, body, "compile") == []
