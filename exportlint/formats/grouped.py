"""Findings under the name of their file."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from exportlint.formats.wording import closing, coloured, file_of, plain, rule_of

if TYPE_CHECKING:
    from exportlint.formats import Results


def render(results: Results) -> str:
    """Each file with its findings, one a line, then how much was found."""
    blocks: list[str] = []
    for name, group in groupby(results.shown, key=file_of):
        found = list(group)
        places = [f"{p.range.line}:{p.range.column}" for p in found]
        wide, widest = max(map(len, places)), max(len(p.severity) for p in found)
        lines = [
            f"  {where:<{wide}}  {coloured(f'{p.severity:<{widest}}', p.severity, results)}  "
            f"{rule_of(p, results)}: {plain(p.message)}"
            for where, p in zip(places, found, strict=True)
        ]
        blocks.append("\n".join([coloured(f"{name}:", "bold", results), *lines, ""]))
    return "\n".join([*blocks, closing(results)]) + "\n"
