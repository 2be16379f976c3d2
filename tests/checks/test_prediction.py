"""What the linter predicts for files that ran: by the project's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from exportlint.checks.prediction import Predictor

TYPED = """import torch
from torch import nn
from pictures import Image


class Net(nn.Module):
    def forward(self, x: Image):
        if x:
            return 1
        return 0
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(TYPED)


def predicted(predictor: Predictor) -> list[tuple[str, int | None]]:
    return [(found.rule, found.line) for found in predictor.predict({"net.py": frozenset({7, 8, 9})})]


def test_the_configuration_is_heard() -> None:
    assert predicted(Predictor()) == []
    Path("exportlint.toml").write_text('tensor-types = ["pictures.Image"]\nmodes = ["compile"]\n')
    assert predicted(Predictor()) == [("EXP101", 8)]


def test_a_wrong_configuration_is_told_and_the_linter_runs() -> None:
    Path("exportlint.toml").write_text('tensor-typs = ["pictures.Image"]\n')
    Path("net.py").write_text(TYPED.replace("if x:", "if x.sum() > 0:"))
    predictor = Predictor()
    assert predicted(predictor) == [("EXP101", 8)]
    (note,) = predictor.notes(["net.py"])
    assert note.startswith("linted without the configuration, which is wrong: ")
    assert "exportlint.toml:1: tensor-typs is not known; did you mean 'tensor-types'?" in note
