"""The lines of source around a finding, read when a report is written."""

from __future__ import annotations

import io
import sysconfig
import textwrap
import tokenize
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from exportlint.text import clip, visible

if TYPE_CHECKING:
    from exportlint.findings import Finding

INSTALLED = "site-packages/"
AROUND = 3  # lines before and after those of the finding
MOST_MARKED = 8  # lines of one finding that are shown
MOST_BYTES = 2 * 2**20  # of a file that is read
WIDTH = 200  # characters of a line that are shown


@dataclass(frozen=True, slots=True)
class ExcerptLine:
    """A line of a file as it is shown; `marked` are those of the finding."""

    number: int
    text: str
    marked: bool


@dataclass(slots=True)
class Sources:
    """Files, each read once.

    A report may be written where its files are not, or no longer what they were: a file is shown only where the line of
    the finding still reads as the finding says. So what a report from elsewhere names is not read out either.
    """

    _read: dict[str, list[str]] = field(default_factory=dict)

    def excerpt(self, finding: Finding) -> tuple[ExcerptLine, ...]:
        """A finding's lines and those around, without common indentation; none where that is not possible."""
        if finding.file is None or finding.line is None or not finding.source:
            return ()
        lines = self._lines(finding.file)
        first = finding.line
        if not 1 <= first <= len(lines) or visible(lines[first - 1]).strip() != visible(finding.source).strip():
            return ()
        last = min(max(finding.end_line or first, first), first + MOST_MARKED - 1, len(lines))
        start = max(1, first - AROUND)
        texts = textwrap.dedent("\n".join(map(visible, lines[start - 1 : last + AROUND]))).split("\n")
        shown = [ExcerptLine(n, clip(text, WIDTH), first <= n <= last) for n, text in enumerate(texts, start)]
        while shown and not shown[0].text:
            del shown[0]
        while shown and not shown[-1].text:
            del shown[-1]
        return tuple(shown)

    def _lines(self, file: str) -> list[str]:
        if file not in self._read:
            self._read[file] = _read(file)
        return self._read[file]


def _installed(file: str) -> Path:
    """The file of this environment, for a report that does not say where its own was."""
    inside = file.removeprefix(INSTALLED)
    found = (Path(sysconfig.get_path(kind), inside) for kind in ("purelib", "platlib"))
    return next((path for path in found if path.is_file()), Path(file))


def _read(file: str) -> list[str]:
    """The lines of a Python file as Python counts them; none where it cannot be read."""
    path = _installed(file) if file.startswith(INSTALLED) else Path(file)
    try:
        if path.suffix != ".py" or not path.is_file() or path.stat().st_size > MOST_BYTES:
            return []
        data = path.read_bytes()
        encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
        text = data.decode(encoding)
    except (OSError, ValueError, SyntaxError, LookupError):
        return []
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
