"""Words that several formats share. Names and lines come from files that nobody vouches for, so none is trusted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from exportlint.findings import SEVERITIES
from exportlint.places import display_path
from exportlint.text import counted, one_line, visible

if TYPE_CHECKING:
    from pathlib import Path

    from exportlint.findings import Severity
    from exportlint.formats import Results
    from exportlint.source.engine import Prediction, Unanalysed

_COLOURS = {"error": "31", "warning": "33", "info": "36", "place": "36", "bold": "1", "quiet": "2", "help": "32"}


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
    """The last line: how many files were checked, what was found in them, what is not shown and what is not known."""
    counts = Counter(p.severity for p in results.shown)
    found = ", ".join(_counted(counts[s], s) for s in SEVERITIES if counts[s])
    more = f" ({results.hidden} info hidden, see --show-info)" if results.hidden else ""
    unknown = f", {len(results.unanalysed)} not analysed" if results.unanalysed else ""
    return f"{counted(results.files, 'file')} checked, {found or 'no findings'}{more}{unknown}"


def _counted(number: int, severity: Severity) -> str:
    return f"{number} info" if severity == "info" else counted(number, severity)


def coloured(text: str, kind: str, results: Results) -> str:
    """The text in the colour of a severity or of a kind of words, where the reader sees colours."""
    return f"\x1b[{_COLOURS[kind]}m{text}\x1b[0m" if results.colour else text
