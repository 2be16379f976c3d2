"""What earlier runs found out, by content: no time stamp is trusted, and nothing is unpickled.

A cache that cannot be read or written, or that another version wrote, is as good as none: no run fails for it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast, get_origin

import msgspec

from exportlint import whole_file
from exportlint._version import __version__
from exportlint.source.files import content, digest_of
from exportlint.source.project import ABSENT, PRESENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FOLDER = ".exportlint_cache"
_OWN = "lint"  # the folder in it; the verdicts of checks lie beside it
_CHECK = 16  # bytes of the checksum that a file begins with

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Contents:
    """The contents of files as they are now, each read once."""

    _digests: dict[str, str] = field(default_factory=dict)

    def read(self, path: str) -> tuple[bytes, str]:
        """The bytes and their digest; no bytes and an empty digest where they cannot be read."""
        try:
            data = content(path)
            self._digests[path] = digest_of(data)
        except (OSError, ValueError):
            data = b""
            self._digests[path] = ""
        return data, self._digests[path]

    def digest(self, path: str) -> str:
        """The digest of a file; with a question mark before its path, whether it is there."""
        if path not in self._digests:
            if path.startswith("?"):
                self._digests[path] = PRESENT if os.path.isfile(path[1:]) else ABSENT  # noqa: PTH113 - asked often
            else:
                self.read(path)
        return self._digests[path]


@dataclass(slots=True, eq=False)
class Cache:
    """Tables in a folder; of none where the folder is ``None``.

    Attributes:
        folder: The folder; it is made when the first table is written.
    """

    folder: Path | None

    def read(self, name: str, kind: type[T]) -> T | None:
        """A table of this kind; ``None`` where there is none that can be read."""
        if self.folder is None:
            return None
        try:
            data = (self.folder / _OWN / f"{name}.msgpack").read_bytes()
            head, payload = data[:_CHECK], data[_CHECK:]
            return msgspec.msgpack.decode(payload, type=kind) if head == _checksum(payload) else None
        except (OSError, msgspec.MsgspecError, ValueError, RecursionError):
            return None

    def write(self, name: str, table: object) -> None:
        """Keep a table."""
        if self.folder is None:
            return
        try:
            payload = msgspec.msgpack.encode(table)
            (self.folder / _OWN).mkdir(parents=True, exist_ok=True)
            ignored = self.folder / ".gitignore"
            if not ignored.exists():
                whole_file.write(ignored, b"*\n")
            whole_file.write(self.folder / _OWN / f"{name}.msgpack", _checksum(payload) + payload)
        except (OSError, ValueError):  # names of files need not be text
            return


@dataclass(slots=True, eq=False)
class Memory(Cache):
    """Tables in the memory of this process, for several runs of it."""

    folder: Path | None = None
    _tables: dict[str, object] = field(default_factory=dict)

    def read(self, name: str, kind: type[T]) -> T | None:
        """A table of this kind; ``None`` where there is none."""
        table = self._tables.get(name)
        return cast("T", table) if table is not None and isinstance(table, get_origin(kind) or kind) else None

    def write(self, name: str, table: object) -> None:
        """Keep a table."""
        self._tables[name] = table


def still_there(table: Mapping[str, T]) -> dict[str, T]:
    """What a table by path holds of files that are not gone."""
    return {path: entry for path, entry in table.items() if os.path.lexists(path)}


def _checksum(payload: bytes) -> bytes:
    """What fits the payload and the code that wrote it."""
    return hashlib.blake2b(payload, digest_size=_CHECK, key=_code()).digest()


@functools.cache
def _code() -> bytes:
    """A digest of the versions, and of the code that findings follow from: a rule that changes empties the cache."""
    made = hashlib.blake2b(f"{__version__} {sys.version}".encode(), digest_size=32)  # Python's trees differ
    for file in _sources(Path(__file__).parent.parent):
        made.update(file.read_bytes())
    return made.digest()


def _sources(package: Path) -> Iterator[Path]:
    yield package / "findings.py"
    for folder in ("source", "rules"):
        yield from sorted((package / folder).rglob("*.py"))
    yield from sorted((package / "torch_facts").glob("*.json"))
