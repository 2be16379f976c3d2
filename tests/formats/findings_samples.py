"""Findings to write in each format: plain ones, and ones with hostile names and lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.formats import Results
from exportlint.linting.linter import check_paths
from exportlint.rules.examples import example
from exportlint.source.engine import Unanalysed

if TYPE_CHECKING:
    from pathlib import Path

BRANCH = example("def forward(self, x):\n    return x if x.sum() > 0 else -x")
DEVICE = example("def forward(self, x):\n    y = x + torch.arange(4)\n    return y")
COUNTER = example("def forward(self, x):\n    self.calls += 1\n    return x * 2", init="self.calls = 0")
LONG = example("def forward(self, x):\n    return x + torch.zeros(\n        4,\n        device='cpu',\n    )")


def results(folder: Path, **files: str) -> Results:
    """What is found in files of these names and texts."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    found = check_paths(sorted(folder.glob("*.py")), isolated=True)
    return Results(shown=found, files=len(files))


def unanalysed(folder: Path) -> Results:
    """A file of which nothing is known."""
    return Results(files=1, unanalysed=(Unanalysed(folder / "deep.py", "Deep", "its code is nested too deeply"),))
