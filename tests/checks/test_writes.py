"""From a name to the line that writes it."""

from __future__ import annotations

import ast
import textwrap

import pytest

from exportlint.checks import divergence
from exportlint.checks.state import writes
from exportlint.places import Place

SOURCE = textwrap.dedent(
    """
    TOTAL = 0


    class M:
        def __init__(self):
            self.n = 0

        def reset(self):
            self.n = 0

        def forward(self, x):
            n = 3
            self.other, self.n = 1, x
            self.n[0] = 2
            self.seen.append(n)
            self.register_buffer("late", x)
            setattr(self, "set", x)
            if (TOTAL := x):
                pass
            for self.last in x:
                del self.gone
            next(self.count)
            return self.read

        def count_up(self):
            global TOTAL
            TOTAL += 1
    """
)


def number(text):
    return 1 + next(i for i, line in enumerate(SOURCE.splitlines()) if text in line)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "written.py"
    path.write_text(SOURCE)
    return str(path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("n", "self.n[0] = 2"),
        ("other", "self.other"),
        ("seen", "append"),
        ("late", "register_buffer"),
        ("set", "setattr"),
        ("last", "for self.last"),
        ("gone", "del"),
        ("count", "next(self.count)"),
        ("read", "return self.read"),
    ],
)
def test_the_last_line_that_ran_and_writes_an_attribute(file, name, text):
    executed = [(file, line) for line in range(1, 1 + len(SOURCE.splitlines()))]
    assert writes.line_of(name, executed, []) == Place(file, number(text))


def test_lines_that_did_not_run_are_second(file):
    assert writes.line_of("n", [(file, number("self.other"))], [file]) == Place(file, number("self.other"))
    assert writes.line_of("n", [], [file]) == Place(file, number("self.n[0]"))


def test_a_bare_name_is_a_global_only_where_that_is_meant(file):
    assert writes.line_of("TOTAL", [], [file], bare=True) == Place(file, number("TOTAL += 1"))
    assert writes.line_of("TOTAL", [], [file]) is None


def test_constructors_do_not_count(tmp_path):
    path = tmp_path / "made.py"
    path.write_text("class M:\n    def __init__(self):\n        self.n = 0\n")
    assert writes.line_of("n", [(str(path), 3)], [str(path)]) is None


@pytest.mark.parametrize("text", [None, "def f(:\n"])
def test_a_file_that_cannot_be_read_has_no_line(tmp_path, text):
    path = tmp_path / "odd.py"
    if text is not None:
        path.write_text(text)
    assert writes.line_of("n", [], [str(path)]) is None
    assert writes.strings_around(Place(str(path), 1)) == []


def test_strings_of_the_function_around_a_line(tmp_path):
    path = tmp_path / "modes.py"
    path.write_text(
        "OUTSIDE = 'no'\ndef f():\n    'a long text that says what the function does and why'\n    m = get('NAME')\n"
        "    return m == 'fast' or m in ('slow', b'bytes', 3)\n"
    )
    assert sorted(writes.strings_around(Place(str(path), 4))) == ["NAME", "fast", "slow"]
    assert writes.strings_around(Place(str(path), 1)) == []


def test_two_calls_part_where_the_caller_decides(tmp_path):
    """What the decision called ran last, but decides nothing."""
    path = tmp_path / "parting.py"
    text = "def big(x):\n    y = x > 1\n    return y\n\ndef f(x):\n    if big(x):\n        return 1\n    return 2\n"
    path.write_text(text)
    space: dict = {}
    exec(compile(ast.parse(text), str(path), "exec"), space)
    assert divergence.place(lambda: space["f"](1), lambda: space["f"](2)) == Place(str(path), 6)
    assert divergence.place(lambda: space["f"](1), lambda: space["f"](0)) is None


COUNTING = """
SEEN = []


class M:
    def __init__(self):
        self.calls, self.unread, self.log = 0, 0, ""

    def forward(self, x):
        self.calls += 1
        self.unread = self.unread + 1
        self.log = self.log + "x"
        SEEN.append(x)
        return self.act(x) if len(self.log) > 99 else x

    def act(self, x):
        return x * 7 if self.calls % 50 == 13 else x
"""


@pytest.fixture
def counting(tmp_path):
    path = tmp_path / "counting.py"
    path.write_text(COUNTING)
    return [(str(path), line) for line in (10, 11, 12, 13, 14)]


@pytest.mark.parametrize(
    ("name", "bare", "read"),
    [("calls", False, True), ("unread", False, False), ("log", False, True), ("SEEN", True, False)],
)
def test_a_name_is_read_where_a_statement_names_it_that_does_not_write_it(counting, name, bare, read):
    assert writes.is_read(name, counting, bare=bare) == read


def test_numbers_that_a_counter_may_be_compared_with(counting):
    assert sorted(writes.numbers_beside("calls", counting)) == [0, 1, 7, 13, 50, 99]
    assert writes.numbers_beside("missing", counting) == []


def test_all_lines_that_ran_and_write_a_name(counting):
    assert [place.line for place in writes.lines_that_write("log", counting)] == [12]
    assert [place.line for place in writes.lines_that_write("SEEN", counting, bare=True)] == [13]
    assert writes.lines_that_write("log", counting[:2]) == []


RECEIVERS = """
class M:
    def forward(self, x):
        self.n = 1
        self.child.n += 1
        x.n, self.other = 2, 3
        self.n[0] = self.child.n
        setattr(self, "n", x)
        self.child.register_buffer("n", x)
        object.__setattr__(x, "n", 1)
        self.child.n.append(x)
        make().n = 3
        next(self.n)
        n = 5
"""


@pytest.mark.parametrize(
    ("receiver", "lines"), [("self", [4, 7, 8, 13]), ("child", [5, 9, 11]), ("x", [6, 10]), (None, [12])]
)
def test_what_has_the_attribute_that_a_line_writes(tmp_path, receiver, lines):
    path = tmp_path / "receivers.py"
    path.write_text(RECEIVERS)
    executed = [(str(path), line) for line in range(1, 15)]
    found = writes.lines_that_write("n", executed, receiver=lambda name: name == receiver)
    assert [place.line for place in found] == lines


def test_the_lines_of_code_are_those_of_functions_inside_it_too(tmp_path):
    path = tmp_path / "nested.py"
    path.write_text(
        "def f(x):\n    def g():\n        return x\n\n    return [y for y in g()]\n\n\ndef h():\n    pass\n"
    )
    space: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    found = {line for file, line in writes.lines_of_code(space["f"].__code__) if file == str(path)}
    assert found - {1} == {2, 3, 5}
