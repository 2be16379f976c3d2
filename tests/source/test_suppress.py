"""Comments that silence findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exportlint.source.files import read
from exportlint.source.suppress import EVERY, WHOLE_FILE, comments, silences, suppressed_lines

if TYPE_CHECKING:
    from pathlib import Path

BLOCKS = """\
# exportlint: disable[EXP101]
a = 1
def f():
    # exportlint: disable[EXP202, device-literal]
    b = 2
    c = (
3)
d = 4
# exportlint: enable[EXP101]
e = 5
"""


def lines(tmp_path: Path, text: str) -> dict[int, set[str]]:
    file = tmp_path / "model.py"
    file.write_text(text, encoding="utf-8")
    return {line: set(names) for line, names in suppressed_lines(file).items()}


def test_lines_with_their_codes_in_upper_case(tmp_path: Path) -> None:
    text = "a = 1  # noqa\nb = 2  # noqa: exp101, EXP202\nc = '# noqa'\nd = 4  # exportlint: ignore[branch-on-tensor]\n"
    assert lines(tmp_path, text) == {1: {EVERY}, 2: {"EXP101", "EXP202"}, 4: {"BRANCH-ON-TENSOR"}}


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


def test_a_comment_alone_is_about_the_statement_below(tmp_path: Path) -> None:
    text = "# exportlint: ignore[EXP101]\n\n# why\na = (\n    1,\n)\nb = 2\n"
    assert lines(tmp_path, text) == {4: {"EXP101"}, 5: {"EXP101"}, 6: {"EXP101"}}
    text = "if a:\n    # exportlint: ignore\n    b = 1\nc = 2\n"
    assert lines(tmp_path, text) == {3: {EVERY}}
    text = "a = [\n    # exportlint: ignore\n    1,\n]\nb = 1\n"  # inside of a statement it is about none below
    assert set(lines(tmp_path, text)) == {5}


def test_noqa_alone_is_about_its_own_line(tmp_path: Path) -> None:
    assert lines(tmp_path, "# noqa\na = 1\n") == {1: {EVERY}}


def test_blocks_end_where_they_are_ended_or_with_their_indentation(tmp_path: Path) -> None:
    found = lines(tmp_path, BLOCKS)
    assert {line for line, names in found.items() if "EXP101" in names} == set(range(1, 10))
    assert {line for line, names in found.items() if "DEVICE-LITERAL" in names} == {4, 5, 6, 7}
    assert 10 not in found


def test_a_block_that_nothing_ends_is_the_rest_of_the_file(tmp_path: Path) -> None:
    assert set(lines(tmp_path, "a = 1\n# exportlint: disable\nb = 2\n# exportlint: enable[EXP101]\nc = 3\n")) == {
        2,
        3,
        4,
        5,
    }


@pytest.mark.parametrize(
    ("begins", "end", "ended"),
    [
        (["disable[EXP101]"], "enable[branch-on-tensor]", 1),
        (["disable[Branch-On-Tensor]"], "enable[exp101]", 1),
        (["disable[EXP101, device-literal]"], "enable[EXP201, branch-on-tensor]", 1),
        (["disable[EXP999]"], "enable[exp999]", 1),
        (["disable[EXP101]", "disable[EXP202]", "disable"], "enable", 3),
        (["disable"], "enable[EXP101]", 0),
        (["disable[EXP101, EXP202]"], "enable[EXP101]", 0),
    ],
)
def test_what_an_enable_ends(tmp_path: Path, begins: list[str], end: str, ended: int) -> None:
    above = "".join(f"# exportlint: {each}\n" for each in begins)
    file = tmp_path / "model.py"
    file.write_text(f"{above}a = 1\n# exportlint: {end}\nb = 2\n")
    there = comments(read(file))
    line = len(begins) + 2
    assert [c.last == line for c in there if c.kind == "disable"].count(True) == ended
    assert [bool(c.fault) for c in there if c.kind == "enable"] == [True] * (not ended)


def test_a_bare_enable_ends_what_is_still_on_and_no_more(tmp_path: Path) -> None:
    text = "def f():\n    # exportlint: disable[EXP101]\n    a = 1\nb = 2\n# exportlint: enable\nc = 3\n"
    file = tmp_path / "model.py"
    file.write_text(text)
    disabled, end = comments(read(file))
    assert (disabled.first, disabled.last, bool(end.fault)) == (2, 3, True)


@pytest.mark.parametrize(
    ("comment", "silenced"),
    [
        ("# noqa", {EVERY}),
        ("# noqa since it is drawn once", {EVERY}),
        ("# noqa : EXP101", {"EXP101"}),
        ("# noqa:EXP101,F401", {"EXP101", "F401"}),
        ("# noqa: EXP101 because it is constant", {"EXP101"}),
        ("# noqa: EXP101 (branch-on-tensor)", {"EXP101"}),
        ("# noqa: F401", {"F401"}),
        ("# noqa: see the ticket", set()),
        ("# noqa: branch-on-tensr", set()),
        ("# noqa: branch-on-tensor", set()),
        ("# noqa:", set()),
        ("# noqa: E501because", set()),
        ("# noqa: type: ignore", set()),
    ],
)
def test_what_a_noqa_silences(tmp_path: Path, comment: str, silenced: set[str]) -> None:
    assert lines(tmp_path, f"a = 1  {comment}\n") == ({1: silenced} if silenced else {})


def test_blocks_of_the_same_rule_nest(tmp_path: Path) -> None:
    begin, end = "# exportlint: disable[EXP101]\n", "# exportlint: enable[EXP101]\n"
    text = f"{begin}a = 1\n{begin}b = 2\n{end}c = 3\n"
    file = tmp_path / "model.py"
    file.write_text(text)
    assert [(c.first, c.last) for c in comments(read(file))] == [(1, 6), (3, 5)]


@pytest.mark.parametrize(
    "text", ["# exportlint: ignore-file\na = 1\n", "a = 1\n\n# exportlint: ignore-file  (generated)\n"]
)
def test_a_whole_file(tmp_path: Path, text: str) -> None:
    found = lines(tmp_path, text)
    assert found == {WHOLE_FILE: {EVERY}}
    assert silences({k: frozenset(v) for k, v in found.items()}, "EXP101", "branch-on-tensor", 99)
    only = lines(tmp_path, "# exportlint: ignore-file[EXP2, EXP101]\n")
    assert only == {WHOLE_FILE: {"EXP2", "EXP101"}}


def test_comments_know_where_they_stand(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("a = 'é'  # why  # exportlint: ignore[EXP101]  # noqa: EXP202\n", encoding="utf-8")
    ours, noqa = comments(read(file))
    line = file.read_text(encoding="utf-8")
    assert line[ours.column - 1 : ours.end_column - 1] == "# exportlint: ignore[EXP101]"
    assert line[noqa.column - 1 : noqa.end_column - 1] == "# noqa: EXP202"
    assert (ours.kind, noqa.kind) == ("ignore", "noqa")


def test_words_that_only_look_like_comments_silence_nothing(tmp_path: Path) -> None:
    text = "a = 1  # exportlint: ignored\nb = 2  # exportlint: ignore-files\nc = 3  # exportlint ignore\n"
    assert lines(tmp_path, text) == {}


def test_many_comments_cost_little(tmp_path: Path) -> None:
    import time

    text = "".join(f"a{i} = 1  # noqa: EXP101\n# exportlint: ignore[EXP202]\nb = 2\n" for i in range(5000))
    begun = time.process_time()
    assert len(lines(tmp_path, text)) == 10000
    assert time.process_time() - begun < 10
