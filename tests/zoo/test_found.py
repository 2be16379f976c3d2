"""Each finding in a model of the zoo is shown by a script that needs torch and the model's library alone."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys

import pytest
from commands import ROOT

from exportlint.rules import catalogue

SCRIPTS = sorted((ROOT / "fixtures" / "found").glob("*.py"))
HEADER = re.compile(r"^# (EXP\d+) (\S+):(\d+)$", re.MULTILINE)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_is_short_and_names_rule_and_place(script):
    text = script.read_text()
    assert len(text.splitlines()) <= 25
    assert "exportlint" not in text
    found = HEADER.findall(text)
    assert found
    assert all(rule in catalogue() for rule, _, _ in found)


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_shows_what_it_names(script):
    text = script.read_text()
    library = HEADER.findall(text)[0][1].partition("/")[0]
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stderr[-2000:]
    for _, file, line in HEADER.findall(text):
        assert re.search(rf'{re.escape(file)}"?, line(no)? {line}\b', ran.stdout + ran.stderr), f"{file}:{line}"
