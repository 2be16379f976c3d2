from __future__ import annotations

import pytest
import torch
from torch._logging import structured

from exportlint.checks import explore
from exportlint.torch_hooks import interned


def test_strings_by_their_number():
    number = structured.intern_string("a string of this test alone")
    assert interned.strings()[number] == "a string of this test alone"


def test_this_torch_has_the_table():
    assert interned.why_not() is None


WHY = f"torch {torch.__version__} numbers the strings of its log in another way than exportlint knows"


def test_a_torch_without_the_table(monkeypatch):
    monkeypatch.delattr(structured, "INTERN_TABLE")
    assert (interned.strings(), interned.why_not()) == ({}, WHY)


@pytest.mark.parametrize("table", [{}, {interned.__name__: -1}, []])
def test_a_torch_that_fills_the_table_otherwise(monkeypatch, table):
    monkeypatch.setattr(structured, "INTERN_TABLE", table)
    monkeypatch.setattr(structured, "intern_string", lambda _: 7)
    assert (interned.strings(), interned.why_not()) == ({}, WHY)


def test_what_cannot_be_known_is_told(monkeypatch):
    monkeypatch.delattr(structured, "INTERN_TABLE")
    monkeypatch.setattr(explore, "draft_findings", lambda _: [])
    monkeypatch.setattr(explore, "submodule_notes", lambda _: ("a note",))
    notes = ("a note", f"further failures whose files are not known are left out: {WHY}")
    assert explore.after_failure(None, ()) == ((), notes)
