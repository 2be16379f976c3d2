"""What may be spent on one file, over all that it holds: bounds of each part alone add up to none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from exportlint.inspecting.description import InspectError

if TYPE_CHECKING:
    from typing import BinaryIO

BYTES = 256 << 20
VALUES = 4_000_000  # each takes some hundred bytes of memory at most
LINE = 1 << 20


@dataclass(slots=True)
class Budget:
    """What is left.

    Attributes:
        bytes: Of members that are read, as long as they are when decompressed.
        values: Of JSON, and steps of pickles.
    """

    bytes: int = BYTES
    values: int = VALUES

    def take_bytes(self, count: int) -> None:
        """Bytes that are read.

        Raises:
            InspectError: When there were too many.
        """
        self.bytes -= count
        if self.bytes < 0:
            raise InspectError(f"what describes the model is longer than {BYTES} bytes; tensors are not counted")

    def take_values(self, count: int) -> None:
        """Values that are made.

        Raises:
            InspectError: When there were too many.
        """
        self.values -= count
        if self.values < 0:
            raise InspectError(f"what describes the model has more than {VALUES} values, which is too much to read")


class Stream:
    """A stream of pickles that takes from a budget what is read."""

    def __init__(self, file: BinaryIO, budget: Budget) -> None:
        self._file, self._budget = file, budget

    def read(self, size: int = -1) -> bytes:
        """Bytes.

        Raises:
            InspectError: When the budget is spent.
        """
        self._budget.take_bytes(max(size, 0))
        return self._file.read(max(size, 0))

    def readline(self, _size: int = -1) -> bytes:
        """A line, or the beginning of a long one."""
        line = self._file.readline(LINE)
        self._budget.take_bytes(len(line))
        return line

    def tell(self) -> int:
        """Where the stream is."""
        return self._file.tell()


class Window:
    """A part of a file as a file of its own, of which nothing large is read at once.

    Args:
        file: The file.
        begin: Where the part begins.
        size: Its length in bytes.
        most: Bytes of one reading.
    """

    def __init__(self, file: BinaryIO, begin: int, size: int, most: int) -> None:
        self._file, self._begin, self.size, self.most = file, begin, size, most
        self._place = 0

    def read(self, size: int = -1) -> bytes:
        """Bytes.

        Raises:
            InspectError: When too many are asked for, whoever announced them.
        """
        left = max(self.size - self._place, 0)
        size = left if size < 0 else min(size, left)
        if size > self.most:
            raise InspectError(f"{size} bytes are to be read at once; at most {self.most} are")
        self._file.seek(self._begin + self._place)
        found = self._file.read(size)
        self._place += len(found)
        return found

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place."""
        place = offset + (0, self._place, self.size)[whence]
        if place < 0:
            raise ValueError(f"negative place {place}")
        self._place = place
        return place

    def tell(self) -> int:
        """The place."""
        return self._place

    def seekable(self) -> bool:
        """It is, as the file is."""
        return True
