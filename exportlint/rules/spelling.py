"""What a misspelt word was likely meant to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.rules import catalogue

if TYPE_CHECKING:
    from collections.abc import Iterable

_CLOSE_CODE = 0.8  # one character of a code is wrong, missing or too much
_CLOSE_WORD = 0.5


def nearest(word: str, further: Iterable[str] = ()) -> str | None:
    """The code or the name of a rule, or the further word, that was likely meant; ``None`` where none is near.

    The beginning of several codes is near to none of them.
    """
    import difflib  # only where a word is misspelt

    wanted = word.strip().lower()
    codes = {code.lower(): code for code in catalogue()}
    if any(code.startswith(wanted) for code in codes):
        return None
    near = difflib.get_close_matches(wanted, codes, 1, _CLOSE_CODE)
    if near or wanted.startswith("exp"):
        return codes[near[0]] if near else None
    words = {each.lower(): each for each in (*(rule.name for rule in catalogue().values()), *further)}
    near = difflib.get_close_matches(wanted, words, 1, _CLOSE_WORD)
    return words[near[0]] if near else None
