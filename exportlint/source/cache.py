"""What earlier runs found out, by content: no time stamp is trusted, and nothing is unpickled.

A cache that cannot be read or written, or that another version wrote, is as good as none: no run fails for it.
"""

from __future__ import annotations

import functools
import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from exportlint import whole_file
from exportlint._version import __version__
from exportlint.source.files import content, digest_of
from exportlint.source.project import ABSENT, PRESENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from exportlint.source.project import Reads

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

    def are(self, reads: Reads) -> bool:
        """Whether all that was read is what it was."""
        return all(self.digest(path) == digest for path, digest in reads.items())


@dataclass(slots=True, eq=False)
class Cache:
    """Tables in a folder; of none where the folder is ``None``.

    Attributes:
        folder: The folder; it is made when the first table is written.
    """

    folder: Path | None

    def read(self, name: str, kind: type[T]) -> dict[str, T]:
        """A table by path; empty where there is none that can be read."""
        if self.folder is None:
            return {}
        try:
            data = (self.folder / _OWN / f"{name}.msgpack").read_bytes()
            head, payload = data[:_CHECK], data[_CHECK:]
            if head != _checksum(payload):
                return {}
            return msgspec.msgpack.decode(payload, type=dict[str, kind])  # type: ignore[valid-type]
        except (OSError, msgspec.MsgspecError, ValueError, RecursionError):
            return {}

    def write(self, name: str, table: Mapping[str, object]) -> None:
        """Keep a table, without what is known of files that are gone."""
        if self.folder is None:
            return
        there = {path: entry for path, entry in table.items() if os.path.lexists(path)}
        payload = msgspec.msgpack.encode(there)
        try:
            (self.folder / _OWN).mkdir(parents=True, exist_ok=True)
            ignored = self.folder / ".gitignore"
            if not ignored.exists():
                whole_file.write(ignored, b"*\n")
            whole_file.write(self.folder / _OWN / f"{name}.msgpack", _checksum(payload) + payload)
        except OSError:
            return


def _checksum(payload: bytes) -> bytes:
    """What fits the payload and the code that wrote it."""
    return hashlib.blake2b(payload, digest_size=_CHECK, key=_code()).digest()


@functools.cache
def _code() -> bytes:
    """A digest of the version, and of the code that findings follow from: a rule that changes empties the cache."""
    made = hashlib.blake2b(__version__.encode(), digest_size=32)
    for file in _sources(Path(__file__).parent.parent):
        made.update(file.read_bytes())
    return made.digest()


def _sources(package: Path) -> Iterator[Path]:
    yield package / "findings.py"
    for folder in ("source", "rules"):
        yield from sorted((package / folder).rglob("*.py"))
    yield from sorted((package / "torch_facts").glob("*.json"))
