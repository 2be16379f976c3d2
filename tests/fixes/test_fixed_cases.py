"""The cases of ``fixtures/cases/`` with their fixes: what docs/fixes.md says of them is so."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exportlint.rules import catalogue

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| `(\S+\.py)` \| ([^|]+) \| (\w+) \| (\w+) \| ([^|]+) \|$", re.MULTILINE)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_of_fixes", ROOT / "benchmarks" / "fixes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rows() -> dict[str, tuple[str, str, str, str]]:
    """What the page says of each case: rules, before, after, eager."""
    text = (ROOT / "docs" / "fixes.md").read_text(encoding="utf-8")
    return {name: (codes, before, after, eager) for name, codes, before, after, eager in ROW.findall(text)}


def test_the_page_names_the_cases_that_fixes_change(script: ModuleType, rows: dict[str, tuple[str, ...]]) -> None:
    made = {path.name: result for path, result in script.fixed_cases().items() if result.mended}
    changed = {name: ", ".join(sorted({p.rule.code for p in result.mended})) for name, result in made.items()}
    assert changed == {name: row[0] for name, row in rows.items()}, "python benchmarks/fixes.py --output docs/fixes.md"


def test_no_case_computes_something_else_but_where_its_rule_says_so(rows: dict[str, tuple[str, ...]]) -> None:
    for name, (codes, *_, eager) in rows.items():
        told = any(catalogue()[code].fixed_differs for code in codes.split(", "))
        assert eager in ("same", "did not run before") or told, name


def test_half_of_the_red_cases_turn_green(script: ModuleType, rows: dict[str, tuple[str, ...]]) -> None:
    """By fixes alone, of those whose label holds a rewrite by hand."""
    text = " ".join((ROOT / "docs" / "fixes.md").read_text(encoding="utf-8").split())
    figures = re.search(r"The labels of (\d+) of the red cases hold a rewrite .* of these, (\d+) turn green", text)
    assert figures is not None
    green = {name for name, row in rows.items() if row[1] == "red" and row[2] == "green"}
    assert int(figures[2]) == len(green & set(script.with_rewrites()))
    assert 2 * int(figures[2]) >= int(figures[1])


@pytest.mark.slow
def test_cases_that_are_green_afterwards_are_captured_and_move(
    script: ModuleType, rows: dict[str, tuple[str, ...]], tmp_path: Path
) -> None:
    for path, result in script.fixed_cases().items():
        if path.name in rows and rows[path.name][2] == "green":
            (tmp_path / path.name).write_bytes(result.data)
    red = script.checked(tmp_path, "capture,device")
    assert set(red) == {name for name, row in rows.items() if row[2] == "green"}
    assert not any(red.values()), red
