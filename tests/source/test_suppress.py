"""Comments that silence findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exportlint.source.suppress import EVERY, silences, suppressed_lines

if TYPE_CHECKING:
    from pathlib import Path


def test_lines_with_their_codes_in_upper_case(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(
        "a = 1  # noqa\nb = 2  # noqa: exp101, EXP202\nc = '# noqa'\nd = 4  # exportlint: ignore[branch-on-tensor]\n",
        encoding="utf-8",
    )
    assert dict(suppressed_lines(file)) == {
        1: {EVERY},
        2: {"EXP101", "EXP202"},
        4: {"BRANCH-ON-TENSOR"},
    }


@pytest.mark.parametrize("data", [None, b"\xff\xfe\x00 # noqa", b"x = (  # noqa\n"])
def test_what_cannot_be_read_silences_nothing(tmp_path: Path, data: bytes | None) -> None:
    file = tmp_path / "model.py"
    if data is not None:
        file.write_bytes(data)
    assert dict(suppressed_lines(file)) == {}


def test_a_finding_is_silenced_on_its_first_line_and_on_its_last() -> None:
    lines = {3: frozenset({"EXP101"}), 7: frozenset({EVERY}), 9: frozenset({"BRANCH-ON-TENSOR"})}
    assert silences(lines, "EXP101", "branch-on-tensor", 3)
    assert silences(lines, "EXP101", "branch-on-tensor", 1, 3)
    assert silences(lines, "EXP101", "branch-on-tensor", 9)
    assert silences(lines, "EXP202", "factory-without-device", 7)
    assert not silences(lines, "EXP101", "branch-on-tensor", 1, 5)
    assert not silences(lines, "EXP202", "factory-without-device", 3)
