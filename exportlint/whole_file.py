"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write(place: Path, content: bytes, mode: int | None = None) -> None:
    """Write a file beside its place and move it there, so that a reader never sees half of one.

    Args:
        place: The file.
        content: What it is to hold.
        mode: Who may do what with it, as ``chmod`` takes it; that of any new file where ``None``.

    Raises:
        OSError: When the file cannot be written, with its name; what was there before is left as it was.
    """
    # Not tempfile: its files are readable by their owner only, and so would this one be.
    temporary = place.with_name(f".exportlint-{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(content)
        if mode is not None:
            temporary.chmod(mode)
        temporary.replace(place)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:  # of the temporary file nobody has heard
            raise OSError(error.errno, error.strerror, str(place)) from error
        raise
