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
