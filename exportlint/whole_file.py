"""Files that are written whole or not at all."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write(place: Path, content: bytes) -> None:
    """Write a file beside its place and move it there, so that a reader never sees half of one.

    Raises:
        OSError: When the file cannot be written; what was there before is left as it was.
    """
    # Not tempfile: its files are readable by their owner only, and so would this one be.
    temporary = place.with_name(f".exportlint-{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(content)
        temporary.replace(place)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
