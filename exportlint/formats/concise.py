"""One line a finding, as compilers print them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.formats.wording import closing, coloured, place, plain, rule_of

if TYPE_CHECKING:
    from exportlint.formats import Results
    from exportlint.source.engine import Prediction


def render(results: Results) -> str:
    """``file:line:column: severity: code name: message``, then how much was found."""
    return "".join(f"{line}\n" for line in (*(_line(p, results) for p in results.shown), closing(results)))


def _line(p: Prediction, results: Results) -> str:
    kind = coloured(p.severity, p.severity, results)
    return f"{place(p)}: {kind}: {rule_of(p, results, 'bold')}: {plain(p.message)}"
