"""Arguments that may be left out: a tensor that is put in their place is on a device of its own in such a call."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from exportlint.source.engine import Options, lint

if TYPE_CHECKING:
    from pathlib import Path

MADE = "torch.ones(x.shape[0], x.shape[1])"
NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.ones(4)

    def forward(self, x, {parameter}, flag: bool = False):
{body}


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, x: torch.Tensor, mask=None):
        return self.net(x, mask)
"""
UNTYPED, TYPED = "mask=None", "mask: torch.Tensor | None = None"


def codes(tmp_path: Path, body: str, parameter: str = UNTYPED) -> list[str]:
    """The rules that hold in a forward whose last argument may be left out."""
    file = tmp_path / "net.py"
    lines = textwrap.indent(body.replace("MADE", MADE), " " * 8)
    file.write_text(NET.format(parameter=parameter, body=lines), encoding="utf-8")
    return [p.rule.code for p in lint([file], Options())]


@pytest.mark.parametrize("parameter", [UNTYPED, TYPED])
@pytest.mark.parametrize(
    "body",
    [
        "if mask is None:\n    mask = MADE\nreturn x * mask[..., None]",
        "if mask == None:\n    mask = MADE\nreturn x * mask",
        "if mask is None or flag:\n    mask = MADE\nreturn x * mask",
        "if not (mask is not None):\n    mask = MADE\nreturn x * mask",
        "if mask is not None:\n    mask = mask.float()\nelse:\n    mask = MADE\nreturn x * mask",
        "if mask is not None and flag:\n    pass\nelse:\n    mask = MADE\nreturn x * mask",
        "mask = MADE if mask is None else mask\nreturn x * mask",
        "m = mask.float() if mask is not None else MADE\nreturn x * m",
        "return x * (MADE if mask is None else mask)",
        "if mask is None:\n    mask = MADE\nmask = (mask + 1).unsqueeze(-1)\nreturn x * mask",
    ],
)
def test_a_tensor_in_the_place_of_an_argument_is_found(tmp_path: Path, body: str, parameter: str) -> None:
    assert codes(tmp_path, body, parameter) == ["EXP202"]
    assert codes(tmp_path, body.replace("MADE", "MADE.to(x.device)"), parameter) == []


@pytest.mark.parametrize("parameter", [UNTYPED, TYPED])
def test_what_is_put_there_is_judged_as_everywhere(tmp_path: Path, parameter: str) -> None:
    body = "if mask is None:\n    mask = {}\nreturn x * mask"
    assert codes(tmp_path, body.format('torch.ones(4, device="cpu")'), parameter) == ["EXP201"]
    assert codes(tmp_path, body.format("self.table"), parameter) == ["EXP203"]
    assert codes(tmp_path, body.format("x.new_ones(4)"), parameter) == []
    assert codes(tmp_path, body.format("torch.tensor(0.5)"), parameter) == []


@pytest.mark.parametrize("parameter", [UNTYPED, TYPED])
@pytest.mark.parametrize(
    "body",
    [
        "if mask is None:\n    mask = MADE\nmask = mask.to(x)\nreturn x * mask",
        "if mask is None and flag:\n    mask = MADE.to(x)\nreturn x * 2",
        "if mask is None:\n    rows = MADE\nif mask is not None:\n    rows = mask\n    return x * rows\nreturn x",
        "rows = MADE if mask is None else x\nreturn x if mask is None else x * rows",
        "if mask is not None:\n    x = x * mask\nreturn x",
        "if mask is None:\n    return x\nreturn x * mask",
    ],
)
def test_what_meets_nothing_is_not(tmp_path: Path, body: str, parameter: str) -> None:
    assert codes(tmp_path, body, parameter) == []


def test_an_argument_that_must_be_given_is_none_of_these(tmp_path: Path) -> None:
    assert codes(tmp_path, "if mask is None:\n    mask = MADE\nreturn x * mask[..., None]", "mask") == [
        "EXP202"
    ]  # by Outer
    file = tmp_path / "net.py"
    text = file.read_text(encoding="utf-8")
    file.write_text(text[: text.index("class Outer")], encoding="utf-8")
    assert lint([file], Options()) == ()
