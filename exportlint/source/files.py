"""A source file as text: its encoding, its lines, and the positions in them."""

from __future__ import annotations

import ast
import errno
import hashlib
import io
import os
import re
import stat
import tokenize
import warnings
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

TOO_DEEP = "its code is nested too deeply"
LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


class UnreadableError(Exception):
    """A file that cannot be read as Python source; `line` and `column` count from 1, `digest` is that of its bytes."""

    def __init__(self, message: str, line: int = 1, column: int = 1, digest: str = "") -> None:
        super().__init__(message)
        self.line = line
        self.column = column
        self.digest = digest


class InaccessibleError(UnreadableError):
    """A file that cannot be opened or read; nothing is known of what it holds."""


class TooDeepError(UnreadableError):
    """A file that is nested too deeply for the parser here; another Python may well import it."""


@dataclass(slots=True, eq=False)
class SourceFile:
    """The text of a file without its byte order mark, line ends as they stand.

    Attributes:
        path: As it was given.
        digest: Digest of the bytes that were read.
        length: How many lines there are.
    """

    path: Path
    digest: str
    _text: str | None = field(repr=False)
    length: int = field(init=False)
    _packed: bytes | None = field(default=None, repr=False)
    _lines: tuple[str, ...] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Count the lines."""
        self.length = len(self.lines)

    @property
    def text(self) -> str:
        """The decoded text."""
        if self._text is None:
            self._text = zlib.decompress(self._packed or b"").decode("utf-8", "surrogatepass")
        return self._text

    @property
    def lines(self) -> tuple[str, ...]:
        """Its lines with their ends, split as Python's tokenizer splits them (a form feed ends no line)."""
        if self._lines is None:
            self._lines = tuple(LINE.findall(self.text))
        return self._lines

    def let_go(self) -> None:
        """Pack the text until it is asked for again: one sign that is not Latin makes it four times as large."""
        if self._packed is None:
            self._packed = zlib.compress(self.text.encode("utf-8", "surrogatepass"), 1)
        self._text = self._lines = None

    def line(self, number: int) -> str:
        """A line without its end, counted from 1; empty outside of the file."""
        return self.lines[number - 1].rstrip("\r\n") if 0 < number <= self.length else ""


def read(path: Path) -> SourceFile:
    """The file, decoded as Python would.

    Raises:
        UnreadableError: When it cannot be opened or decoded.
    """
    try:
        data = content(path)
    except (OSError, ValueError) as error:
        raise InaccessibleError(str(getattr(error, "strerror", None) or error)) from error
    return holding(path, data)


def holding(path: Path, data: bytes) -> SourceFile:
    """A file that holds these bytes.

    Raises:
        UnreadableError: When they cannot be decoded.
    """
    return SourceFile(path, digest_of(data), decoded(data))


def content(path: str | Path) -> bytes:
    """The bytes of a regular file: what reads a pipe or a device may wait for ever.

    Raises:
        OSError: When it cannot be read, or is something else.
        ValueError: When its name cannot be one of a file.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - asked of every file of a project
        raise OSError(errno.EINVAL, "not a regular file")
    with open(path, "rb") as stream:  # noqa: PTH123
        return stream.read()


def decoded(data: bytes) -> str:
    """The text of a file, without its byte order mark.

    Raises:
        UnreadableError: When it cannot be decoded as Python would.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding).removeprefix("\ufeff")
    except (SyntaxError, ValueError, LookupError) as error:  # codecs raise UnicodeError, a ValueError
        if _is_imported(data):
            return data.decode("utf-8", "replace").removeprefix("\ufeff")
        raise UnreadableError(str(getattr(error, "msg", None) or error), digest=digest_of(data)) from error


def _is_imported(data: bytes) -> bool:
    """Whether Python imports a file that holds bytes which are no UTF-8: it looks into no comment."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def digest_of(data: bytes) -> str:
    """What differs for different contents."""
    return hashlib.blake2b(data, digest_size=12).hexdigest()
