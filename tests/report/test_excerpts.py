from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from readiness_samples import findings

from exportlint.findings import Finding
from exportlint.report.excerpts import MOST_MARKED, ExcerptLine, Sources

TEXT = """\
import torch


def forward(x):
    if x.sum() > 0:
        return x

    return (
        -x
    )
"""
FOUND = Finding(rule="EXP101", severity="error", message="m", line=5, end_line=5, source="if x.sum() > 0:")


@pytest.fixture
def found(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(TEXT)
    return dataclasses.replace(FOUND, file=str(path))


def test_lines_around_a_finding_with_its_own_marked(found):
    assert Sources().excerpt(found) == (
        ExcerptLine(4, "def forward(x):", False),
        ExcerptLine(5, "    if x.sum() > 0:", True),
        ExcerptLine(6, "        return x", False),
        ExcerptLine(7, "", False),
        ExcerptLine(8, "    return (", False),
    )


def test_all_lines_of_a_statement_are_marked_and_common_indentation_goes(found):
    shown = Sources().excerpt(dataclasses.replace(found, line=8, end_line=10, source="return ("))
    assert [line.text for line in shown] == ["if x.sum() > 0:", "    return x", "", "return (", "    -x", ")"]
    assert [line.number for line in shown if line.marked] == [8, 9, 10]


def test_a_long_statement_is_cut(tmp_path):
    path = tmp_path / "long.py"
    path.write_text("x = [\n" + "    1,\n" * 100 + "]\n")
    shown = Sources().excerpt(dataclasses.replace(FOUND, file=str(path), line=1, end_line=102, source="x = ["))
    assert sum(line.marked for line in shown) == MOST_MARKED


def test_marks_that_reorder_text_are_escapes(tmp_path):
    path = tmp_path / "odd.py"
    path.write_text("# \u202e\nx\tif x.sum() > 0:\n", encoding="utf-8")
    shown = Sources().excerpt(dataclasses.replace(FOUND, file=str(path), line=2, source="x   if x.sum() > 0:"))
    assert shown[0].text == r"# \u202e"


@pytest.mark.parametrize(
    "other",
    [
        {"line": 6},  # the file has changed since
        {"line": 99},
        {"line": 0},
        {"line": None},
        {"file": None},
        {"source": None},
        {"file": "nowhere.py"},
        {"file": "\0.py"},
    ],
)
def test_nothing_is_shown_where_the_file_does_not_read_as_the_finding_says(found, other):
    assert Sources().excerpt(dataclasses.replace(found, **other)) == ()


@pytest.mark.parametrize("name", ["model.txt", "folder.py"])
def test_what_is_no_python_file_is_not_read(tmp_path, name):
    path = tmp_path / name
    path.mkdir() if name == "folder.py" else path.write_text(TEXT)
    assert Sources().excerpt(dataclasses.replace(FOUND, file=str(path))) == ()


@pytest.mark.parametrize("data", [b"# coding: none\nx\n", b"\xff\xfe\nx\n"])
def test_bytes_that_are_no_text(tmp_path, data):
    path = tmp_path / "model.py"
    path.write_bytes(data)
    assert Sources().excerpt(dataclasses.replace(FOUND, file=str(path), line=2, source="x")) == ()


def test_an_installed_file_of_another_machine_is_that_of_this_one(monkeypatch, found, tmp_path):
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    elsewhere = dataclasses.replace(found, file="site-packages/model.py")
    assert Sources().excerpt(elsewhere) == Sources().excerpt(found) != ()
    assert Sources().excerpt(dataclasses.replace(elsewhere, file="site-packages/none.py")) == ()


def test_a_file_is_read_once(found, tmp_path):
    sources = Sources()
    first = sources.excerpt(found)
    (tmp_path / "model.py").unlink()
    assert sources.excerpt(found) == first != ()


@given(findings)
def test_no_finding_is_too_strange(finding):
    assert Sources().excerpt(finding) == ()
