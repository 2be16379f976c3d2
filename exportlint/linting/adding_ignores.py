"""Comments written into files that silence what was found there."""

from __future__ import annotations

import ast
import io
import os
import re
import tokenize
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exportlint import whole_file
from exportlint.source.suppress import comments_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from exportlint.source.engine import Prediction

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_NEWLINE = "\n"
_LONGEST = 200  # lines of a statement above which a comment is put
_OWN = re.compile(r"#\s*exportlint:\s*ignore\[([^\]]*)\]")


@dataclass(frozen=True, slots=True)
class Added:
    """What was done.

    Attributes:
        findings: How many findings are silenced.
        files: In how many files.
        left: Those that no comment can silence.
        failed: The files that stay as they were since they cannot be read or written, and why.
    """

    findings: int
    files: int
    left: tuple[Prediction, ...]
    failed: tuple[tuple[Path, str], ...]


def add_ignores(found: Iterable[Prediction]) -> Added:
    """End the lines of these findings with a comment, or put one above where a line cannot end so.

    Files keep their encoding, line ends and mode, and are written whole or not at all. What a comment changes for
    Python, and what it does not silence, is not written. A file that cannot be written stops no other.
    """
    by_file: dict[Path, list[Prediction]] = defaultdict(list)
    for prediction in found:
        by_file[prediction.path].append(prediction)
    left: list[Prediction] = []
    failed: list[tuple[Path, str]] = []
    findings = files = 0
    for path, predictions in by_file.items():
        try:
            missed = _in_file(path, predictions)
        except OSError as error:
            failed.append((path, error.strerror or str(error)))
            continue
        left += missed
        findings += len(predictions) - len(missed)
        files += len(missed) < len(predictions)
    return Added(findings, files, tuple(left), tuple(failed))


def _in_file(path: Path, predictions: list[Prediction]) -> list[Prediction]:
    """Silence the findings of one file; the result are those that could not be."""
    place = Path(os.path.realpath(path))
    try:
        data = place.read_bytes()
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        lines = _LINE.findall(data.decode(encoding, "surrogateescape"))
    except (SyntaxError, LookupError, UnicodeError):
        return predictions
    changed, left = _silenced(lines, predictions)
    if changed != lines:
        content = "".join(changed).encode(encoding, "surrogateescape")
        whole_file.write(place, content, mode=place.stat().st_mode & 0o7777)
    return left


def _silenced(lines: list[str], predictions: list[Prediction]) -> tuple[list[str], list[Prediction]]:
    """The lines with comments, and the findings that none can silence."""
    tree = _dump(lines)
    changed = lines
    for prediction in predictions:
        changed = _replaced(changed, prediction.range.line, prediction.rule.code)
    if tree and _dump(changed) == tree and _are_silenced(changed, predictions):
        return changed, []
    left: list[Prediction] = []
    for prediction in sorted(predictions, key=lambda p: p.range.line, reverse=True):  # lines above keep their numbers
        attempts = _attempts(lines, prediction) if tree else ()
        fits = (new for new, shift in attempts if _dump(new) == tree and _are_silenced(new, [prediction], shift))
        found = next(fits, None)
        if found is None:
            left.append(prediction)
        else:
            lines = found
    return lines, left


def _attempts(lines: list[str], prediction: Prediction) -> Iterator[tuple[list[str], int]]:
    """The lines with a comment for a finding, and how far it moves: behind its first line, its last, or above."""
    first, last, code = prediction.range.line, prediction.range.end_line, prediction.rule.code
    yield _replaced(lines, first, code), 0
    yield _replaced(lines, last, code), 0
    for number in range(min(first, len(lines)), max(first - _LONGEST, 0), -1):
        line = lines[number - 1]
        indentation = line[: len(line) - len(line.lstrip())]
        above = f"{indentation}# exportlint: ignore[{code}]{_end(lines[0]) or _NEWLINE}"
        yield [*lines[: number - 1], above, *lines[number - 1 :]], 1


def _replaced(lines: list[str], number: int, code: str) -> list[str]:
    """The lines with a comment at the end of one of them."""
    if not 0 < number <= len(lines):
        return lines
    line = lines[number - 1]
    end = _end(line)
    text = line[: len(line) - len(end)]
    known = _OWN.search(text)
    if known is not None:
        codes = ", ".join(dict.fromkeys([*filter(None, re.split(r"[,\s]+", known[1])), code]))
        text = f"{text[: known.start()]}# exportlint: ignore[{codes}]{text[known.end() :]}"
    else:
        text = f"{text.rstrip()}  # exportlint: ignore[{code}]"
    return [*lines[: number - 1], text + end, *lines[number:]]


def _end(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


def _dump(lines: list[str]) -> str:
    """What Python makes of the lines, without their numbers; empty where it makes nothing of them."""
    try:
        return ast.dump(ast.parse("".join(lines).encode("utf-8", "surrogateescape").decode("utf-8", "replace")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""


def _are_silenced(lines: list[str], predictions: list[Prediction], shift: int = 0) -> bool:
    """Whether comments silence the findings, moved down by so many lines."""
    there = comments_in(lines)
    return all(
        any(c.silences(p.rule.code, p.rule.name, p.range.line + shift, p.range.end_line + shift) for c in there)
        for p in predictions
    )
