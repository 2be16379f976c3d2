"""Files with their fixes: each is written whole or not at all, and keeps its encoding, line ends and mode."""

from __future__ import annotations

import errno
import os
import stat
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exportlint import whole_file
from exportlint.fixes.rounds import Fixed, fixed
from exportlint.source.files import content

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from exportlint.fixes.edits import Applicability
    from exportlint.source.engine import Prediction

_LOCKED = "may not be written; make it writable, or leave it out, and fix again"


@dataclass(frozen=True, slots=True)
class FixedFile:
    """A file and what its fixes make of it.

    Attributes:
        path: The file, as it was given or found.
        before: What it holds.
        fixed: What it would hold.
    """

    path: Path
    before: bytes
    fixed: Fixed

    def write(self) -> None:
        """Write the file.

        Raises:
            OSError: When it cannot be written, may not be, or is not any more what it was; it stays as it is then.
        """
        whole_file.write(Path(os.path.realpath(self.path)), self.fixed.data, self.writable())

    def writable(self) -> int:
        """The mode of the file, which may be written.

        Raises:
            OSError: When it may not be, or is not any more what it was.
        """
        mode = stat.S_IMODE(self.path.stat().st_mode)
        if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(errno.EACCES, _LOCKED, str(self.path))
        if content(self.path) != self.before:
            raise OSError(errno.EBUSY, "was changed while it was being fixed; lint it again", str(self.path))
        return mode


def fixed_files(
    found: Iterable[Prediction],
    read: Callable[[Path], bytes],
    lint: Callable[[Path, bytes], Sequence[Prediction]],
    wanted: Collection[Applicability],
) -> Iterator[FixedFile]:
    """The files that fixes change, or into which some cannot be written, one after the other.

    Args:
        found: The findings to mend.
        read: The bytes of a file.
        lint: What is found in a file if it holds these bytes.
        wanted: Which fixes are to be written.
    """
    by_file: dict[Path, list[Prediction]] = defaultdict(list)
    for prediction in found:
        by_file[prediction.path].append(prediction)
    for path, predictions in by_file.items():
        if any(p.fix_among(wanted) for p in predictions):
            before = read(path)
            made = fixed(before, predictions, lambda data, path=path: lint(path, data), wanted)  # type: ignore[misc]
            if made.mended or made.unmended or made.unfit:
                yield FixedFile(path, before, made)
