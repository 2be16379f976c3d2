"""Words that several formats share. Names and lines come from files that nobody vouches for, so none is trusted."""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING

from exportlint.findings import SEVERITIES
from exportlint.places import display_path
from exportlint.text import counted, one_line, visible

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from exportlint.findings import Severity
    from exportlint.fixes.edits import Applicability
    from exportlint.formats import Results
    from exportlint.source.engine import Prediction, Unanalysed

_COLOURS = {"error": "31", "warning": "33", "info": "36", "place": "36", "bold": "1", "quiet": "2", "help": "32"}

MARKS: Mapping[Applicability, str] = MappingProxyType({"safe": "[*]", "unsafe": "[!]"})
"""What stands beside a finding that can be fixed, by how safe its fix is."""


def path_of(prediction: Prediction) -> str:
    """The path as reports write it: relative to the working directory where it lies inside, with forward slashes."""
    return display_path(str(prediction.path))


def file_of(prediction: Prediction) -> str:
    """The same in one line, for readers."""
    return shown_path(prediction.path)


def shown_path(path: Path) -> str:
    """The path of any file in one line, for readers."""
    return visible(display_path(str(path))).replace("\n", r"\n")


def place(prediction: Prediction) -> str:
    """``file:line:column``, counted from 1."""
    return f"{file_of(prediction)}:{prediction.range.line}:{prediction.range.column}"


def plain(text: str) -> str:
    """The text on one line, without anything that a reader cannot see or that moves other text about."""
    return visible(one_line(text))


def words(prediction: Prediction) -> str:
    """What happens, and what to write instead, in one line."""
    message, rewrite = plain(prediction.message), plain(prediction.rewrite)
    return f"{message}{'' if message.endswith('.') else '.'} {rewrite}".strip()


def as_line(left_out: Unanalysed) -> str:
    """What could not be analysed, and why, in one line."""
    return visible(f"{display_path(str(left_out.path))}: {left_out.words}").replace("\n", r"\n")


def closing(results: Results) -> str:
    """The last lines: how many files, what was found, what is not shown or not known, and what can be fixed."""
    counts = Counter(p.severity for p in results.shown)
    found = ", ".join(_counted(counts[s], s) for s in SEVERITIES if counts[s])
    more = f" ({results.hidden} info hidden, see --show-info)" if results.hidden else ""
    unknown = f", {sum(max(each.files, 1) for each in results.unanalysed)} not analysed" if results.unanalysed else ""
    total = f"{counted(results.files, 'file')} checked, {found or 'no findings'}{more}{unknown}"
    return "\n".join([total, *_fixable(results)])


def _fixable(results: Results) -> list[str]:
    """A line that says with which options how many findings can be fixed; none where none can be."""
    counts = Counter(_offer(p, results) for p in results.shown)
    safe = f"{MARKS['safe']} {counts['safe']} fixable with --fix" if counts["safe"] else ""
    more = f"{MARKS['unsafe']} {counts['unsafe']} {'more' if safe else 'fixable'} with --fix --unsafe-fixes"
    if not counts["unsafe"]:
        return [safe] if safe else []
    return [f"{safe} ({more})" if safe else more]


def _offer(prediction: Prediction, results: Results) -> Applicability | None:
    """Whether a further run would write a fix, which it does only where it fits the code, and how safe that is."""
    fix = prediction.fix_among(results.offered)
    if fix is None or not results.fixes.fit(prediction.path, results.excerpts.source(prediction.path), fix):
        return None
    return fix.applicability


def rule_of(prediction: Prediction, results: Results, kind: str = "") -> str:
    """Code and name of the rule, with a mark between them where the finding can be fixed; a kind colours the code."""
    offer, code = _offer(prediction, results), prediction.rule.code
    mark = "" if offer is None else f" {coloured(MARKS[offer], 'help', results)}"
    return f"{coloured(code, kind, results) if kind else code}{mark} {prediction.rule.name}"


def _counted(number: int, severity: Severity) -> str:
    return f"{number} info" if severity == "info" else counted(number, severity)


def coloured(text: str, kind: str, results: Results) -> str:
    """The text in the colour of a severity or of a kind of words, where the reader sees colours."""
    return f"\x1b[{_COLOURS[kind]}m{text}\x1b[0m" if results.colour else text
