"""What the check ``shapes`` says of the size of errors, for the report's plot."""

from __future__ import annotations

import torch
from test_shapes_search import FREE, check

from exportlint.checks.shapes.errors import MOST_SIZES, Errors
from exportlint.checks.shapes.trials import Trial


def doubled(self, x):
    return x * 2


def other_program(self, x):
    return x * 1.5 if torch.compiler.is_exporting() else x


def drawn(self, x):
    return x + torch.rand(())


def noted(*calls):
    errors = Errors()
    for size, error in calls:
        trial = Trial((((torch.ones(size),)), {}), f"x of shape [{size}]", {})
        errors.note(trial, torch.ones(1), torch.ones(1) + error)
    return [(m.size, m.value, m.label) for m in errors.measurements]


def test_equal_results_are_measured_in_each_size():
    result = check(doubled, dynamic_shapes=FREE)
    assert result.outcome == "passed"
    sizes = [measurement.size for measurement in result.measured]
    assert len(sizes) > 3
    assert sizes == sorted(set(sizes))
    assert {(m.of, m.value, m.label) for m in result.measured} == {("error", 0.0, "")}


def test_a_wrong_program_is_as_wrong_as_it_is():
    result = check(other_program, dynamic_shapes=FREE)
    assert result.outcome == "failed"
    assert {measurement.value for measurement in result.measured if measurement.size} == {0.5}


def test_what_is_free_is_no_error():
    result = check(doubled, dynamic_shapes=FREE, canonical=lambda x: x)
    assert (result.outcome, result.measured) == ("passed", ())
    result = check(drawn, dynamic_shapes=FREE)
    assert all(measurement.value == 0 for measurement in result.measured)


def test_the_largest_error_of_a_size_and_the_call_that_has_the_largest_of_all():
    calls = ((2, 0.5), (3, 0.25), (2, 0.75), (2, 0.5))
    assert noted(*calls) == [(2, 0.75, "x of shape [2]"), (3, 0.25, "")]


def test_no_more_sizes_than_a_report_has_room_for():
    assert len(noted(*((size, 0.5) for size in range(1, 3 * MOST_SIZES)))) == MOST_SIZES


def test_no_number_is_longer_than_it_tells():
    assert noted((2, 1 / 3)) == [(2, 0.3333, "x of shape [2]")]
