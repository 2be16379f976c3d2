"""``exportlint check --fix``: what is written, what is printed, and that no file is ever half of one."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from exportlint.cli import main
from exportlint.rules.examples import example

RAMP = example("def forward(self, x):\n    return x * torch.arange(x.size(1))")
MENDED = RAMP.replace("torch.arange(x.size(1))", "torch.arange(x.size(1), device=x.device)")
BRANCH = example("def forward(self, x):\n    return x if x.sum() > 0 else -x")
SCALED = """\
class Two(torch.nn.Module):
    def __init__(self, scale=2.0):
        super().__init__()
        self.scale = scale

    def forward(self, x):
"""
CLEAN = example("def forward(self, x):\n    return x.relu()")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("")
    return tmp_path


def check(*arguments: str, text: bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["check", "--no-cache", *arguments], input=text)


def written(name: str, text: str | bytes) -> Path:
    path = Path(name)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_safe_fixes_are_written_and_what_is_left_is_reported() -> None:
    ramp, branch, clean = written("ramp.py", RAMP), written("branch.py", BRANCH), written("clean.py", CLEAN)
    result = check(".", "--fix", "--output-format", "concise")
    assert ramp.read_text() == MENDED
    assert (branch.read_text(), clean.read_text()) == (BRANCH, CLEAN)
    assert result.stderr == "1 finding fixed in 1 file\n"
    assert "branch.py:7:21: error: EXP101 [!]" in result.stdout
    assert "EXP202" not in result.stdout
    assert result.stdout.endswith("\n[!] 1 fixable with --fix --unsafe-fixes\n")
    assert result.exit_code == 1
    assert check("ramp.py", "--fix").exit_code == 0


@pytest.mark.parametrize("option", ["--fix", "--diff"])
def test_findings_that_another_on_the_line_hid_are_counted_apart(option: str) -> None:
    written("ramps.py", RAMP.replace("x.size(1))", "x.size(1)) + torch.arange(x.size(1)) + torch.arange(x.size(1))"))
    assert check(".").stdout.splitlines()[-2].startswith("1 file checked, 1 warning")
    words = "fixed" if option == "--fix" else "would be fixed"
    assert check(".", option).stderr == f"1 finding {words} in 1 file, and 2 more that came to light by that\n"


def test_unsafe_fixes_are_written_where_they_are_asked_for() -> None:
    branch = written("branch.py", BRANCH)
    assert check(".", "--fix", "--unsafe-fixes").exit_code == 0
    assert "torch.where(x.sum() > 0, x, -x)" in branch.read_text()


def test_a_diff_writes_nothing() -> None:
    ramp = written("ramp.py", RAMP)
    result = check(".", "--diff")
    assert ramp.read_text() == RAMP
    assert result.stdout.startswith("--- ramp.py\n+++ ramp.py\n@@")
    assert "-        return x * torch.arange(x.size(1))\n" in result.stdout
    assert "+        return x * torch.arange(x.size(1), device=x.device)\n" in result.stdout
    assert result.stderr == "1 finding would be fixed in 1 file\n"
    assert result.exit_code == 1
    subprocess.run(["git", "apply", "-p0", "-"], input=result.stdout.encode(), check=True)
    assert ramp.read_text() == MENDED
    assert check(".", "--diff").exit_code == 0


def test_fix_only_reports_nothing() -> None:
    ramp, _ = written("ramp.py", RAMP), written("branch.py", BRANCH)
    result = check(".", "--fix-only")
    assert (result.exit_code, result.stdout) == (0, "")
    assert ramp.read_text() == MENDED


def test_standard_input_is_printed_with_its_fixes() -> None:
    result = check("-", "--fix-only", text=RAMP.encode())
    assert result.stdout == MENDED
    assert result.exit_code == 0
    assert (
        "+        return x * torch.arange(x.size(1), device=x.device)"
        in check("-", "--diff", text=RAMP.encode()).stdout
    )
    assert check("-", "--fix-only", text=CLEAN.encode()).stdout == CLEAN


def test_a_rule_that_is_off_a_silenced_finding_and_a_known_one_are_left() -> None:
    ramp = written("ramp.py", RAMP)
    assert check("ramp.py", "--fix", "--ignore", "EXP202").exit_code == 0
    check("ramp.py", "--baseline", "known.json", "--update-baseline")
    assert check("ramp.py", "--fix", "--baseline", "known.json").exit_code == 0
    assert ramp.read_text() == RAMP
    silenced = RAMP.replace("(x.size(1))", "(x.size(1))  # exportlint: ignore[EXP202]")
    assert check(str(written("ramp.py", silenced)), "--fix").exit_code == 0
    assert ramp.read_text() == silenced


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + RAMP.encode(),
        RAMP.replace("\n", "\r\n").encode(),
        f"# -*- coding: latin-1 -*-\n# h\xe9\n{RAMP}".encode("latin-1"),
        RAMP.rstrip("\n").encode(),
        RAMP.replace("\n    return (", "\n\x0c\n    return (").encode(),
        RAMP.replace("        ", "\t\t").replace("    ", "\t").encode(),
    ],
    ids=["mark", "windows", "latin", "no last newline", "form feed", "tabs"],
)
def test_every_other_byte_stays(data: bytes) -> None:
    ramp = written("ramp.py", data)
    ramp.chmod(0o750)
    result = check(".", "--fix")
    assert ramp.read_bytes() == data.replace(b"(x.size(1))", b"(x.size(1), device=x.device)"), result.output
    assert stat.S_IMODE(ramp.stat().st_mode) == 0o750


@pytest.mark.parametrize("option", ["--fix", "--diff", "--fix-only"])
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (RAMP.replace("\n", "\r").encode(), "lines of the file end with a lone CR; convert the line ends to LF"),
        (RAMP.replace("class ", "\x0cclass ", 1).encode(), "a form feed stands before code; take it out"),
        (RAMP.encode() + b"# caf\xe9\n", "the file is not utf-8; save it so, or declare its encoding"),
    ],
    ids=["carriage returns", "form feed", "bytes"],
)
def test_a_text_into_which_no_fix_can_be_written_is_told_with_what_to_do(option: str, data: bytes, words: str) -> None:
    ramp, other = written("ramp.py", data), written("zebra.py", RAMP)
    result = check(".", option)
    would = "would be fixed" if option == "--diff" else "fixed"
    left = f"ramp.py:7:20: EXP202 was left as it is: its fix cannot be written ({words})"
    assert result.stderr == f"{left}\n1 finding {would} in 1 file\n"
    assert ramp.read_bytes() == data
    assert "fixable" not in result.stdout
    assert other.read_text() == (RAMP if option == "--diff" else MENDED)
    assert result.exit_code == (0 if option == "--fix-only" else 1)


@pytest.mark.parametrize("option", ["--fix", "--diff", "--fix-only"])
def test_a_fix_that_does_not_fit_the_code_is_told_with_its_place(option: str) -> None:
    text = BRANCH.replace(
        "return x if x.sum() > 0 else -x", "return (x if x.sum() > 0  # why\n                else -x)"
    )
    branch = written("branch.py", text)
    result = check("branch.py", option, "--unsafe-fixes")
    assert (
        "branch.py:7:22: EXP101 was left as it is: its fix cannot be written (a comment would be lost)\n"
        in result.stderr
    )
    assert branch.read_text() == text


def test_a_diff_says_of_a_file_that_it_cannot_be_written() -> None:
    written("ramp.py", RAMP).chmod(0o444)
    result = check(".", "--diff")
    assert result.stderr == f"ramp.py: {LOCKED}\n1 finding would be fixed in 1 file\n"
    assert result.exit_code == 1


def test_a_link_stays_one() -> None:
    real = written("real.py", RAMP)
    Path("link.py").symlink_to(real)
    check("link.py", "--fix")
    assert Path("link.py").is_symlink()
    assert real.read_text() == MENDED


NONE = "0 findings fixed in 0 files\n"
LOCKED = "may not be written; make it writable, or leave it out, and fix again"
CHANGED = "was changed while it was being fixed; lint it again"


def test_a_file_that_may_not_be_written_keeps_no_other_from_being_mended() -> None:
    files = [written(name, RAMP) for name in ("first.py", "ramp.py", "third.py")]
    files[1].chmod(0o444)
    result = check(".", "--fix")
    assert (result.exit_code, result.stderr) == (
        2,
        f"error: ramp.py: {LOCKED}\n2 findings fixed in 2 files\n",
    )
    assert [file.read_text() for file in files] == [MENDED, RAMP, MENDED]


@pytest.mark.parametrize("options", [(), ("--exit-zero",), ("--statistics",), ("--output-format", "json")])
def test_what_is_left_is_reported_beside_a_file_that_may_not_be_written(options: tuple[str, ...]) -> None:
    written("branch.py", BRANCH)
    written("ramp.py", RAMP).chmod(0o444)
    written("third.py", RAMP)
    result = check(".", "--fix", *options)
    assert (result.exit_code, result.stderr) == (2, f"error: ramp.py: {LOCKED}\n1 finding fixed in 1 file\n")
    assert "EXP101" in result.stdout  # of branch.py, whose fix is not asked for
    assert "EXP202" in result.stdout  # of ramp.py
    assert "third.py" not in result.stdout


def test_a_folder_that_takes_no_file_keeps_no_other_from_being_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    from exportlint import whole_file

    write = whole_file.write

    def refuse(path: Path, *arguments: object) -> None:
        if path.name == "ramp.py":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        write(path, *arguments)

    monkeypatch.setattr(whole_file, "write", refuse)
    files = [written(name, RAMP) for name in ("first.py", "ramp.py", "third.py")]
    result = check(".", "--fix", "--output-format", "concise")
    assert result.stderr == "error: ramp.py: Permission denied\n2 findings fixed in 2 files\n"
    assert [file.read_text() for file in files] == [MENDED, RAMP, MENDED]
    assert "ramp.py:7:20: warning: EXP202" in result.stdout
    assert result.exit_code == 2


def test_a_file_that_may_not_be_written_is_one_line_and_status_2() -> None:
    ramp = written("ramp.py", RAMP)
    ramp.chmod(0o444)
    result = check(".", "--fix")
    assert (result.exit_code, result.stderr) == (2, f"error: ramp.py: {LOCKED}\n{NONE}")
    assert ramp.read_text() == RAMP


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt()])
def test_a_full_disk_or_an_interrupt_leaves_the_file_whole(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    ramp = written("ramp.py", RAMP)

    def fail(self: Path, target: Path) -> Path:
        assert self.read_text() == MENDED  # all of it is there already, beside its place
        raise error

    monkeypatch.setattr(Path, "replace", fail)
    result = check(".", "--fix")
    assert ramp.read_text() == RAMP
    assert [path.name for path in Path().iterdir() if path.suffix in (".py", ".tmp")] == ["ramp.py"]
    assert result.exit_code != 0
    if isinstance(error, OSError):
        assert (result.exit_code, result.stderr) == (2, f"error: ramp.py: {os.strerror(errno.ENOSPC)}\n{NONE}")


def test_a_file_that_changes_meanwhile_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    from exportlint.fixes import files

    ramp = written("ramp.py", RAMP)
    monkeypatch.setattr(files, "fixed", _changing(ramp, files.fixed))
    result = check(".", "--fix")
    assert (result.exit_code, result.stderr) == (2, f"error: ramp.py: {CHANGED}\n{NONE}")
    assert ramp.read_text() == CLEAN


def _changing(path: Path, real):
    def made(*arguments):
        path.write_text(CLEAN)
        return real(*arguments)

    return made


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--unsafe-fixes"], "--unsafe-fixes goes with --fix, --fix-only or --diff"),
        (["--fix", "--add-ignores"], "--add-ignores does not go with --fix, --fix-only or --diff"),
        (["--fix", "--show-files"], "--show-files does not go with --fix, --fix-only or --diff"),
        (["--diff", "--statistics"], "--statistics does not go with --fix, --fix-only or --diff"),
        (
            ["--fix", "--baseline", "b.json", "--update-baseline"],
            "--update-baseline does not go with --fix, --fix-only or --diff",
        ),
        (["-", "--fix"], "--fix needs files; for standard input, --fix-only prints the text with fixes"),
    ],
)
def test_options_that_do_not_go_together_are_one_line_and_status_2(arguments: list[str], words: str) -> None:
    result = check(*arguments, text=b"")
    assert (result.exit_code, result.stderr) == (2, f"error: {words}\n")


def test_a_file_that_is_no_python_is_left_and_told() -> None:
    broken = written("broken.py", "def forward(:\n")
    ramp = written("ramp.py", RAMP)
    result = check(".", "--fix")
    assert (broken.read_text(), ramp.read_text()) == ("def forward(:\n", MENDED)
    assert "EXP001" in result.stdout
    assert result.exit_code == 1


def test_a_helper_in_another_file_is_mended_by_what_its_callers_pass() -> None:
    helper = written("helper.py", "import torch\n\n\ndef ramp(x):\n    return x * torch.arange(x.size(1))\n")
    written("model.py", "from helper import ramp\n" + example("def forward(self, x):\n    return ramp(x)"))
    assert check(".", "--fix").exit_code == 0
    assert "torch.arange(x.size(1), device=x.device)" in helper.read_text()


@pytest.mark.parametrize(
    ("more", "safe"),
    [
        ("def other(t):\n    return ramp(t)", False),  # nobody is known to call it
        ("def other():\n    return ramp(2.0)", False),
        ("def other():\n    return ramp(x=-2)", False),
        ("def other():\n    return ramp(torch.ones(2, 3))", True),
        ("scale = 2.0\nramp(scale)", False),
        ("def other(t: float):\n    return ramp(t)", False),
        ("def other(t):\n    return ramp(t)\n\n\nother(2)", False),
        ("def other(t):\n    return ramp(t)\n\n\nother(torch.ones(1))", True),
        ("from helper import ramp as slope\n\nslope(len([1]))", False),
        ("import helper\n\nhelper.ramp(torch.ones(1).item())", False),
        (f"{SCALED}        return x * ramp(self.scale)", False),
        ("class Two(torch.nn.Module):\n    def forward(self, x):\n        return ramp(x.sin())", True),
        ("class Two:\n    def ramp(self, x):\n        return self.ramp(1)", True),  # another function of that name
    ],
)
def test_a_device_is_not_safely_taken_from_what_another_caller_gives_a_number(more: str, safe: bool) -> None:
    text = "import torch\n\n\ndef ramp(x):\n    y = x * 2\n    return y * torch.arange(4)\n"
    helper = written("helper.py", text)
    written("model.py", "from helper import ramp\n" + example("def forward(self, x):\n    return ramp(x)"))
    written("other.py", f"import torch\nfrom helper import ramp\n\n\n{more}\n")
    check(".", "--fix")
    assert helper.read_text() == (text.replace("(4)", "(4, device=y.device)") if safe else text)
    check(".", "--fix", "--unsafe-fixes")
    assert "(4, device=y.device)" in helper.read_text()


def test_a_helper_beside_its_callers_may_be_given_a_number(folder: Path) -> None:
    text = example(
        "def forward(self, x):\n    return x * self.ramp(x)\n\n"
        "def ramp(self, x):\n    return x + torch.arange(4)\n\n"
        "def once(self):\n    return self.ramp(2)"
    )
    model = written("model.py", text)
    check(".", "--fix")
    assert model.read_text() == text
    model.write_text(text.replace("self.ramp(2)", "self.ramp(torch.ones(4))"))
    check(".", "--fix")
    assert "torch.arange(4, device=x.device)" in model.read_text()


def test_nothing_of_libcst_is_imported_where_there_is_nothing_to_fix() -> None:
    written("clean.py", CLEAN)
    command = "import sys; from exportlint.cli import main; main(['check', '.', '--fix'], standalone_mode=False)"
    script = f"try:\n    {command.split('; ', 1)[0]}\n    {command.split('; ', 1)[1]}\nexcept SystemExit:\n    pass\n"
    ran = subprocess.run(
        [sys.executable, "-c", f"{script}print('libcst' in sys.modules)"], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines()[-1] == "False"


def test_only_what_would_be_written_is_promised() -> None:
    """Neither where a comment is in the way, nor where the code is of no kind that a fix fits."""
    blocked = BRANCH.replace(
        "return x if x.sum() > 0 else -x", "return (x if x.sum() > 0  # why\n                else -x)"
    )
    several = BRANCH.replace("x.sum() > 0", "x.sum() > 0 and x.max() > 1")
    for text in (blocked, several):
        written("branch.py", text)
        shown = check("branch.py").stdout
        assert "EXP101 branch-on-tensor" in shown
        assert "[!]" not in shown
        assert "fixable" not in shown
    written("branch.py", BRANCH)
    assert "EXP101 [!] branch-on-tensor" in check("branch.py").stdout
