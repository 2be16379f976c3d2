"""Many spellings of the hazards, and of portable code close to them: what is found, and at which line.

The names begin with the kind: branches and numbers (``b``), devices (``d``), environment (``e``), interface (``i``),
leaving (``l``), modules made in forward (``m``), numpy (``n``), state (``s``), sizes (``z``) and clean code (``c``).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from exportlint.source.engine import Options, lint

SPELLINGS = json.loads(
    (Path(__file__).resolve().parents[2] / "fixtures" / "lint" / "spellings.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda s: s["name"])
def test_spelling(spelling: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("\n".join(spelling["source"]), encoding="utf-8")
    found = sorted({(p.rule.code, p.range.line) for p in lint([file], Options())})
    assert [list(f) for f in found] == spelling["found"]


def test_clean_spellings_are_clean_and_most_others_are_found() -> None:
    clean = [s for s in SPELLINGS if s["name"].startswith("c_")]
    bad = [s for s in SPELLINGS if not s["name"].startswith("c_")]
    assert len(clean) > 25
    assert not any(s["found"] for s in clean)
    assert sum(bool(s["found"]) for s in bad) >= 0.95 * len(bad)
