from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readiness_samples import passing, sample

from exportlint.report.unfinished import Unfinished

ASKED = {"targets": ["m.py"], "examples": 20}


def kept(folder, *labels, asked=ASKED):
    """What a run that is stopped after these cases leaves."""
    run = Unfinished(folder, asked)
    before = run.start(resume=True)
    for label in labels:
        run.keep(label, sample().cases[0])
    run.close()
    return before


def test_a_run_goes_on_where_it_was(tmp_path):
    assert kept(tmp_path, "a", "b") == {}
    assert kept(tmp_path, "c") == {label: sample().cases[0] for label in "ab"}
    assert set(kept(tmp_path)) == {"a", "b", "c"}


def test_only_the_same_run_goes_on(tmp_path):
    kept(tmp_path, "a")
    assert kept(tmp_path, asked={**ASKED, "examples": 5}) == {}


def test_a_new_run_drops_what_was_left_with_its_first_result(tmp_path):
    kept(tmp_path, "a")
    run = Unfinished(tmp_path, ASKED)
    assert set(run.start(resume=False)) == {"a"}
    run.close()
    assert set(kept(tmp_path)) == {"a"}
    run = Unfinished(tmp_path, ASKED)
    run.start(resume=False)
    run.keep("b", sample().cases[1])
    run.close()
    assert set(kept(tmp_path)) == {"b"}


def test_nothing_is_left_of_a_run_that_ended(tmp_path):
    run = Unfinished(tmp_path, ASKED)
    run.start(resume=False)
    run.keep("a", passing().cases[0])
    run.finish()
    assert list(tmp_path.iterdir()) == []


@given(cut=st.integers(0, 3000))
def test_a_line_that_was_cut_off_is_dropped_and_the_next_is_whole(cut, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cut")
    kept(folder, "a", "b")
    (file,) = folder.iterdir()
    data = file.read_bytes()[:cut]
    file.write_bytes(data)
    whole = set("ab"[: data.count(b"\n")])
    assert set(kept(folder, "c")) == whole
    assert set(kept(folder)) == whole | {"c"}


@pytest.mark.parametrize("line", [b"", b"{}", b"\xff", b"[1]", b'{"label": "x"}'])
def test_lines_of_others_are_left_out(tmp_path, line):
    kept(tmp_path, "a")
    (file,) = tmp_path.iterdir()
    file.write_bytes(line + b"\n" + file.read_bytes())
    assert set(kept(tmp_path)) == {"a"}


def test_two_runs_of_the_same_at_once(tmp_path):
    first, second = Unfinished(tmp_path, ASKED), Unfinished(tmp_path, ASKED)
    first.start(resume=False)
    first.keep("a", sample().cases[0])
    assert second.start(resume=True) == {}
    assert "another run of the same is writing it" in second.trouble
    second.keep("b", sample().cases[0])
    second.finish()
    first.close()
    assert set(kept(tmp_path)) == {"a"}


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    run = Unfinished(tmp_path / "file", ASKED)
    assert run.start(resume=True) == {}
    assert run.trouble.startswith("results are not kept for --resume: ")
    run.keep("a", sample().cases[0])
    run.finish()
