"""The page that shows what is done in Ruff's manner is what the commands print, and Ruff has the options it names."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "parity_with_ruff.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("parity_with_ruff", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(script) -> None:
    assert script.PLACE.read_text() == script.document(), f"python benchmarks/{SCRIPT.name}"


def test_no_command_failed_in_an_unforeseen_way(script) -> None:
    page = script.PLACE.read_text()
    assert "No such option" not in page
    assert "internal error" not in page
    assert "Traceback" not in page
    assert set(re.findall(r"^\$ .* \((\d+)\)$", page, re.MULTILINE)) == {"1", "2"}


def test_ruff_has_the_options_that_are_named(script) -> None:
    pytest.importorskip("ruff")
    command = [sys.executable, "-m", "ruff", "check", "--help"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    named = {word for manner in script.MANNERS for word in shlex.split(manner.ruff) if word.startswith("--")}
    assert len(named) > 8
    assert all(re.search(rf"{option}\b", text) for option in named), named
