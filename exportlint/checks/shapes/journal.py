"""The drawn call that is running, in a file that outlives the process."""

from __future__ import annotations

import os
from collections.abc import Mapping  # noqa: TC003 - msgspec reads the annotations
from dataclasses import dataclass
from pathlib import Path

import msgspec

from exportlint.shapes.contents import Recipe  # noqa: TC001

NAME = "drawn-call"


@dataclass(frozen=True, slots=True)
class Entry:
    """A call that was running.

    Attributes:
        who: What ran it, such as ``program``.
        words: The call in words.
        code: The call as code; empty where it cannot be written down.
        recipes: How its tensors are made, by index of the leaf; empty where it was not drawn.
    """

    who: str
    words: str
    code: str
    recipes: Mapping[int, Recipe]


class Journal:
    """Keeps the last call; without a file nothing is kept."""

    def __init__(self, file: Path | None = None) -> None:
        self._descriptor = None if file is None else os.open(file, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)

    def write(self, entry: Entry) -> None:
        """Note that this call is about to be run."""
        if self._descriptor is not None:
            line = msgspec.json.encode(entry)
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, line, 0)

    def forget(self) -> None:
        """Note that no call is running any more."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)


def read(folder: str) -> Entry | None:
    """The call that was running when the process ended; ``None`` where there was none."""
    try:
        return msgspec.json.decode((Path(folder) / NAME).read_bytes(), type=Entry)
    except (OSError, msgspec.MsgspecError):
        return None
