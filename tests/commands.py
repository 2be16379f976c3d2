"""Running commands and looking at what they did; shared by tests of more than one package."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Ran:
    """What one ``exportlint`` command did."""

    status: int
    out: str
    err: str
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def lines(self) -> list[str]:
        return (self.out + self.err).splitlines()

    @property
    def errors(self) -> dict[str, str]:
        """Messages by TARGET."""
        return {error["target"]: error["message"] for error in self.data["errors"]}

    def check(self, case: str, name: str) -> dict[str, Any]:
        """The one result of a check of a case."""
        (found,) = [c for k in self.data["cases"] if k["name"] == case for c in k["checks"] if c["name"] == name]
        return found

    def outcomes(self) -> set[tuple[str, str, str, tuple[tuple[str, str | None, int | None], ...]]]:
        """Case, check, outcome, and rule, file and line of what was found, without what is only information."""
        return {
            (case["name"], check["name"], check["outcome"], tuple(sorted(places(check))))
            for case in self.data["cases"]
            for check in case["checks"]
        }


def places(check: dict[str, Any]) -> list[tuple[str, str | None, int | None]]:
    """Rule, file name and line of the findings of warning or error."""
    return [
        (f["rule"], f["file"] and Path(f["file"]).name, f["line"]) for f in check["findings"] if f["severity"] != "info"
    ]


def exportlint(*arguments: str | Path, cwd: Path | None = None, timeout: float = 150, **options: Any) -> Ran:
    """Run the command as a user does; `env` is added to the environment, which `environment` replaces."""
    command = [sys.executable, "-m", "exportlint", *map(str, arguments)]
    environment = {**options.pop("environment", os.environ), "COLUMNS": "160", **options.pop("env", {})}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, timeout=timeout, env=environment, check=False, **options
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def wait_until(condition, seconds: float, what: str) -> None:
    """Wait, at most so long, for something to hold."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.05)
    pytest.fail(f"after {seconds} s: {what}")


def marked(path: Path, mark: str) -> int:
    """The number of the line that ends in the comment ``# at: MARK``."""
    (number,) = [i for i, line in enumerate(path.read_text().splitlines(), 1) if line.endswith(f"# at: {mark}")]
    return number


def line_of(path: Path, text: str) -> int:
    """The number of the one line that holds the text."""
    (number,) = [i for i, line in enumerate(path.read_text().splitlines(), 1) if text in line]
    return number


def gone(pid: int) -> bool:
    """Whether the process has ended, though its parent may not have asked for its status yet."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
