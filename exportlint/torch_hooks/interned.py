"""The strings that torch's structured log names by number.

torch writes each string to the log once in a process, so the report of a draft export that is not the first to name a
file holds the number alone.
"""

from __future__ import annotations


def strings() -> dict[int, str]:
    """The strings by their number; empty where torch keeps them in another way."""
    if why_not() is not None:
        return {}
    from torch._logging.structured import INTERN_TABLE

    return {number: text for text, number in INTERN_TABLE.items()}


def why_not() -> str | None:
    """Why the strings cannot be known with this torch, or ``None``; a string is given a number to see."""
    import torch

    try:
        from torch._logging.structured import INTERN_TABLE, intern_string

        number = intern_string(__name__)
        if INTERN_TABLE[__name__] == number:
            return None
    except (ImportError, AttributeError, TypeError, KeyError):
        pass
    return f"torch {torch.__version__} numbers the strings of its log in another way than exportlint knows"
