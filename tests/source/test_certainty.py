"""An error is claimed of what surely runs, however the condition around it is spelt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exportlint.source.engine import Options, lint

if TYPE_CHECKING:
    from pathlib import Path

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, a, mode):
        super().__init__()
        self.a = a
        self.mode = mode

    def forward(self, x: torch.Tensor, mask=None, flag=False):
        {body}
        return x
"""
SPELLINGS = [
    "if {}:\n            if x.sum() > 0:\n                x = x + 1",
    "if {} and x.sum() > 0:\n            x = x + 1",
    "x = (x if x.sum() > 0 else -x) if {} else x",
    "x = x * ({} and bool(x.sum() > 0))",
]


def severities(folder: Path, body: str) -> set[str]:
    (folder / "net.py").write_text(NET.format(body=body), encoding="utf-8")
    return {p.severity for p in lint([folder], Options()) if p.rule.code == "EXP101"}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("test", ["self.a", "not self.a", "self.mode == 'a'", "(self.a or self.mode is not None)"])
def test_a_setting_of_the_constructor_hides_no_error(tmp_path: Path, spelling: str, test: str) -> None:
    assert severities(tmp_path, spelling.format(test)) == {"error"}


@pytest.mark.parametrize("spelling", SPELLINGS[1:])
@pytest.mark.parametrize("test", ["mask", "mask is not None", "flag", "x.shape[0] > 2", "(self.a or flag)"])
def test_what_a_call_decides_makes_it_advice(tmp_path: Path, spelling: str, test: str) -> None:
    assert severities(tmp_path, spelling.format(test)) == {"info"}


def test_a_setting_before_what_a_call_decides_is_not_enough(tmp_path: Path) -> None:
    assert severities(tmp_path, "if self.a and mask is not None and x.sum() > 0:\n            x = -x") == {"info"}
    assert severities(tmp_path, "if self.a and self.mode and x.sum() > 0:\n            x = -x") == {"error"}
