"""Who runs the units of many files, and that it changes nothing."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from exportlint.source import work
from exportlint.source.engine import Effort, Options, examine

CASES = Path(__file__).parent.parent.parent / "fixtures" / "cases"


def told(folder: Path, effort: Effort) -> list[str]:
    linted = examine([folder], Options(), effort)
    return [f"{p.key} {p.severity} {p.rewrite}" for p in linted.predictions] + [f"{u}" for u in linted.unanalysed]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_any_number_of_processes_finds_the_same(method: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(work, "_SMALL", 0)
    if method == "spawn":
        monkeypatch.setattr(work.sys, "platform", "another")
    alone = told(CASES, Effort(jobs=1))
    assert len(alone) > 50
    kept = Effort(jobs=2, cache=tmp_path)
    assert told(CASES, kept) == alone
    assert told(CASES, kept) == alone


def test_a_class_that_is_nested_too_deeply_is_so_in_every_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(work, "_SMALL", 0)
    for terms in range(300, 620, 20):
        head = "import torch\nfrom torch import nn\n\nclass Net(nn.Module):\n    def forward(self, x):\n"
        text = f"{head}        y = x{' if x.dim() else x' * terms}\n"
        (tmp_path / f"m{terms}.py").write_text(
            f"{text}        assert x.relu().any()\n        return y\n", encoding="utf-8"
        )

    def deeply(levels: int) -> list[str]:
        return deeply(levels - 1) if levels else told(tmp_path, Effort())

    alone = told(tmp_path, Effort(jobs=1))
    assert 0 < sum("nested too deeply" in line for line in alone) < 16
    assert told(tmp_path, Effort(jobs=2)) == alone
    assert deeply(200) == alone


def test_hash_seeds_change_nothing() -> None:
    code = (
        "import sys; from pathlib import Path; from exportlint.source.engine import Options, examine\n"
        "for p in examine([Path(sys.argv[1])], Options()).predictions: print(p.key, p.severity, p.rewrite)"
    )
    outputs = set()
    for seed in ("0", "1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", code, str(CASES / "bugreports")]
        outputs.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(outputs) == 1
    assert "EXP" in outputs.pop()


def test_the_collector_and_the_limit_of_recursion_are_left_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("class A:\n    def forward(self): import torch\n", encoding="utf-8")
    before = gc.isenabled(), sys.getrecursionlimit()
    examine([tmp_path], Options())
    assert (gc.isenabled(), sys.getrecursionlimit()) == before


def test_pieces_of_work_hold_every_file_once(tmp_path: Path) -> None:
    paths = []
    for i, size in enumerate([10, 0, 5000, 10, 300, 300, 1, 2000]):
        file = tmp_path / f"{i}.py"
        file.write_text("#" * size, encoding="utf-8")
        paths.append(str(file))
    chunks = list(work._chunks([*paths, str(tmp_path / "gone.py")], 4))
    assert [path for chunk in chunks for path in chunk] == [*paths, str(tmp_path / "gone.py")]
    assert 2 <= len(chunks) <= 5
