"""Comments that silence nothing are advice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exportlint.rules.examples import example
from exportlint.source.engine import Options, lint

if TYPE_CHECKING:
    from pathlib import Path


def found(tmp_path: Path, text: str, **options: object) -> list[tuple[str, str, int]]:
    file = tmp_path / "model.py"
    file.write_text(text, encoding="utf-8")
    return [(p.rule.code, p.variant, p.range.line) for p in lint([file], Options(**options))]


def forward(line: str) -> str:
    return example(f"def forward(self, x):\n    {line}")


BRANCH = "return x if x.sum() > 0 else -x"
LINE = next(i for i, line in enumerate(forward("MARK").splitlines(), 1) if "MARK" in line)


@pytest.mark.parametrize(
    ("comment", "unused"),
    [
        ("# exportlint: ignore[EXP101]", []),
        ("# exportlint: ignore[branch-on-tensor]", []),
        ("# exportlint: ignore", []),
        ("# exportlint: ignore[EXP101, EXP202]", [("EXP006", "", LINE)]),
        ("# exportlint: ignore[EXP101, EXP999]", [("EXP006", "no rule", LINE)]),
        ("# exportlint: ignore[EXP101, EXP1, branch]", [("EXP006", "no rule", LINE)]),
        ("# exportlint: ignore[EXP101, EXP002]", []),  # only a run can show EXP002
        ("# noqa: EXP101, EXP202", []),
        ("# exportlint: ignore[EXP202]", [("EXP006", "", LINE), ("EXP101", "", LINE)]),
        ("# exportlint: ignore[EXP101, EXP202, EXP006]", [("EXP006", "", LINE)]),  # it cannot excuse itself
    ],
)
def test_names_that_silence_nothing(tmp_path: Path, comment: str, unused: list[tuple[str, str, int]]) -> None:
    assert sorted(found(tmp_path, forward(f"{BRANCH}  {comment}"))) == unused


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (forward("return x * 2  # exportlint: ignore"), [LINE]),
        (forward("return x * 2  # noqa"), []),
        ("# exportlint: ignore-file\n" + forward("return x * 2"), [1]),
        ("# exportlint: ignore-file\n" + forward(BRANCH), []),
        ("# exportlint: ignore-file[EXP202]\n" + forward("return x * 2"), [1]),
        ("# exportlint: disable[EXP101]\n" + forward(BRANCH) + "# exportlint: enable[EXP101]\n", []),
        (forward("return x * 2") + "\n# exportlint: disable[EXP101]\n", [forward("return x * 2").count("\n") + 2]),
        ("x = '# exportlint: ignore'\n", []),
        ("x = 1  # exportlint: ignore[EXP101]\n", [1]),
        ("# exportlint: ignore-file[EXP006]\nx = 1  # exportlint: ignore[EXP101]\n", []),
    ],
)
def test_comments_that_silence_nothing(tmp_path: Path, text: str, lines: list[int]) -> None:
    assert [line for code, _, line in found(tmp_path, text) if code == "EXP006"] == lines


def test_all_names_are_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(forward("return x * 2  # exportlint: ignore[EXP101, device-literal, EXP1, branch-on]"))
    assert sorted(p.message for p in lint([file], Options())) == [
        "`exportlint check` finds nothing of EXP201 or EXP101 that the comment could silence",
        "no rule is called `EXP1` or `branch-on` (did you mean `branch-on-tensor`?)",
    ]


def test_a_misspelt_name_is_told_as_it_is_written_with_what_was_meant(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(forward("return x * 2  # exportlint: ignore[Branch-on-tenser, EXP1O1]"))
    (told,) = lint([file], Options())
    assert told.message == (
        "no rule is called `Branch-on-tenser` (did you mean `branch-on-tensor`?) or `EXP1O1` (did you mean `EXP101`?)"
    )


@pytest.mark.parametrize("name", ["EXP101:EXP202", "EXP101;factory-without-device"])
def test_names_without_a_comma_between_them_are_told_to_get_one(tmp_path: Path, name: str) -> None:
    file = tmp_path / "model.py"
    file.write_text(forward(f"return x * 2  # exportlint: ignore[{name}]"))
    (told,) = lint([file], Options())
    first, last = name.replace(";", ":").split(":")
    assert told.message == f"no rule is called `{name}` (put a comma between {first} and {last})"


@pytest.mark.parametrize(
    ("comment", "meant"),
    [
        ("# exportlint: ignore[EXP101", "did you mean `# exportlint: ignore[EXP101]`?"),
        ("# exportlint: ignore(EXP101)", "did you mean `# exportlint: ignore[EXP101]`?"),
        ("# exportlint: ignore EXP101, EXP202", "did you mean `# exportlint: ignore[EXP101, EXP202]`?"),
        ("# exportlint: ignore: EXP101", "did you mean `# exportlint: ignore[EXP101]`?"),
        ("# exportlint: ignore branch-on-tensor", "did you mean `# exportlint: ignore[branch-on-tensor]`?"),
        ("# exportlint: ignore [EXP101]", "did you mean `# exportlint: ignore[EXP101]`?"),
        ("# exportlint: ingore[EXP101]", "did you mean `# exportlint: ignore[EXP101]`?"),
        ("# exportlint: ignored", "did you mean `# exportlint: ignore`?"),
        ("# exportlint: ignore-next-line[EXP101]", "did you mean `# exportlint: ignore[EXP101]`?"),
        ("# exportlint: ignore-next[EXP101]", "did you mean `# exportlint: ignore[EXP101]`?"),
        ("# exportlint: ignore-line[EXP101]", "did you mean `# exportlint: ignore[EXP101]`?"),
        ("# exportlint: ignore-block[EXP101]", "did you mean `# exportlint: ignore[EXP101]`?"),
        ("# exportlint: disable-next-line[EXP101]", "did you mean `# exportlint: ignore[EXP101]`?"),
        ("# exportlint: disable-file[EXP101]", "did you mean `# exportlint: ignore-file[EXP101]`?"),
        ("# exportlint: skip-file", "did you mean `# exportlint: ignore-file`?"),
        ("# exportlint: ingore-fiel[EXP101]", "did you mean `# exportlint: ignore-file[EXP101]`?"),
        ("# exportlint: disabled[EXP101]", "did you mean `# exportlint: disable[EXP101]`?"),
        ("# noqa: branch-on-tensr", "did you mean `# noqa: EXP101`?"),
        ("# noqa: branch-on-tensor", "did you mean `# noqa: EXP101`?"),
        ("# noqa: F401, EXP1O1", "did you mean `# noqa: EXP101`?"),
        ("# exportlint: ignore-files[EXP101]", "did you mean `# exportlint: ignore-file[EXP101]`?"),
        ("# exportlint ignore[EXP101]", "did you mean `# exportlint: ignore[EXP101]`?"),
        ("# Exportlint: ignore  # exportlint", "did you mean `# exportlint: ignore`?"),
        ("# exportlint: ignore[]", "it names no rule; without brackets, all rules are meant"),
        ("# exportlint: quiet", "ignore, disable, enable and ignore-file are what may follow `exportlint:`"),
        ("# exportlint: enable[EXP101]", "no comment `disable` of the same rules is ended by this `enable`"),
    ],
)
def test_what_is_written_as_no_such_comment_silences_nothing_and_is_told(
    tmp_path: Path, comment: str, meant: str
) -> None:
    assert found(tmp_path, forward(f"{BRANCH}  {comment}")) == [("EXP101", "", LINE), ("EXP006", "malformed", LINE)]
    told = next(p for p in lint([tmp_path / "model.py"], Options()) if p.variant == "malformed")
    assert told.message.endswith(meant)


@pytest.mark.parametrize(
    "comment",
    [
        "# exportlint: ignore the mask is a constant",
        "# exportlint: ignore, since it is drawn once",
        "# exportlint: ignore[EXP101] the mask is a constant",
        "# exportlint: ignore[ branch-on-tensor ]",
        "#exportlint:ignore[exp101]",
    ],
)
def test_words_may_follow(tmp_path: Path, comment: str) -> None:
    assert found(tmp_path, forward(f"{BRANCH}  {comment}")) == []


@pytest.mark.parametrize(
    "comment", ["# exportlint ignores this line", "# exportlint disable is no option", "# exportlint, see its manual"]
)
def test_prose_about_exportlint_is_no_comment_of_it(tmp_path: Path, comment: str) -> None:
    assert found(tmp_path, forward(f"return x * 2  {comment}")) == []


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa: see the ticket",
        "# noqa: F401 unused-import",
        "# noqa: unused-import",
        "# noqa: invalid-print-syntax",
        "# noqa: EXP1",
        "# noqa: EXPLAIN-1234",
        "# noqa: expected",
        "# noqa:",
    ],
)
def test_noqa_of_others_is_not_judged(tmp_path: Path, comment: str) -> None:
    assert found(tmp_path, forward(f"{BRANCH}  {comment}")) == [("EXP101", "", LINE)]


def test_what_bites_in_another_mode_is_silenced_too(tmp_path: Path) -> None:
    text = forward("return x + torch.arange(4)  # exportlint: ignore[EXP202]")
    assert found(tmp_path, text.replace("  # exportlint: ignore[EXP202]", ""), modes=("compile",)) == []
    assert found(tmp_path, text, modes=("compile",)) == []


def test_where_a_class_could_not_be_analysed_nothing_is_said(tmp_path: Path) -> None:
    deep = "\n\nclass Deep(nn.Module):\n    def forward(self, x):\n        return " + " if x.dim() else ".join(
        ["x"] * 1000
    )
    text = forward("return x * 2  # exportlint: ignore[EXP101, EXP999]")
    assert [variant for _, variant, _ in found(tmp_path, text + deep + "\n")] == ["no rule"]


def test_a_report_does_not_judge_comments(tmp_path: Path) -> None:
    assert found(tmp_path, forward("return x * 2  # exportlint: ignore"), whole_project=False) == []
