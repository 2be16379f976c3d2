"""The format of pylint and of Ruff's ``pylint``, which editors and CI servers parse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.formats.wording import file_of, plain

if TYPE_CHECKING:
    from exportlint.formats import Results


def render(results: Results) -> str:
    """``file:line: [code] message``."""
    return "".join(f"{file_of(p)}:{p.range.line}: [{p.rule.code}] {plain(p.message)}\n" for p in results.shown)
