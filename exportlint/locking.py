"""Files that one run at a time writes to."""

from __future__ import annotations


def lock(file: int) -> None:
    """Keep other runs out of an open file until it is closed.

    Args:
        file: Its descriptor.

    Raises:
        OSError: When another run has it.
    """
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise OSError(error.errno, "another run of the same is writing it") from error
