"""Comments that are written into files: they silence, and change nothing else."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exportlint import whole_file
from exportlint.cli.check import check
from exportlint.rules.examples import example

if TYPE_CHECKING:
    from pathlib import Path


def forward(*body: str) -> str:
    return example("\n    ".join(["def forward(self, x):", *body]))


BRANCH = forward("return x if x.sum() > 0 else -x")
COMMENTED = "x.sum() > 0 else -x  # exportlint: ignore[EXP101]"
FORMS = {
    "plain": forward("return x if x.sum() > 0 else -x"),
    "two of a rule": forward("x = x if x.sum() > 0 else -x", "return x if x.max() > 0 else -x"),
    "two rules on a line": forward("return x + torch.arange(4) if x.sum() > 0 else -x"),
    "a comment that is there": forward("return x if x.sum() > 0 else -x  # why  # noqa: E501"),
    "an ignore that is there": forward(
        "return x + torch.arange(4) if x.sum() > 0 else -x  # exportlint: ignore[EXP202] why"
    ),
    "several lines": forward("return x + torch.zeros(", "    4,", "    device='cpu',", ")"),
    "a backslash": forward("return x \\", "    + torch.arange(4) \\", "    + 1"),
    "inside of a string": forward('return x * len(f"""', "{int(x.sum())}", '""")'),
    "a semicolon": forward("y = torch.arange(4); return x + y"),
    "the words in a string": forward("return x if x.sum() > 0 else x * len('# exportlint: ignore[EXP202]')"),
    "no newline at the end": "def build(): return Net()\ndef inputs(): return (torch.ones(2),)\n"
    "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x): return x if x.sum() > 0 else -x",
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def call(*options: str) -> Result:
        return CliRunner().invoke(check, ["model.py", *options])

    return call


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_is_found_is_silenced_and_nothing_else_changes(run, tmp_path: Path, name: str, end: str) -> None:
    file = tmp_path / "model.py"
    data = FORMS[name].replace("\n", end).encode()
    file.write_bytes(data)
    assert run().exit_code == 1
    added = run("--add-ignores")
    assert (added.exit_code, added.stderr) == (0, "")
    assert added.stdout.endswith("silenced in 1 file\n")
    assert run().exit_code == 0
    after = file.read_bytes()
    assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(data))
    assert after.count(b"\n") - after.count(b"\r\n") == (after.count(b"\n") if end == "\n" else 0)
    again = run("--add-ignores")
    assert again.stdout == "0 findings silenced in 0 files\n"
    assert file.read_bytes() == after


def test_the_comment_ends_the_line_and_joins_one_that_is_there(run, tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(FORMS["an ignore that is there"])
    run("--add-ignores")
    assert "else -x  # exportlint: ignore[EXP202, EXP101] why\n" in file.read_text()
    file.write_text(BRANCH)
    run("--add-ignores")
    assert f"{COMMENTED}\n" in file.read_text()


def test_encoding_mode_and_byte_order_mark_stay(run, tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    for data in (
        b"# coding: latin-1\n# \xe9\n" + BRANCH.encode(),
        b"\xef\xbb\xbf" + BRANCH.encode(),
    ):
        file.write_bytes(data)
        file.chmod(0o750)
        assert run("--add-ignores").exit_code == 0
        assert file.read_bytes() == data.replace(b"x.sum() > 0 else -x", COMMENTED.encode())
        assert file.stat().st_mode & 0o777 == 0o750


def test_a_link_stays_a_link(run, tmp_path: Path) -> None:
    (tmp_path / "real.py").write_text(BRANCH)
    (tmp_path / "model.py").symlink_to("real.py")
    assert run("--add-ignores").exit_code == 0
    assert (tmp_path / "model.py").is_symlink()
    assert COMMENTED in (tmp_path / "real.py").read_text()


def test_only_what_is_selected_and_shown_is_silenced(run, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(FORMS["two rules on a line"])
    run("--add-ignores", "--select", "EXP2")
    assert "# exportlint: ignore[EXP202]\n" in (tmp_path / "model.py").read_text()


def test_what_no_comment_silences_is_told(run, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("x = (\n")
    result = run("--add-ignores")
    assert (result.exit_code, result.stdout) == (1, "0 findings silenced in 0 files\n")
    assert result.stderr == "model.py:1:5: EXP001 cannot be silenced by a comment\n"
    assert (tmp_path / "model.py").read_text() == "x = (\n"


def test_a_disk_that_is_full_is_one_line_and_the_file_stays(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(place: Path, content: bytes, mode: int | None = None) -> None:
        raise OSError(28, "No space left on device", str(place))

    (tmp_path / "model.py").write_text(BRANCH)
    monkeypatch.setattr(whole_file, "write", full)
    result = run("--add-ignores")
    assert (result.exit_code, result.stderr) == (2, "error: model.py: No space left on device\n")
    assert (tmp_path / "model.py").read_text() == BRANCH


def test_a_file_that_cannot_be_written_stops_no_other(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = whole_file.write

    def refusing(place: Path, content: bytes, mode: int | None = None) -> None:
        if place.name == "model.py":
            raise OSError(13, "Permission denied", str(place))
        write(place, content, mode=mode)

    for name in ("a.py", "model.py", "z.py"):
        (tmp_path / name).write_text(BRANCH)
    monkeypatch.setattr(whole_file, "write", refusing)
    result = run("a.py", "z.py", "--add-ignores", "--no-cache")
    assert (result.exit_code, result.stderr) == (2, "error: model.py: Permission denied\n")
    assert result.stdout == "2 findings silenced in 2 files\n"
    written = [name for name in ("a.py", "model.py", "z.py") if COMMENTED in (tmp_path / name).read_text()]
    assert written == ["a.py", "z.py"]


LINES = (
    "x = x if x.sum() > 0 else -x",
    "x = x + torch.arange(4)  # why",
    "x = x + torch.zeros(\n        4, device='cpu'\n    )",
    'x = x * len(f"{int(x.sum())}")',
    "if x.max() > 0:\n        x = -x",
    "x = x \\\n        + torch.arange(4)",
    "x = x + torch.arange(4); x = x if x.min() > 0 else x",
    "s = '''\n# exportlint: ignore\n'''",
    "x = x + torch.ones(4)  # exportlint: ignore[EXP101]",
    "# exportlint: disable[EXP202]",
    "y = 1",
    "",
)


@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=6), st.sampled_from(["\n", "\r\n"]))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_found_is_silenced(run, tmp_path: Path, body: list[str], end: str) -> None:
    data = forward(*body, "return x").replace("\n", end).encode()
    file = tmp_path / "model.py"
    file.write_bytes(data)
    assert run("--add-ignores", "--no-cache").exit_code == 0
    after = file.read_bytes()
    assert run("--no-cache").exit_code == 0
    assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(data))
    assert run("--add-ignores", "--no-cache").output == "0 findings silenced in 0 files\n"
    comment = rb"  # exportlint: ignore\[[^\]]*\]| *# exportlint: ignore\[[^\]]*\]\r?\n"
    assert re.sub(comment, b"", after).count(end.encode()) == data.count(end.encode())
