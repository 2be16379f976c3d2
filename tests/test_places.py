from __future__ import annotations

import json
import linecache
import os
import sys
from pathlib import Path

import pytest

from exportlint import places
from exportlint.places import Place, display_path, is_users, of_frames, of_traceback

TEXT = '''\
x = 1
y = f(
    1,
    2,
)
if (
    x
    and y
):
    z = 1
    for i in g(
        1
    ):
        pass
else:
    w = (
        2
    )
with open(
    "a"
) as a, open("b") as b:
    pass


@decorate(
    1,
)
def f(
    a,
    b,
):
    """Text
    of two lines."""
    return [
        a for a in b
        if a
    ]


class A(
    B,
):
    field = (
        1
    )


try:
    x = (1,
         2)
except (
    A,
    B,
):
    pass
finally: x = [
    1]
match x:
    case 1:
        y = (
            1
        )
while x: y = (
    1
)
'''

ENDS = {
    1: 1, 2: 5, 3: 5, 5: 5, 6: 9, 7: 9, 9: 9, 10: 10, 11: 13, 13: 13, 14: 14, 16: 18, 18: 18, 19: 21, 22: 22, 28: 31,
    30: 31, 32: 33, 34: 37, 36: 37, 40: 42, 43: 45, 48: 48, 49: 50, 51: 54, 53: 54, 55: 55, 56: 57, 58: 58, 59: 59,
    60: 62, 61: 62, 63: 65,
}  # fmt: skip


@pytest.fixture
def module(tmp_path):
    file = tmp_path / "module.py"
    file.write_text(TEXT)
    return file


@pytest.mark.parametrize(("line", "end"), ENDS.items())
def test_end_line_is_that_of_the_innermost_statement_or_head(module, line, end):
    assert Place(str(module), line).end_line == end


def test_end_line_never_lies_before_the_line_nor_inside_another_statement(module):
    count = len(TEXT.splitlines())
    for line in range(1, count + 1):
        place = Place(str(module), line)
        assert line <= place.end_line <= count
        assert Place(str(module), place.end_line).end_line == place.end_line


@pytest.mark.parametrize("text", [b"def f(:\n", b"\xff\xfe", b"", b"x = 1\0", None])
def test_end_line_of_what_cannot_be_parsed_is_the_line_itself(tmp_path, text):
    file = tmp_path / "broken.py"
    if text is not None:
        file.write_bytes(text)
    assert Place(str(file), 3).end_line == 3


def test_a_finding_at_a_place(module, monkeypatch):
    monkeypatch.chdir(module.parent)
    found = Place(str(module), 2).finding("EXP301", "warning", "why", evidence="seen")
    assert (found.file, found.line, found.end_line, found.source) == ("module.py", 2, 5, "y = f(")
    assert (found.rule, found.severity, found.message, found.evidence) == ("EXP301", "warning", "why", "seen")
    nothing = Place(str(module), 99).finding("EXP301", "warning", "why")
    assert (nothing.line, nothing.source) == (99, None)


def test_display_path(module, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "link.py").symlink_to(module)
    assert display_path(str(module)) == "module.py"
    assert display_path("sub/../module.py") == "module.py"
    assert display_path(str(tmp_path / "sub" / "link.py")) == "module.py"
    monkeypatch.chdir(tmp_path / "sub")
    assert display_path(str(module)) == module.resolve().as_posix()


def test_whose_files_are_whose(tmp_path):
    import msgspec
    import numpy
    import sympy
    import torch
    import transformers

    assert is_users(__file__)
    assert is_users(str(tmp_path / "model.py"))
    assert is_users(transformers.__file__)  # a model library's frame may own a failure
    for module in (torch, torch.nn.functional, torch.export, sympy, numpy, json, linecache, places, pytest):
        assert module is pytest or not is_users(module.__file__), module
    for file in ("<string>", "<frozen importlib._bootstrap>", "", "<eval_with_key>.3"):
        assert not is_users(file)
    assert is_users(msgspec.__file__)


def test_a_project_that_is_called_like_a_part_of_torch(tmp_path):
    for name in ("torch_models/net.py", "my/torch/net.py", "numpy_net.py", "exportlint_cases/a.py"):
        assert is_users(str(tmp_path / name))


def test_frames_innermost_first():
    import torch

    users = str(Path(__file__).resolve())
    assert of_frames([(torch.__file__, 3), (users, 7), (users, 9)]) == Place(users, 7)
    assert of_frames([(torch.__file__, 3), ("<string>", 1)]) is None
    assert of_frames([]) is None


def test_the_place_of_an_exception_is_the_innermost_line_of_the_users():
    import torch

    def inner():
        torch.ones(2, 3) @ torch.ones(2, 3)  # the line

    with pytest.raises(RuntimeError) as caught:
        inner()
    place = of_traceback(caught.value.__traceback__)
    assert place is not None
    assert place.source.endswith("# the line")
    assert of_traceback(None) is None


def test_the_caller_is_the_innermost_line_of_the_users_from_a_frame_outwards():
    seen = []

    def record(value):
        seen.append(places.caller(sys._getframe()))
        return value

    sorted([2, 1], key=record)
    json.loads("[1]", parse_int=record)
    assert [place.file for place in seen] == [os.path.realpath(__file__)] * 3
    assert places.caller(None) is None
