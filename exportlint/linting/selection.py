"""Which rules are on. A selector is a code, the beginning of codes, the name of a rule or of a family, or ``ALL``.

As with Ruff, the more exact selector wins, whatever the order: ``select = ["EXP2"]`` with ``ignore = ["EXP201"]``
leaves out one rule, ``select = ["EXP201"]`` with ``ignore = ["EXP2"]`` keeps it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exportlint.config import UserError
from exportlint.rules import catalogue, families
from exportlint.rules.spelling import nearest, without_commas

if TYPE_CHECKING:
    from collections.abc import Iterable

EVERY = "ALL"
SYNTAX = "EXP001"


class SelectorError(UserError):
    """A selector means nothing."""

    def __init__(self, selector: str, message: str) -> None:
        super().__init__(message)
        self.selector = selector


@dataclass(frozen=True, slots=True)
class Layer:
    """What one place asks for: a configuration file, or the command line.

    Attributes:
        select: The rules that are on; ``None`` leaves on what was on.
        extend_select: Further rules.
        ignore: Rules that are off.
    """

    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


@functools.lru_cache(maxsize=64)
def codes_on(layers: tuple[Layer, ...]) -> frozenset[str]:
    """The codes of the rules that are on; a later layer goes by what the earlier ones left on.

    A file that cannot be read as Python was not checked, so that finding is always selected; it can be ignored.

    Raises:
        SelectorError: When a selector means nothing.
    """
    on = set(catalogue())
    for layer in layers:
        if layer.select is not None:
            on = {SYNTAX}
        steps = [(exactness(s), True, codes(s)) for s in (*(layer.select or ()), *layer.extend_select)]
        steps += [(exactness(s), False, codes(s)) for s in layer.ignore]
        for _, selected, found in sorted(steps, key=lambda step: (step[0], not step[1])):
            on = on | found if selected else on - found
    return frozenset(on)


@functools.lru_cache(maxsize=64)
def codes_named(layers: tuple[Layer, ...]) -> frozenset[str]:
    """The codes of the rules that are selected by their code or name.

    Raises:
        SelectorError: When a selector means nothing.
    """
    asked = (s for layer in layers for s in (*(layer.select or ()), *layer.extend_select))
    return frozenset().union(*(codes(s) for s in asked if exactness(s) == len(SYNTAX)))


def codes(selector: str) -> frozenset[str]:
    """The codes that a selector stands for.

    Raises:
        SelectorError: When it stands for none.
    """
    word = selector.strip()
    if word.upper() == EVERY:
        return frozenset(catalogue())
    if word.lower() in families():
        return frozenset(families()[word.lower()])
    found = [r.code for r in catalogue().values() if r.name == word.lower() or _begins(r.code, word.upper())]
    if not found:
        raise SelectorError(selector, f"{selector!r} is no rule, family of rules or beginning of a code{_hint(word)}")
    return frozenset(found)


def known(selectors: Iterable[str]) -> tuple[str, ...]:
    """The selectors, each of which means something.

    Raises:
        SelectorError: For the first that does not.
    """
    given = tuple(selectors)
    for selector in given:
        codes(selector)
    return given


def exactness(selector: str) -> int:
    """How exact a selector is: a code and a name are the most exact, ``ALL`` the least."""
    word = selector.strip().upper()
    if word == EVERY:
        return 0
    if word.lower() in families():
        return len("EXP0")
    return len(word) if word.startswith("EXP") and word not in _names() else len("EXP000")


def _begins(code: str, word: str) -> bool:
    return word.startswith("EXP") and code.startswith(word)


@functools.cache
def _names() -> frozenset[str]:
    return frozenset(rule.name.upper() for rule in catalogue().values())


def _means_something(selector: str) -> bool:
    word = selector.lower()
    begins = any(_begins(code, selector.upper()) for code in catalogue())
    return begins or word in families() or word.upper() in {EVERY, *_names()}


def _hint(word: str) -> str:
    parted = without_commas(word, _means_something)
    if parted:
        return f"; {parted}"
    near = nearest(word, (EVERY, *families()))
    return f"; did you mean {near!r}?" if near else "; exportlint rules lists them all"
