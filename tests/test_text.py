from __future__ import annotations

import math

import pytest
from readiness_samples import sample

from exportlint.findings import CheckResult
from exportlint.text import clip, duration, encodable, listed, map_strings, one_line, package, short_path, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("a\x00", r"a\x00"),
        ("\u202eabc", r"\u202eabc"),
        ("\ud800", r"\ud800"),
        ("a\r\nb\rc", "a\nb\\rc"),
        ("a\tb", "a   b"),
        ("é漢字🙂 \xa0x", "é漢字🙂 \xa0x"),
    ],
)
def test_visible(text, shown):
    assert visible(text) == shown


def test_encodable():
    assert encodable("a\ud800\x1b") == "a\\ud800\x1b"


def test_one_line_and_clip():
    assert one_line(" a \n\n b\tc ") == "a b c"
    assert one_line("x" * 100_000, 10) == "xxxxxxxxxx... (30 more characters)"
    assert clip("abc", 3) == "abc"
    assert clip("abcd", 3) == "abc... (1 more character)"


@pytest.mark.parametrize(("length", "kept"), [(300, 300), (375, 375), (376, 300)])
def test_no_text_is_cut_to_save_a_few_characters(length, kept):
    assert clip("x" * length, 300).count("x") == kept


def test_listed():
    assert listed(("a", "b"), 2) == "a, b"
    assert listed(["a", "b", "c", "d"], 2) == "a, b and 2 more"
    assert listed((), 2) == ""


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (3599.6, "1 h 0 min"),
        (7500, "2 h 5 min"),
    ],
)
def test_duration(seconds, words):
    assert duration(seconds) == words


def test_map_strings_reaches_all_and_mends_times():
    changed = map_strings(sample(), str.upper)
    assert changed.cases[2].checks[0].findings[0].source == "IF NOT KEEP.ALL():"
    assert changed.errors[0].message == "NO SUCH FILE"
    assert changed.environment.examples == 20
    assert map_strings(CheckResult(name="x", outcome="passed", seconds=math.nan), str.strip).seconds == 0.0


def test_package():
    assert package("/x/lib/python3.11/site-packages/a/b.py") == "a"
    assert package("site-packages/single.py") == "single"
    assert package("models/a.py") is None


def test_short_path():
    assert short_path("/x/lib/python3.11/site-packages/a/b.py") == "a/b.py"
    assert short_path("models/a.py") == "models/a.py"
