from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readiness_samples import measured, measurements, passing

from exportlint.findings import CaseResult, CheckResult, Measurement
from exportlint.report.plots import BARS, BOTTOM, EQUAL, LEFT, MOST_POINTS, MOST_WAYS, RIGHT, TOP, plots
from exportlint.text import map_strings, visible


def of(*measurements):
    case = CaseResult(name="a", target="a.py", checks=(CheckResult(name="x", outcome="passed", measured=measurements),))
    return plots([case])


def points(path):
    return [(float(x), float(y)) for x, y in re.findall(r"M(-?[\d.]+) (-?[\d.]+)h0", path)]


def error(value, size, label=""):
    return Measurement(of="error", value=value, low=value, high=value, size=size, label=label)


def test_cases_of_which_nothing_was_measured_have_no_plot():
    assert plots(passing().cases) == []


def test_errors_rise_with_their_value_and_run_with_their_size():
    wrong, _ = plots(measured().cases)
    found = points(wrong.errors.path)
    assert [x for x, _ in found] == sorted(x for x, _ in found)
    heights = [y for _, y in found]
    assert heights[0] == EQUAL > heights[1] > heights[3] > heights[2] > TOP
    assert [tick.text for tick in wrong.errors.sizes] == ["8", "4,096"]
    assert [tick.text for tick in wrong.errors.errors] == ["equal", "1e-7", "1e-6", "1e-5", "1e-4"]
    assert wrong.errors.words.endswith("the largest error is 3e-05 of the largest value, for x of shape [512]")


def test_one_size_alone_is_one_mark():
    (plot,) = of(error(1.0, 7))
    assert [tick.text for tick in plot.errors.sizes] == ["7"]
    assert len(points(plot.errors.path)) == 1


def test_where_all_are_equal_words_are_enough():
    (plot,) = of(error(0.0, 8), error(0.0, 64))
    assert plot.errors.path == ""
    assert plot.errors.words == ("calls of 2 sizes, with up to 64 elements: program and eager model are equal in each")


def test_times_lie_beside_eager():
    _, fast = plots(measured().cases)
    slow, quick = fast.times.bars
    assert BARS < quick.low < quick.middle < quick.high < fast.times.one < slow.low < slow.middle < slow.high < RIGHT
    assert slow.time == "1.25 (1.10 to 1.50)"


@given(st.lists(measurements, max_size=80))
def test_whatever_was_measured_stays_in_the_drawing(found):
    for plot in of(*map_strings(tuple(found), visible)):
        if plot.errors is not None:
            assert len(points(plot.errors.path)) <= MOST_POINTS
            assert all(LEFT <= x <= RIGHT and TOP <= y <= BOTTOM for x, y in points(plot.errors.path))
            assert all(TOP <= tick.at <= BOTTOM for tick in plot.errors.errors)
            assert len(plot.errors.errors) <= 6
        if plot.times is not None:
            assert len(plot.times.bars) <= MOST_WAYS
            assert all(BARS <= x <= RIGHT for bar in plot.times.bars for x in (bar.low, bar.middle, bar.high))


@pytest.mark.parametrize("value", [5e-324, 1.7e308, 1e300])
def test_numbers_at_the_ends_of_what_there_is(value):
    (plot,) = of(error(value, 3), error(1e-3, 4))
    assert all(math.isfinite(n) for point in points(plot.errors.path) for n in point)
