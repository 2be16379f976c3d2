"""Every fix of every example of every rule, written and run with the installed torch: it mends what it is for."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from mending import RULES, Case, cases, mended

from exportlint.rules import catalogue

MENDED = [case for case in cases() if case.bad and mended(case.source).mended]


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[str]]]:
    """What torch made of each example with its fixes, and how it compares with the example without."""
    folder = tmp_path_factory.mktemp("fixed")
    jobs = [{"id": c.id, "source": mended(c.source).data.decode(), "proof": c.proof} for c in MENDED]
    pairs = list(zip(jobs, MENDED, strict=True))
    jobs += [{"id": f"{j['id']} beside bad", "source": j["source"], "fixed": c.source} for j, c in pairs]
    given, results, log = (folder / name for name in ("jobs", "results", "log"))
    given.write_text(json.dumps(jobs), encoding="utf-8")
    with log.open("wb") as stream:
        command = [sys.executable, str(RULES / "observing.py"), str(given), str(results)]
        ran = subprocess.run(command, cwd=folder, stderr=stream, timeout=900, check=False)
    assert ran.returncode == 0, log.read_text(encoding="utf-8")[-3000:]
    found: dict[str, dict[str, list[str]]] = json.loads(results.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("case", MENDED, ids=lambda c: c.id.replace(" ", "-"))
def test_the_fixed_example_is_portable(case: Case, observed: dict[str, dict[str, list[str]]]) -> None:
    """In every mode in which the example is not."""
    seen = observed[case.id]
    assert "error" not in seen, seen
    for mode, outcome in case.wanted.items():
        assert outcome == "fine" or seen[mode][0] == "fine", seen


@pytest.mark.parametrize("case", MENDED, ids=lambda c: c.id.replace(" ", "-"))
def test_the_fixed_example_computes_the_same(case: Case, observed: dict[str, dict[str, list[str]]]) -> None:
    """Bit for bit, and a safe fix keeps the state dict; wherever the example runs at all."""
    seen = observed[f"{case.id} beside bad"]
    assert "error" not in seen, seen
    runs = seen["eager"][0] != "nothing to compare with"
    differs = bool(case.rule.fixed_differs)
    assert not runs or seen["eager"][0] == ("differs" if differs else "same"), seen
    applied = [p.fix.applicability for p in mended(case.source).mended if p.fix]
    assert "unsafe" in applied or seen["state dict"][0] == "same", seen


@pytest.mark.parametrize("code", [c.rule.code for c in MENDED if c.source == c.rule.bad and c.rule.match is not None])
def test_the_bad_example_with_its_fix_is_the_fixed_one(code: str) -> None:
    """Of a rule that only a check observes, the fix is another rule's."""
    rule = catalogue()[code]
    assert mended(rule.bad).data.decode() == rule.fixed


def test_fixes_of_many_rules_are_proven() -> None:
    assert {case.rule.code for case in MENDED} <= set(catalogue())
    assert len({case.rule.code for case in MENDED}) >= 15
