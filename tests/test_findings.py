"""The vocabulary: how bad an outcome is."""

from __future__ import annotations

import pytest

from exportlint import blame
from exportlint.findings import RESULTS, severity
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
