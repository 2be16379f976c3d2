"""The strings that torch's structured log names by number.

torch writes each string to the log once in a process, so the report of a draft export that is not the first to name a
file holds the number alone.
"""

from __future__ import annotations


def strings() -> dict[int, str]:
    """The strings by their number; empty where torch keeps them in another way."""
    try:
        from torch._logging.structured import INTERN_TABLE
    except ImportError:
        return {}
    return {number: text for text, number in INTERN_TABLE.items()}
