"""Files as text: what Python imports is read, whatever its bytes are, and nothing else is."""

from __future__ import annotations

import importlib.util
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from exportlint.rules.examples import example
from exportlint.source.engine import Options, lint
from exportlint.source.files import UnreadableError, read

if TYPE_CHECKING:
    from pathlib import Path

TEXT = example("def forward(self, x):\n    return x if x.sum() > 0 else -x").replace(
    "import torch", "import torch  # é", 1
)
LINE = next(i for i, line in enumerate(TEXT.splitlines(), 1) if "sum" in line)
READ = {
    "utf-8": TEXT.encode(),
    "byte order mark": b"\xef\xbb\xbf" + TEXT.encode(),
    "declared latin-1": b"# -*- coding: latin-1 -*-\n" + TEXT.encode("latin-1"),
    "declared on the second line": b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\n" + TEXT.encode("cp1252"),
    "declared with Windows line ends": b"# coding: latin-1\r\n" + TEXT.replace("\n", "\r\n").encode("latin-1"),
    "a comment that is no UTF-8": TEXT.encode("latin-1"),
    "a comment that is no UTF-8 though declared": b"# coding: utf-8\n" + TEXT.encode("latin-1"),
    "carriage returns and newlines": TEXT.replace("\n", "\r\n").encode(),
    "carriage returns": TEXT.replace("\n", "\r").encode(),
    "form feeds": TEXT.replace("class ", "\f\nclass ", 1).encode(),
    "a form feed in a line": TEXT.replace("class ", "\fclass ", 1).encode(),
    "no newline at the end": TEXT.rstrip("\n").encode(),
}
REFUSED = {
    "a string that is no UTF-8": (TEXT + "\nname = 'é'\n").encode("latin-1"),
    "declared ascii": b"# coding: ascii\n" + TEXT.encode(),
    "an unknown encoding": b"# coding: klingon\n" + TEXT.encode(),
    "two encodings": b"\xef\xbb\xbf# coding: latin-1\n" + TEXT.encode(),
    "a null byte": TEXT.encode() + b"\x00",
    "UTF-16": TEXT.encode("utf-16"),
}


def imports(file: Path) -> bool:
    """Whether Python compiles the file as it does when it is imported."""
    spec = importlib.util.spec_from_file_location("model", file)
    try:
        return spec.loader.get_code("model") is not None
    except (SyntaxError, ValueError):
        return False


@pytest.mark.parametrize("name", READ)
def test_what_python_imports_is_read_and_its_findings_have_their_lines(tmp_path: Path, name: str) -> None:
    file = tmp_path / "model.py"
    file.write_bytes(READ[name])
    assert imports(file)
    (found,) = lint([file], Options())
    before = READ[name].count(b"\n" if b"\n" in READ[name] else b"\r") - TEXT.count("\n") + ("no newline" in name)
    assert (found.rule.code, found.range.line) == ("EXP101", LINE + before)
    assert "sum" in read(file).line(found.range.line)


@pytest.mark.parametrize("name", REFUSED)
def test_what_python_refuses_is_one_finding(tmp_path: Path, name: str) -> None:
    file = tmp_path / "model.py"
    file.write_bytes(REFUSED[name])
    assert not imports(file)
    (found,) = lint([file], Options())
    assert found.rule.code == "EXP001"
    assert "\n" not in found.message
    assert found.message


def test_columns_are_right_behind_what_is_no_utf8(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_bytes(TEXT.encode("latin-1").replace(b"else -x", b"else -x  # \xe9"))
    (found,) = lint([file], Options())
    line = read(file).line(found.range.line)
    assert line[found.range.column - 1 : found.range.end_column - 1] == "x.sum() > 0"


def test_a_file_that_is_not_there_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="No such file or directory"):
        read(tmp_path / "gone.py")


def test_a_text_that_was_let_go_is_small_and_the_same_again(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    text = "# \N{HUGGING FACE}\n" + "".join(f"x{i} = layer(x{i - 1})\r\n" for i in range(20_000)) + "\fy = '\\x0c'"
    file.write_bytes(text.encode())
    tracemalloc.start()
    try:
        source = read(file)
        lines = source.lines
        assert tracemalloc.get_traced_memory()[0] > 4 * len(text)
        source.let_go()
        assert (source.length, lines[0], len(lines)) == (20_002, "# \N{HUGGING FACE}\n", 20_002)
        del lines
        assert tracemalloc.get_traced_memory()[0] < len(text) / 2
    finally:
        tracemalloc.stop()
    assert (source.text, "".join(source.lines)) == (text, text)
    assert source.line(20_002) == "\fy = '\\x0c'"
