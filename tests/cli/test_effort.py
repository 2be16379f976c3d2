"""Options of ``exportlint check`` that say how the work is done."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from exportlint.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x: torch.Tensor):
        return x if x.sum() > 0 else -x
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "exportlint.toml").write_text('select = ["ALL"]\n', encoding="utf-8")
    (tmp_path / "pkg").mkdir()
    for name in "ab":
        (tmp_path / "pkg" / f"{name}.py").write_text(NET, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(*options: str) -> Result:
    return CliRunner().invoke(main, ["check", "pkg", *options])


def test_the_cache_lies_beside_the_configuration(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = check()
    assert first.exit_code == 1
    assert "2 files checked, 2 errors" in first.output
    assert {p.name for p in project.iterdir()} == {"exportlint.toml", "pkg", ".exportlint_cache"}
    assert check().output == first.output
    (project / ".exportlint_cache").rename(project / "moved")
    monkeypatch.chdir(project / "pkg")
    assert CliRunner().invoke(main, ["check"]).exit_code == 1
    assert (project / ".exportlint_cache").is_dir()
    assert not (project / "pkg" / ".exportlint_cache").exists()


def test_a_cache_can_lie_elsewhere_or_nowhere(project: Path) -> None:
    plain = check("--no-cache")
    assert plain.exit_code == 1
    assert not (project / ".exportlint_cache").exists()
    assert check("--cache-dir", "elsewhere").output == plain.output
    assert sorted(p.suffix for p in (project / "elsewhere" / "lint").iterdir()) == [".msgpack", ".msgpack"]
    assert not (project / ".exportlint_cache").exists()


@pytest.mark.parametrize("jobs", ["0", "-1", "many", "1.5", ""])
def test_a_number_of_jobs_that_is_none_is_told_in_one_line(project: Path, jobs: str) -> None:
    result = check("--jobs", jobs)
    assert result.exit_code == 2
    assert f"'{jobs}' is neither a number from 1 nor auto" in result.output
    assert len([line for line in result.output.splitlines() if "rror" in line]) == 1


def test_any_number_of_jobs_prints_the_same(project: Path) -> None:
    outputs = {check("--no-cache", "--jobs", jobs).output for jobs in ("1", "3", "auto")}
    assert len(outputs) == 1


def test_the_time_of_each_rule_is_told(project: Path) -> None:
    result = check("--profile-rules")
    assert result.exit_code == 1
    rows = re.findall(r"^ +(\d+\.\d+) s +(\d+\.\d)%  (.+)$", result.stderr, re.MULTILINE)
    assert "EXP101 branch-on-tensor" in {name for _, _, name in rows}
    assert [name for _, _, name in rows][-2:] == ["all rules", "the whole run"]
    *rules, every, _ = (float(seconds) for seconds, _, _ in rows)
    assert rules == sorted(rules, reverse=True)
    assert sum(rules) == pytest.approx(every, abs=0.001 * len(rules))
    assert not (project / ".exportlint_cache").exists()
