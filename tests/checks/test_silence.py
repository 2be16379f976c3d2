"""Comments that silence findings of the checks: lines, statements, blocks and files."""

from __future__ import annotations

from pathlib import Path

import pytest

from exportlint.checks.silence import Silence
from exportlint.findings import CheckResult, Finding

PLAIN = "def forward(x):\n    return (\n        x\n    )\n"


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (PLAIN, "failed"),
        (PLAIN.replace("(\n", "(  # exportlint: ignore[EXP101]\n"), "passed"),
        (PLAIN.replace("(\n", "(  # exportlint: ignore[EXP201]\n"), "failed"),
        (PLAIN.replace("    return", "    # exportlint: ignore[EXP101]\n    return"), "passed"),
        ("# exportlint: disable[branch-on-tensor]\n" + PLAIN, "passed"),
        ("# exportlint: disable[EXP101]\n# exportlint: enable[EXP101]\n" + PLAIN, "failed"),
        (PLAIN + "# exportlint: ignore-file\n", "passed"),
        (PLAIN + "# exportlint: ignore-file[EXP2]\n", "failed"),
    ],
)
def test_what_is_silenced_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, outcome: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(text)
    line = text.splitlines().index(next(each for each in text.splitlines() if "return" in each)) + 1
    found = Finding(rule="EXP101", severity="error", message="m", file="model.py", line=line, end_line=line)
    result = Silence().apply(CheckResult(name="capture", outcome="failed", findings=(found,)))
    assert result.outcome == outcome
    assert [f.severity for f in result.findings] == ["info" if outcome == "passed" else "error"]
