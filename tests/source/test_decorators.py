"""Decorators of torch, on functions of the file and of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exportlint.source.engine import Options, lint

if TYPE_CHECKING:
    from pathlib import Path

OPERATOR = """
import torch
from torch.library import custom_op


@custom_op("space::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy() * 2)
"""
FAKE = """

@twice.register_fake
def _(x):
    return torch.empty_like(x)
"""
MODEL = """
from torch import nn
from operators import twice as double


class Net(nn.Module):
    def forward(self, x):
        return double(x) * 2
"""


@pytest.mark.parametrize(("operators", "codes"), [(OPERATOR, ["EXP801"]), (OPERATOR + FAKE, [])])
def test_an_operator_of_another_file(tmp_path: Path, operators: str, codes: list[str]) -> None:
    (tmp_path / "pyproject.toml").write_text("", encoding="utf-8")
    (tmp_path / "operators.py").write_text(operators, encoding="utf-8")
    (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
    found = lint([tmp_path / "model.py", tmp_path / "operators.py"], Options())
    assert [(p.path.name, p.rule.code) for p in found] == [("model.py", code) for code in codes]
