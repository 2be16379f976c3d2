"""What a run has found out so far, for a run that goes on where it was stopped."""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import TYPE_CHECKING, Any

import msgspec

from exportlint import locking
from exportlint.findings import SCHEMA_VERSION, CaseResult
from exportlint.text import encodable, map_strings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Line(msgspec.Struct, frozen=True):
    """A case with the label that the run knows it by."""

    label: str
    case: CaseResult


class Unfinished:
    """The results of one run in a file, a line each as soon as they are there.

    A run is known by what it was asked for: targets, options, versions and working directory. The file is locked; a
    second run of the same, at the same time, keeps nothing.

    Args:
        folder: Where such files are kept.
        asked: What the run was asked for; plain values.

    Attributes:
        trouble: Why results are not kept, once that is known.
    """

    def __init__(self, folder: Path, asked: Mapping[str, Any]) -> None:
        parts = msgspec.json.encode([SCHEMA_VERSION, sorted(asked.items())])
        self.trouble: str | None = None
        self._path = folder / f"{hashlib.blake2b(parts, digest_size=16).hexdigest()}.jsonl"
        self._file: int | None = None
        self._keep_to: int | None = None  # how much of the file stays, once something is added to it

    def start(self, *, resume: bool) -> dict[str, CaseResult]:
        """Open the file.

        Args:
            resume: Whether to go on with what an earlier run left; else that goes when the first result comes.

        Returns:
            The results of the earlier run, by label. A line that it could not finish is dropped.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            locking.lock(self._file)
            data = self._path.read_bytes()
        except OSError as error:
            self._give_up(error)
            return {}
        self._keep_to = data.rfind(b"\n") + 1 if resume else 0
        return {line.label: line.case for line in _lines(data)}

    def keep(self, label: str, case: CaseResult) -> None:
        """Add a result; where that fails the run goes on."""
        if self._file is None:
            return
        line = msgspec.json.encode(Line(encodable(label), map_strings(case, encodable))) + b"\n"
        try:
            if self._keep_to is not None:
                os.truncate(self._file, self._keep_to)
                self._keep_to = None
            os.write(self._file, line)
            os.fsync(self._file)
        except OSError as error:
            self._give_up(error)

    def finish(self) -> None:
        """Remove the file: the report is written."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
            self.close()

    def close(self) -> None:
        """Let go of the file, for another run to go on with."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _give_up(self, error: OSError) -> None:
        self.trouble = f"results are not kept for --resume: {self._path}: {error.strerror or error}"
        self.close()


def _lines(data: bytes) -> list[Line]:
    """The whole lines; what is none of ours is left out."""
    found = []
    for line in data.split(b"\n")[:-1]:
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
            found.append(msgspec.json.decode(line, type=Line))
    return found
