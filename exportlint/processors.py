"""How many processors there are to work with."""

from __future__ import annotations

import os


def processors() -> int:
    """How many processors this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not every system knows
        return os.cpu_count() or 1
