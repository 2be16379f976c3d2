from __future__ import annotations

from torch._logging import structured

from exportlint.torch_hooks import interned


def test_strings_by_their_number():
    number = structured.intern_string("a string of this test alone")
    assert interned.strings()[number] == "a string of this test alone"


def test_a_torch_without_the_table(monkeypatch):
    monkeypatch.delattr(structured, "INTERN_TABLE")
    assert interned.strings() == {}
