"""Running pytest with the plugin on tests of models, and reading back what each test said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# Writes what each test said to reports.json; under xdist, the controller does.
CONFTEST = """
import json, pathlib

REPORTS = {}

def pytest_runtest_logreport(report):
    if report.when == "call" or not report.passed:
        sections = [text for title, text in report.sections if "exportlint" in title]
        others = [text for title, text in report.sections if "exportlint" not in title]
        REPORTS[report.nodeid.partition("::")[2]] = {
            "outcome": report.outcome if report.when == "call" else "error",
            "text": report.longreprtext,
            "section": "\\n".join(sections),
            "captured": "\\n".join(others),
        }

def pytest_sessionfinish(session):
    if not hasattr(session.config, "workerinput"):
        pathlib.Path("reports.json").write_text(json.dumps(REPORTS))
"""

# What the files of tests begin with.
HEAD = """
import os
import torch
from torch import nn
from torch.export import Dim
from exportlint import ModelCase

X = (torch.ones(2, 3),)
ROWS = {"x": {0: Dim("rows", min=1, max=16)}}

class Gate(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x

class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 4)

    def forward(self, x):
        return self.linear(x)
"""


@dataclass(frozen=True)
class Said:
    """One test: ``passed``, ``failed`` or ``error``, its failure, the plugin's section and what else was captured."""

    outcome: str
    text: str
    section: str
    captured: str

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


@dataclass(frozen=True)
class Run:
    """One run of pytest: its exit status, its output, and its tests by name."""

    status: int
    out: str
    tests: dict[str, Said]


def write(folder: Path, tests: str) -> None:
    """Write the conftest and one file of tests, ``test_models.py``."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_models.py").write_text(HEAD + tests)


def command(*arguments: str, cache: bool = False) -> list[str]:
    cacheless = [] if cache else ["-p", "no:cacheprovider"]
    return [sys.executable, "-m", "pytest", *cacheless, "-p", "no:randomly", *arguments]


def run(folder: Path, tests: str, *arguments: str, cache: bool = False) -> Run:
    """Run tests in a pytest of their own; with pytest's cache for what remembers the last run."""
    write(folder, tests)
    environment = {**os.environ, "COLUMNS": "200"}
    environment.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run(
        command(*arguments, cache=cache),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    reports = json.loads((folder / "reports.json").read_text())
    return Run(done.returncode, done.stdout + done.stderr, {name: Said(**said) for name, said in reports.items()})


def line_of(text: str) -> int:
    """The number of the one line of `HEAD` that holds the text."""
    (number,) = [i for i, line in enumerate(HEAD.splitlines(), 1) if text in line]
    return number
