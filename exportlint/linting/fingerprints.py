"""Marks by which a finding is known again after lines were added or removed above it."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exportlint.linting.excerpts import Excerpts
    from exportlint.source.engine import Prediction


def fingerprints(found: Iterable[Prediction], excerpts: Excerpts) -> list[str]:
    """A mark for each finding, of 32 hexadecimal digits, the same on every machine.

    It is made of the file's path as reports write it, the code, the text of the line without its blanks, and which one
    of several such findings in that file it is.
    """
    seen: Counter[tuple[str, str, str]] = Counter()
    marks: list[str] = []
    for prediction in found:
        key = identity(prediction, excerpts)
        marks.append(
            hashlib.sha256("\0".join((*key, str(seen[key]))).encode("utf-8", "surrogatepass")).hexdigest()[:32]
        )
        seen[key] += 1
    return marks


def identity(prediction: Prediction, excerpts: Excerpts, root: Path | None = None) -> tuple[str, str, str]:
    """The file's path, the code, and the text of the line with single blanks.

    Args:
        prediction: The finding.
        excerpts: The lines of the files.
        root: The folder that the path is relative to; the working directory where ``None``.
    """
    from exportlint.places import display_path

    text = " ".join(excerpts.line(prediction.path, prediction.range.line).split())
    file = display_path(str(prediction.path)) if root is None else relative(prediction.path, root)
    return file, prediction.rule.code, text


def relative(path: Path, root: Path) -> str:
    """The path from a folder, with forward slashes, also where it leads out of it."""
    return Path(os.path.relpath(os.path.realpath(path), os.path.realpath(root))).as_posix()
