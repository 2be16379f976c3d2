"""Known findings: they stay quiet while lines move, and may only become fewer."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from exportlint.cli.check import check
from exportlint.linting.baseline import BaselineError, read
from exportlint.rules.examples import example

if TYPE_CHECKING:
    from pathlib import Path

ONE = example("def forward(self, x):\n    x = x if x.sum() > 0 else -x\n    return x")
TWO = example("def forward(self, x):\n    x = x if x.sum() > 0 else -x\n    x = x if x.sum() > 0 else -x\n    return x")
CLEAN = example("def forward(self, x):\n    return x * 2")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def call(*options: str, **files: str | None) -> Result:
        for name, text in files.items():
            file = tmp_path / f"{name}.py"
            file.unlink(missing_ok=True) if text is None else file.write_text(text)
        return CliRunner().invoke(check, [*options, "--output-format", "concise", "--baseline", "known.json"])

    return call


def known(tmp_path: Path) -> dict[str, int]:
    return {item["file"]: item["count"] for item in json.loads((tmp_path / "known.json").read_text())["findings"]}


def test_known_findings_stay_quiet_while_lines_move(run, tmp_path: Path) -> None:
    made = run("--update-baseline", a=TWO, b=ONE)
    assert (made.exit_code, made.stderr) == (0, "baseline: 3 findings written to known.json\n")
    assert known(tmp_path) == {"a.py": 2, "b.py": 1}
    quiet = run(a="# one\n\n" + TWO)
    assert (quiet.exit_code, quiet.stderr) == (0, "baseline: 3 known findings, 0 gone\n")
    assert quiet.stdout == "2 files checked, no findings\n"


def test_one_more_of_the_same_is_new_and_so_is_a_changed_line(run) -> None:
    run("--update-baseline", a=ONE)
    more = run(a=TWO)
    assert more.exit_code == 1
    assert "1 file checked, 1 error\n" in more.stdout
    changed = run(a=ONE.replace("x.sum() > 0", "x.sum() > 1"))
    assert changed.exit_code == 1
    assert changed.stderr == "baseline: 0 known findings, 1 gone (take them out with --update-baseline)\n"


def test_an_update_takes_out_what_is_gone_and_takes_nothing_in(run, tmp_path: Path) -> None:
    run("--update-baseline", a=TWO, b=ONE, c=ONE)
    fewer = run("--update-baseline", a=ONE, b=None, c=TWO)
    assert fewer.exit_code == 1  # c has one more
    assert known(tmp_path) == {"a.py": 1, "c.py": 1}
    again = run("--update-baseline", a=TWO, c=CLEAN)
    assert again.exit_code == 1
    assert known(tmp_path) == {"a.py": 1}


def test_files_that_were_not_linted_keep_what_is_known_of_them(run, tmp_path: Path) -> None:
    run("--update-baseline", a=ONE, b=ONE)
    assert run("--update-baseline", "a.py", a=CLEAN).exit_code == 0
    assert known(tmp_path) == {"b.py": 1}


def test_paths_are_relative_to_the_baseline(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("--update-baseline", a=ONE)
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    result = CliRunner().invoke(check, ["../a.py", "--baseline", "../known.json"])
    assert (result.exit_code, result.stderr) == (0, "baseline: 1 known finding, 0 gone\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "known.json holds no baseline"),
        ("[]", "known.json holds no baseline"),
        ('{"version": 1}', "known.json holds no baseline"),
        (
            '{"version": 1, "findings": [{"file": 1, "code": "", "line": "", "count": 1}]}',
            "known.json holds no baseline",
        ),
        ('{"version": 1, "findings": [], "settings": 1}', "known.json holds no baseline"),
        ('{"version": 1, "findings": [], "settings": [1]}', "known.json holds no baseline"),
        ('{"version": 1, "findings": [], "settings": [{"modes": [{}], "files": []}]}', "known.json holds no baseline"),
        ('{"version": 9}', "known.json: a baseline of version 9; this is version 1"),
        (None, "known.json: no such file; --update-baseline makes it"),
    ],
)
def test_what_is_no_baseline_is_one_line(run, tmp_path: Path, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / "known.json").write_text(text)
    result = run(a=CLEAN)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"error: {words}\n")
    with pytest.raises(BaselineError):
        read(tmp_path / "known.json")


def test_an_update_needs_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(check, ["--update-baseline"])
    assert (result.exit_code, result.stderr) == (2, "error: --update-baseline needs --baseline FILE\n")


def test_advice_that_is_not_shown_is_not_known(run, tmp_path: Path) -> None:
    counter = example("def forward(self, x):\n    self.calls += 1\n    return x * 2", init="self.calls = 0")
    assert run("--update-baseline", a=counter).stderr == "baseline: 0 findings written to known.json\n"
    assert run().stdout == "1 file checked, no findings (1 info hidden, see --show-info)\n"
    (tmp_path / "known.json").unlink()
    assert run("--update-baseline", "--show-info").stderr == "baseline: 1 finding written to known.json\n"
    (tmp_path / "known.json").unlink()
    assert run("--update-baseline", "--fail-level", "info").stderr == "baseline: 1 finding written to known.json\n"
    assert run("--fail-level", "info").exit_code == 0


def test_lines_that_are_not_new_are_not_gone(run, tmp_path: Path) -> None:
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "--allow-empty", "-m", "one"]):
        if words[0] == "add":
            (tmp_path / "a.py").write_text(TWO)
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=tmp_path, check=True)
    run("--update-baseline")
    result = run("--update-baseline", "--diff-base", "HEAD")
    assert (result.exit_code, result.stderr) == (0, "baseline: 2 known findings, 0 gone\n")
    assert known(tmp_path) == {"a.py": 2}
    (tmp_path / "known.json").write_text('{"version": 1, "findings": []}')
    assert run("--diff-base", "HEAD").stdout == "2 files checked, no findings\n".replace("2 files", "1 file")


@pytest.mark.parametrize(
    "options",
    [
        ("--ignore", "EXP202"),
        ("--select", "EXP1"),
        ("--mode", "compile"),
        ("--isolated",),
        ("--config", "other.toml"),
    ],
)
def test_what_narrower_settings_do_not_look_for_is_not_gone(run, tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "exportlint.toml").write_text('entry-points = ["a.Net.encode"]\n')
    (tmp_path / "other.toml").write_text('per-file-ignores = {"a.py" = ["EXP2"]}\n')
    encode = example("def encode(self, x: torch.Tensor):\n    return x + torch.arange(4)")
    assert run("--update-baseline", a=encode).stderr == "baseline: 1 finding written to known.json\n"
    before = (tmp_path / "known.json").read_bytes()
    for update in ((), ("--update-baseline",)):
        result = run(*options, *update)
        assert result.exit_code == 0
        assert result.stderr.endswith("0 gone; 1 kept, which this run did not look for\n")
    assert (tmp_path / "known.json").read_bytes() == before


def test_what_another_torch_no_longer_does_is_not_gone(run, tmp_path: Path) -> None:
    power = example("def forward(self, x):\n    return pow(x, 2)")
    run("--update-baseline", "--mode", "compile", a=power)
    result = run("--update-baseline", "--mode", "compile", "--torch-version", "2.14")
    assert result.stderr.endswith("0 gone; 1 kept, which this run did not look for\n")
    assert known(tmp_path) == {"a.py": 1}


def test_more_modes_see_all_that_fewer_see(run, tmp_path: Path) -> None:
    run("--update-baseline", a=ONE)
    result = run("--update-baseline", "--mode", "compile", "--mode", "export", a=CLEAN)
    assert result.stderr == "baseline: 0 known findings, 1 gone\n"
    assert known(tmp_path) == {}


def test_what_is_in_code_that_was_not_analysed_is_not_gone(run, tmp_path: Path) -> None:
    run("--update-baseline", a=ONE, b=ONE)
    broken = run("--update-baseline", "--ignore", "EXP001", a="x = (\n")
    assert broken.stderr.endswith("baseline: 1 known finding, 0 gone; 1 kept, which this run did not look for\n")
    assert known(tmp_path) == {"a.py": 1, "b.py": 1}


def test_advice_that_is_known_and_hidden_is_not_gone(run, tmp_path: Path) -> None:
    counter = example("def forward(self, x):\n    self.calls += 1\n    return x * 2", init="self.calls = 0")
    run("--update-baseline", "--show-info", a=counter)
    hidden = run("--update-baseline")
    assert (hidden.stdout, hidden.stderr) == ("1 file checked, no findings\n", "baseline: 1 known finding, 0 gone\n")
    assert known(tmp_path) == {"a.py": 1}


def test_what_became_of_known_findings_is_told_once(run) -> None:
    run("--update-baseline", a=ONE)
    mended = run("--fix", b=example("def forward(self, x):\n    return x + torch.arange(4)"))
    assert mended.stderr.splitlines() == ["1 finding fixed in 1 file", "baseline: 1 known finding, 0 gone"]


@pytest.mark.parametrize("count", [0, -1])
def test_a_count_below_one_is_refused(run, tmp_path: Path, count: int) -> None:
    run("--update-baseline", a=ONE)
    held = json.loads((tmp_path / "known.json").read_text())
    held["findings"][0]["count"] = count
    (tmp_path / "known.json").write_text(json.dumps(held))
    for options in ((), ("--update-baseline",)):
        result = run(*options)
        words = f"known.json: a.py has a count of {count}, which must be 1 or more"
        assert (result.exit_code, result.stderr) == (2, f"error: {words}\n")


def test_a_pipe_is_no_baseline(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "known.json")
    with pytest.raises(BaselineError, match=r"known\.json cannot be read: not a regular file"):
        read(tmp_path / "known.json")


def test_a_baseline_without_settings_is_read(run, tmp_path: Path) -> None:
    run("--update-baseline", a=ONE)
    held = json.loads((tmp_path / "known.json").read_text())
    (tmp_path / "known.json").write_text(json.dumps({"version": 1, "findings": held["findings"]}))
    assert run().stderr == "baseline: 1 known finding, 0 gone\n"
    assert run("--update-baseline", a=CLEAN).stderr == "baseline: 0 known findings, 1 gone\n"
