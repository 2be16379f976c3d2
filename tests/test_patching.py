"""Lines that run otherwise for a while."""

from __future__ import annotations

import importlib
import re
import sys

import pytest

import exportlint

SOURCE = """
import functools

UP = 1


def plain(x):
    return x + UP


def counting(function):
    @functools.wraps(function)
    def wrapped(x):
        return function(x)

    return wrapped


class Base:
    def get(self, x):
        return x


class Child(Base):
    __secret = 3

    def get(self, x):
        return super().get(x) + 10

    @staticmethod
    def static(x):
        return x + 20

    @property
    def number(self):
        return 30 + self.__secret

    @counting
    def decorated(self):
        return 40

    def outer(self, x):
        def inner():
            return x + 50

        return inner()


made = [lambda x: x + 60][0]
"""


@pytest.fixture
def library(tmp_path, monkeypatch):
    (tmp_path / "patched_library.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield importlib.import_module("patched_library")
    del sys.modules["patched_library"]


def place(text):
    return f"patched_library:{next(n for n, line in enumerate(SOURCE.splitlines(), 1) if text in line)}"


CALLS = {
    "x + UP": lambda lib: lib.plain(0),
    "+ 10": lambda lib: lib.Child().get(0),
    "+ 20": lambda lib: lib.Child.static(0),
    "30 +": lambda lib: lib.Child().number,
    "return 40": lambda lib: lib.Child().decorated(),
    "+ 50": lambda lib: lib.Child().outer(0),
}


@pytest.mark.parametrize("old", CALLS)
def test_a_line_runs_otherwise_and_then_as_before(library, old):
    before = CALLS[old](library)
    new = old.replace("UP", "700").replace("0", "00") if old != "x + UP" else "x + 700"
    with exportlint.patched(place(old), old, new):
        changed = CALLS[old](library)
    assert changed > before + 80
    assert CALLS[old](library) == before


def test_it_is_taken_back_after_an_exception_and_seen_under_other_names(library):
    alias = library.plain
    with pytest.raises(TypeError), exportlint.patched(place("x + UP"), "UP", "len(x)"):
        alias(0)
    assert alias(0) == 1
    with exportlint.patched(place("x + UP"), "UP", "UP * 5"):
        assert alias(0) == 5


@pytest.mark.parametrize(
    ("where", "old", "new", "words"),
    [
        ("x + UP", "x - UP", "x", "does not hold 'x - UP': the library is another version"),
        ("super().get", "e", "x", "holds 'e' 3 times: take a longer piece"),
        ("x + UP", "x + UP", "(yield)", "would make the function a generator"),
        ("x + UP", "x + UP", "x +", "is no Python with 'x +'"),
        ("UP = 1", "1", "2", "is in no function that can be patched"),
        ("+ 60", "60", "70", "is in no function that can be patched"),
        ("x + UP", "UP", "UP\n", "has several lines"),
    ],
)
def test_what_cannot_be_patched_is_said(library, where, old, new, words):
    with pytest.raises(ValueError, match=re.escape(words)), exportlint.patched(place(where), old, new):
        pass


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((3, "a", "b"), TypeError, "place must be text, not int"),
        (("math:3", 3, "b"), TypeError, "old must be text, not int"),
        (("math:3", "a", None), TypeError, "new must be text, not NoneType"),
        (("builtins:3", "a", "b"), ValueError, "builtins has no source in Python"),
    ],
)
def test_arguments_that_are_no_patch(arguments, error, words):
    with pytest.raises(error, match=words), exportlint.patched(*arguments):
        pass


@pytest.mark.parametrize("where", ["patched_library", "patched_library:x", ":4", "patched_library:²"])
def test_a_place_is_a_module_and_a_line(library, where):
    with (
        pytest.raises(ValueError, match=r"is no place such as 'package\.module:12'"),
        exportlint.patched(where, "a", "b"),
    ):
        pass
