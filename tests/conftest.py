"""Fixtures that the tests of more than one package share."""

from __future__ import annotations

import json
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest
from commands import Ran, exportlint
from hypothesis import settings

if TYPE_CHECKING:
    from pathlib import Path

# The same examples in every run, however slow: a property that fails now and then fails somebody else's change.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def no_device_stays():
    """Fail a test that registers the second device in this process, where it stays: in_fork() is there for such."""
    yield
    torch = sys.modules.get("torch")
    if torch is not None:
        assert torch._C._get_privateuse1_backend_name() == "privateuseone"


@pytest.fixture
def report(tmp_path_factory):
    """Run ``exportlint report``, with its JSON report read back where it was written."""

    def run(*arguments: str | Path, cwd: Path | None = None, **options: Any) -> Ran:
        file = tmp_path_factory.mktemp("report") / "r.json"
        ran = exportlint("report", *arguments, "--output", file, cwd=cwd, **options)
        data = json.loads(file.read_text()) if file.is_file() else {}
        return Ran(ran.status, ran.out, ran.err, data)

    return run


@pytest.fixture
def source(tmp_path):
    """Write a source file and return its path; its text is dedented."""

    def write(text: str, name: str = "model.py") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"))
        return path

    return write
