"""What a misspelt word was likely meant to be."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING

from exportlint.rules import catalogue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_CLOSE_CODE = 0.8  # one character of a code is wrong, missing or too much
_CLOSE_WORD = 0.5
_LIKE_DIGITS = str.maketrans("ilo", "110")


def nearest(word: str, further: Iterable[str] = ()) -> str | None:
    """The code or the name of a rule, or the further word, that was likely meant; ``None`` where none is near.

    The beginning of several codes is near to none of them.
    """
    import difflib  # only where a word is misspelt

    wanted = word.strip().lower()
    if wanted.startswith("exp"):
        wanted = wanted.translate(_LIKE_DIGITS)
    codes = {code.lower(): code for code in catalogue()}
    if wanted in codes:
        return codes[wanted]
    if any(code.startswith(wanted) for code in codes):
        return None
    near = difflib.get_close_matches(wanted, codes, len(codes), _CLOSE_CODE)
    if near or wanted.startswith("exp"):  # of those, one that begins alike; `max` keeps the order of nearness
        return codes[max(near, key=lambda code: _begins_alike(code, wanted))] if near else None
    words = {each.lower(): each for each in (*(rule.name for rule in catalogue().values()), *further)}
    near = difflib.get_close_matches(wanted, words, 1, _CLOSE_WORD)
    return words[near[0]] if near else None


def _begins_alike(one: str, other: str) -> int:
    """How many characters the beginnings have in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def without_commas(word: str, is_known: Callable[[str], bool]) -> str | None:
    """That a comma is missing, where a word is several that are known; else ``None``."""
    parts = [part for part in re.split(r"[^\w-]+", word) if part]
    if len(parts) < 2 or not all(map(is_known, parts)):
        return None
    return f"put a comma between {', '.join(parts[:-1])} and {parts[-1]}"
