"""Files that are written whole or not at all."""

from __future__ import annotations

import pytest

from exportlint import whole_file


def test_a_file_is_replaced(tmp_path):
    place = tmp_path / "report.md"
    place.write_text("before")
    whole_file.write(place, b"after")
    assert place.read_bytes() == b"after"
    assert list(tmp_path.iterdir()) == [place]


def test_what_was_there_stays_when_the_content_cannot_be_written(tmp_path):
    place = tmp_path / "report.md"
    place.write_text("before")
    with pytest.raises(TypeError):
        whole_file.write(place, "no bytes")
    assert place.read_text() == "before"
    assert list(tmp_path.iterdir()) == [place]


@pytest.mark.parametrize("name", ["gone/report.md", "file/report.md", "folder"])
def test_an_error_names_the_file_that_was_meant(tmp_path, name):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    with pytest.raises(OSError, match=r"[Dd]irectory|folder") as caught:
        whole_file.write(tmp_path / name, b"content")
    assert caught.value.filename == str(tmp_path / name)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]


def test_the_mode_is_that_which_was_asked_for(tmp_path):
    whole_file.write(tmp_path / "run.sh", b"", mode=0o750)
    assert (tmp_path / "run.sh").stat().st_mode & 0o777 == 0o750
