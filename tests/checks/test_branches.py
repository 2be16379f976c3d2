from __future__ import annotations

import sys
from pathlib import Path

from commands import marked

from exportlint.checks.shapes.branches import Branches

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
    if x: x = 1  # noqa: E701 - on one line, so that lines cannot tell
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


def ways(function, *calls):
    branches = Branches()
    for call in calls:
        branches.watch(lambda call=call: function(call))
    return {place.line: taken for place, taken in branches.taken.items()}, branches


def test_ways_of_each_branch():
    taken, branches = ways(choose, 3, 9)
    at = {mark: taken[marked(HERE, mark)] for mark in ("if", "elif", "several lines", "while")}
    assert at == {"if": {True, False}, "elif": {False}, "several lines": {True, False}, "while": {True, False}}
    assert [(place.line, way) for place, way in branches.one_way()] == [
        (marked(HERE, "elif"), False),
    ]
    assert set(taken) == {marked(HERE, mark) for mark in at}


def test_a_test_of_several_lines():
    taken, _ = ways(choose, 2, 9)
    assert taken[marked(HERE, "several lines")] == {True}
    taken, _ = ways(choose, 2, 1)
    assert taken[marked(HERE, "several lines")] == {True, False}


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
