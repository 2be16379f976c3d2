from __future__ import annotations

import functools
import sys
from pathlib import Path

import pytest
import torch
from commands import marked

from exportlint.checks.shapes import branches
from exportlint.checks.shapes.branches import Branches
from exportlint.places import Place

HERE = Path(__file__)


# fmt: off
def choose(x):
    if x > 3:  # at: if
        x = x - 1
    elif x < 0:  # at: elif
        x = -x
    if (  # at: several lines
        x == 2
        or x > 7
    ):
        x = 9
    while x > 7:  # at: while
        x = x - 1
    if x: x = 1  # noqa: E701  # at: one line
    return x
# fmt: on


def comprehends(values):
    if any(value > 3 for value in values):  # at: generator
        return 1
    return 0


def fails(x):
    if x / 0:  # at: fails
        return 1
    return 0


# fmt: off
def small(x, y=None, ys=()):
    if x > 3: return 1  # noqa: E701  # at: one line if
    z = x if x else 5  # noqa: FURB110  # at: conditional
    if not y: z = 2  # noqa: E701  # at: not
    q = x and z and 1  # at: and
    w = [v for v in ys if v > 3]  # at: list
    g = any(v for v in ys if v)  # at: generator if
    k = 1 if y is None else 2  # at: none
    k = 1 if y is not None else 2  # at: not none
    d = -1 < x < 2  # a value, which decides nothing
    if -1 < x < 2: k = d  # noqa: E701  # at: chain
    if x == 1 and y: k = 3  # noqa: E701  # at: both
    assert x > -9
    if torch.compiler.is_exporting() or torch.jit.is_tracing(): k = 4  # noqa: E701
    f = lambda: 1 if x > 2 else 2  # noqa: E731  # at: lambda
    try:
        z = 1 / x
    except ZeroDivisionError:
        z = 2
    return z, q, w, g, k, f()
# fmt: on


def matches(x):
    match x:
        case 0 | 1:  # at: or
            return "a"
        case [_, _]:  # at: pair
            x = "b"
        case int() if x > 7:  # at: guard
            pass
        case _:
            match x:
                case "s":  # at: inner
                    pass
    return x


def loops(xs):
    for x in xs:
        match x:
            case 1:  # at: first
                pass
            case 2:  # at: second
                pass


def ways(function, *calls):
    branches = Branches()
    for call in calls:
        branches.watch(functools.partial(function, *(call if isinstance(call, tuple) else (call,))))
    taken = {}
    for branch, found in branches.taken.items():
        taken.setdefault(branch.place.line, []).append(found)
    return {line: found[0] if len(found) == 1 else found for line, found in taken.items()}, branches


def test_ways_of_each_branch():
    taken, branches = ways(choose, 3, 9)
    marks = ("if", "elif", "while", "one line")
    at = {mark: taken[marked(HERE, mark)] for mark in marks}
    assert at == {"if": {True, False}, "elif": {False}, "while": {True, False}, "one line": {True}}
    told = {(line("elif"), "always passed by"), (line("one line"), "always entered")}
    told.add((line("several lines") + 1, "`x == 2` always false"))
    assert {(place.line, way) for place, way in branches.one_way()} == told


def line(mark):
    return marked(HERE, mark)


POSITIONS = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python keeps no positions within lines")


@POSITIONS
@pytest.mark.parametrize(
    ("calls", "told"),
    [
        (
            [(1, None, [1, 5])],
            {
                "one line if": "always passed by",
                "conditional": "`x` always true",
                "not": "always entered",
                "and": "`x` always true; `z` always true",
                "none": "`y is None` always true",
                "not none": "`y is not None` always false",
                "chain": "always entered",
                "both": "`x == 1` always true; `y` always false",
                "generator if": "`v` always true",
                "lambda": "`x > 2` always false",
            },
        ),
        (
            [(0, 1, [0, 1]), (1, None, [5])],
            {
                "one line if": "always passed by",
                "and": "`z` always true",
                "both": "`y` always false",
                "chain": "always entered",
                "lambda": "`x > 2` always false",
            },
        ),
        (
            [(2, 1), (-1, 0), (3, 1), (5,)],
            {
                "conditional": "`x` always true",
                "and": "`x` always true; `z` always true",
                "none": "`y is None` always false",
                "not none": "`y is not None` always true",
                "chain": "always passed by",
                "both": "`x == 1` always false",
            },
        ),
    ],
)
def test_conditions_within_lines(calls, told):
    _, branches = ways(small, *calls)
    found = {}
    for place, way in branches.one_way():
        found.setdefault(place.line, []).append(way)
    assert {at: "; ".join(said) for at, said in found.items()} == {line(mark): said for mark, said in told.items()}


@POSITIONS
@pytest.mark.parametrize(
    ("function", "calls", "told"),
    [
        (matches, [0], {"or": "always case `0 | 1`"}),
        (matches, [1, [1, 2]], {"pair": "always case `[_, _]`"}),
        (
            matches,
            [3],
            {
                "or": "never case `0 | 1`",
                "pair": "never case `[_, _]`",
                "guard": "never case `int()`",
                "inner": "never",
            },
        ),
        (matches, [1, [1, 2], 8, "s", "t"], {}),
        (loops, [[1, 1]], {"first": "always case `1`"}),
        (loops, [[1, 2, 3]], {}),
        (loops, [[1, 2]], {"second": "always case `2`"}),
    ],
)
def test_cases_of_a_match(function, calls, told):
    _, branches = ways(function, *calls)
    found = {place.line: way for place, way in branches.one_way() if "case" in way}
    assert found.keys() == {line(mark) for mark in told}
    assert all(found[line(mark)].startswith(said) for mark, said in told.items())


def test_a_test_of_several_lines():
    first = marked(HERE, "several lines") + 1
    taken, _ = ways(choose, 2)
    assert (taken[first], taken.get(first + 1)) == ({True}, None)
    taken, _ = ways(choose, 2, 1)
    assert (taken[first], taken[first + 1]) == ({True, False}, {False})


def test_what_is_inside_a_test_is_no_branch():
    taken, _ = ways(comprehends, [1, 9])
    assert taken == {marked(HERE, "generator"): {True}}


def test_a_test_that_raises_goes_no_way():
    taken, _ = ways(fails, 1)
    assert taken == {}


def test_the_tracer_that_was_there_comes_back():
    before = sys.gettrace()
    ways(choose, 1)
    assert sys.gettrace() is before


def of_one_line(x):
    return -x if x > 3 else x  # at: of one line


def test_where_two_calls_part_within_a_line():
    def parting(one, other):
        return branches.parting(lambda: of_one_line(one), lambda: of_one_line(other))

    assert parting(1, 5) == Place(str(HERE), marked(HERE, "of one line"))
    assert parting(1, 2) is None
