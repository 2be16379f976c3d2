"""Models of the command line: wildcards, inputs that were inferred, and how they are named."""

from __future__ import annotations

import pytest
from plugin_runs import run
from pytest_exportlint.node_ids import heading

MODULE = """
import torch
from torch import nn

class Gate(nn.Linear):
    def __init__(self):
        super().__init__(3, 3)

    def forward(self, x):
        return x if x.sum() > 0 else -x

def gate_again() -> nn.Module:
    return Gate()

def other():
    raise RuntimeError
"""
INFERRED = "inputs inferred from the first layer, Gate and tried out: (2, 3); and once more with 3 rows"


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    (folder / "pkg").mkdir()
    (folder / "pkg" / "__init__.py").write_text("")
    (folder / "pkg" / "nets.py").write_text(MODULE)
    return run(folder, "", "--export-model=pkg.nets:[Gg]ate*", "--export-checks=capture,lint", "-v")


def test_wildcards_stand_for_factories(done):
    assert set(done.tests) == {
        f"pkg.nets:{name}[{check}]" for name in ("Gate", "gate_again") for check in ("capture", "lint")
    }


def test_inferred_inputs_are_told_in_each_failure_and_once_at_the_end(done):
    assert INFERRED in done.tests["pkg.nets:Gate[capture]"].text
    assert done.tests["pkg.nets:gate_again[lint]"].lines[-3] == INFERRED
    end = done.out[done.out.index("export readiness") :]
    assert end.count(f"Gate: {INFERRED}") == 1
    assert end.count(f"gate_again: {INFERRED}") == 1


def test_ids_are_printed_as_they_are(done):
    assert "export-model::pkg.nets:Gate[capture] FAILED" in done.out
    assert "_ capture of pkg.nets:Gate _" in done.out
    assert "repeat: pytest --export-model=pkg.nets:Gate --export-checks=lint" in done.out


@pytest.mark.parametrize(
    ("name", "shown"),
    [("Net[capture]", "Net[capture]"), ("a.b:c[lint]", "lint of a.b:c"), ("N.m[x.y][lint]", "lint of N.m[x.y]")],
)
def test_headings(name, shown):
    assert heading(name) == shown
