"""``exportlint check``: where results go, and in which form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from exportlint import whole_file
from exportlint.cli.check import check
from exportlint.formats import FORMATS
from exportlint.rules.examples import example

BOTH = example(
    "def forward(self, x):\n    x = x + torch.arange(4)\n    x = x + torch.ones(4)\n    return x if x.sum() > 0 else -x"
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(BOTH)
    return lambda *options: CliRunner().invoke(check, [*options])


@pytest.mark.parametrize("name", list(FORMATS))
def test_a_file_holds_what_would_be_printed(run, tmp_path: Path, name: str) -> None:
    printed: Result = run("--output-format", name)
    written = run("--output-format", name, "--output-file", "out.txt")
    assert (printed.exit_code, written.exit_code, written.output) == (1, 1, "")
    assert (tmp_path / "out.txt").read_text() == printed.output
    assert {p.name for p in tmp_path.iterdir()} <= {".exportlint_cache", "model.py", "out.txt"}


def test_the_files_that_would_be_linted_are_written_as_well(run, tmp_path: Path) -> None:
    assert run("--show-files", "--output-file", "out.txt").output == ""
    assert (tmp_path / "out.txt").read_text() == "model.py\n"


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("gone/out.txt", "gone/out.txt: the folder gone does not exist"),
        ("folder", "folder: is no regular file"),
        ("/dev/null", "/dev/null: is no regular file"),
        ("/proc/nobody", "/proc/nobody: No such file or directory"),
    ],
)
def test_a_place_that_cannot_be_written_is_one_line(run, tmp_path: Path, place: str, words: str) -> None:
    (tmp_path / "folder").mkdir()
    result = run("--output-file", place)
    assert (result.exit_code, result.output) == (2, f"error: {words}\n")


@pytest.mark.parametrize(
    ("number", "words"),
    [(28, "No space left on device"), (13, "Permission denied"), (30, "Read-only file system")],
)
def test_a_disk_that_refuses_is_one_line_and_leaves_what_was_there(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    def refusing(place: Path, content: bytes, mode: int | None = None) -> None:
        raise OSError(number, words, str(place))

    (tmp_path / "out.txt").write_text("before")
    monkeypatch.setattr(whole_file, "write", refusing)
    result = run("--output-file", "out.txt")
    assert (result.exit_code, result.output) == (2, f"error: out.txt: {words}\n")
    assert (tmp_path / "out.txt").read_text() == "before"
    baseline = run("--baseline", "known.json", "--update-baseline")
    assert (baseline.exit_code, baseline.output) == (2, f"error: known.json: {words}\n")


def test_statistics(run) -> None:
    result = run("--statistics")
    assert result.exit_code == 1
    assert result.output.splitlines() == [
        "2  EXP202  factory-without-device",
        "1  EXP101  branch-on-tensor",
        "1 file checked, 1 error, 2 warnings",
        "[*] 2 fixable with --fix ([!] 1 more with --fix --unsafe-fixes)",
    ]
    found = json.loads(run("--statistics", "--output-format", "json").output)
    assert found[0] == {"code": "EXP202", "name": "factory-without-device", "count": 2}
    assert run("--statistics", "--select", "EXP6").output == "1 file checked, no findings\n"


@pytest.mark.parametrize("name", list(FORMATS))
def test_statistics_are_in_the_format_that_is_asked_for_or_refused(run, tmp_path: Path, name: str) -> None:
    result = run("--statistics", "--output-format", name, "--output-file", "out.txt")
    if name in ("full", "concise", "grouped", "json", "json-lines"):
        text = (tmp_path / "out.txt").read_text()
        assert result.exit_code == 1
        held = json.loads(text) if name == "json" else text.splitlines()
        assert (json.loads(held[0]) if name == "json-lines" else held[0]) == (
            "2  EXP202  factory-without-device"
            if not name.startswith("json")
            else {"code": "EXP202", "name": "factory-without-device", "count": 2}
        )
    else:
        words = f"--statistics has no form as {name}: choose full, concise, grouped, json or json-lines"
        assert (result.exit_code, result.output) == (2, f"error: {words}\n")
        assert not (tmp_path / "out.txt").exists()


@pytest.mark.parametrize("place", ["model.py", "./model.py", "link.py", "hard.txt", "known.json", "settings.toml"])
def test_results_are_not_written_over_what_the_run_reads(run, tmp_path: Path, place: str) -> None:
    (tmp_path / "link.py").symlink_to("model.py")
    (tmp_path / "hard.txt").hardlink_to(tmp_path / "model.py")
    (tmp_path / "settings.toml").write_text("")
    options = ("--output-file", place, "--config", "settings.toml", "--baseline", "known.json")
    result = run("model.py", *options, "--update-baseline")
    assert (result.exit_code, result.output) == (
        2,
        f"error: --output-file {Path(place)} is read by this run: choose another\n",
    )
    assert (tmp_path / "model.py").read_text() == BOTH
    assert not (tmp_path / "known.json").exists()
    assert run("--show-files", *options).exit_code == 2
    assert run("model.py", "--output-file", "out.txt", *options[2:], "--update-baseline").exit_code == 0


def test_results_are_not_written_over_the_file_that_standard_input_stands_for(run, tmp_path: Path) -> None:
    result = run("-", "--stdin-filename", "model.py", "--output-file", "model.py")
    assert result.output == "error: --output-file model.py is read by this run: choose another\n"
    assert run("-", "--stdin-filename", "new.py", "--output-file", "new.py").exit_code == 2


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True),
        ({"NO_COLOR": "1"}, False),
        ({"FORCE_COLOR": ""}, False),
    ],
)
def test_colours_follow_the_environment(
    run, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], coloured: bool
) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert ("\x1b[31m" in run().output) == coloured
    assert "\x1b" not in run("--output-format", "json").output
