"""One result model, one writer per format.

>>> from exportlint.report import FORMATS
>>> sorted(FORMATS)
['.html', '.json', '.md', '.sarif', '.xml']
"""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from exportlint import whole_file
from exportlint.report import html_file, json_file, junit_file, markdown, sarif_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from exportlint.findings import Readiness

__all__ = ["FORMATS", "read", "write"]

FORMATS: Mapping[str, Callable[[Readiness], str]] = MappingProxyType(
    {
        ".html": html_file.render,
        ".json": json_file.render,
        ".md": markdown.render,
        ".sarif": sarif_file.render,
        ".xml": junit_file.render,
    }
)

MOST_BYTES = 2**30  # of a compressed file


def write(readiness: Readiness, path: Path) -> None:
    """Write a run to a file, in the format that its suffix names.

    The file is written beside its place and then moved there, so that a reader never sees half of one.

    Raises:
        ValueError: When the suffix is none of `FORMATS`.
        OSError: When the file cannot be written; what was there before is left as it was.
    """
    content = _writer(path)(readiness).encode("utf-8")
    place = Path(os.path.realpath(path))
    if not place.parent.is_dir():
        raise FileNotFoundError(f"{path}: the folder {place.parent} does not exist")
    if place.is_dir():
        raise IsADirectoryError(f"{path}: is a folder")
    if place.exists() and not place.is_file():  # the move would put the report in the place of a device or a pipe
        raise OSError(f"{path}: is no regular file")
    whole_file.write(place, content)


def read(path: Path) -> Readiness:
    """Read a run from a JSON file that `write` made; it may be compressed by gzip (``.json.gz``).

    Raises:
        ValueError: When the file holds no run of this schema version; the message has one line.
        OSError: When the file cannot be read.
    """
    try:
        return json_file.parse(_unpacked(path))
    except (ValueError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: {error}") from None


def _unpacked(path: Path) -> bytes:
    """What a file holds.

    Raises:
        OSError: When it cannot be read, or is not compressed as its suffix says.
        ValueError: When it is too large.
    """
    if path.suffix.lower() != ".gz":
        return path.read_bytes()
    with gzip.open(path) as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"holds more than {MOST_BYTES // 2**20} MiB")
    return data


def _writer(path: Path) -> Callable[[Readiness], str]:
    try:
        return FORMATS[path.suffix.lower()]
    except KeyError:
        raise ValueError(
            f"{path}: the format is told by the suffix, which must be one of {', '.join(FORMATS)}"
        ) from None
