"""The folder ``docs/rules`` is what the catalogue says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from exportlint.rules import catalogue
from exportlint.rules.pages import INDEX, files, main

FOLDER = Path(__file__).parents[2] / "docs" / "rules"


def test_the_pages_are_current() -> None:
    written = {file.name: file.read_text(encoding="utf-8") for file in FOLDER.iterdir()}
    assert written == files(), "python -m exportlint.rules.pages docs/rules"


def test_the_list_links_every_rule_once(tmp_path: Path) -> None:
    main([str(tmp_path)])
    links = re.findall(r"\]\((\w+\.md)\)", (tmp_path / INDEX).read_text())
    assert sorted(links) == [f"{code}.md" for code in catalogue()]
    assert all((tmp_path / link).is_file() for link in links)


def test_pages_of_rules_that_are_gone_are_removed_and_other_files_stay(tmp_path: Path) -> None:
    (tmp_path / "EXP999.md").write_text("old")
    (tmp_path / "notes.md").write_text("mine")
    main([str(tmp_path)])
    assert not (tmp_path / "EXP999.md").exists()
    assert (tmp_path / "notes.md").read_text() == "mine"


@pytest.mark.parametrize("name", list(files()))
def test_tables_have_as_many_cells_in_each_row(name: str) -> None:
    text = re.sub(r"```.*?```", "", files()[name], flags=re.DOTALL)
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({re.sub(r"`[^`]*`", "", row).count("|") for row in table.splitlines()}) == 1, table
