"""The vocabulary: how bad an outcome is."""

from __future__ import annotations

import pytest

from exportlint import blame
from exportlint.findings import CHECK_KINDS, CHECKS, DEFAULT_CHECKS, RESULTS, are_chosen, select_checks, severity
from exportlint.places import Place

MIXED = {"export": "unportable", "export-strict": "silent", "compile": "fine"}


@pytest.mark.parametrize(
    ("modes", "expected"),
    [(["export"], "warning"), (["export", "export-strict"], "error"), (["compile"], None), ([], None)],
)
def test_severity_is_the_worst_over_the_modes_asked_for(modes, expected):
    assert severity(MIXED, modes) == expected


def test_modes_of_which_nothing_is_known_do_not_count():
    assert severity(MIXED) == "error"
    assert severity({"export": "specialises"}) == "warning"
    assert severity({"export": "breaks"}, ["compile"]) is None
    assert severity({}) is None


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        ("breaks", "error"),
        ("silent", "error"),
        ("specialises", "warning"),
        ("unportable", "warning"),
        ("fine", "info"),
        (None, "info"),
    ],
)
@pytest.mark.parametrize("place", [None, Place("model.py", 3)])
def test_the_severity_of_what_a_check_saw_follows_from_what_it_saw(outcome, expected, place):
    assert outcome is None or outcome in RESULTS
    found = blame.finding("EXP301", "why", place, outcome=outcome)
    assert (found.severity, found.outcomes) == (expected, {} if outcome is None else {"export": outcome})


def test_checks_are_selected_by_name_in_the_order_in_which_they_run():
    assert select_checks(["shapes", "capture", "shapes"]) == ("capture", "shapes")
    assert select_checks(["capture", "all"]) == CHECKS
    assert [kind.name for kind in CHECK_KINDS if not kind.optional] == list(DEFAULT_CHECKS)
    assert CHECKS[-1] == "lint"  # which lays predictions over what all others saw


@pytest.mark.parametrize(("names", "words"), [(["captur", "x"], "'captur' is no check"), ([], "names no check")])
def test_a_check_that_there_is_not(names, words):
    with pytest.raises(ValueError, match=f"^{words}; known: ") as error:
        select_checks(names)
    assert str(error.value).endswith(f"{', '.join(CHECKS)}; or all")


def test_checks_are_chosen_where_they_lack_some_that_run_by_default():
    more = select_checks([*DEFAULT_CHECKS, "speed"])
    assert [are_chosen(checks) for checks in (DEFAULT_CHECKS, CHECKS, more, ("capture",))] == [
        False,
        False,
        False,
        True,
    ]
