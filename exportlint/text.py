"""Making strings from models safe to print: no control characters, no lone surrogates, no endless lines."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")
SLACK = 80  # characters beyond a limit that are not worth a cut
UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")

# Control characters but tab and newline, marks that reorder text, line separators, lone surrogates, non-characters.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufffe\uffff\ud800-\udfff]"
)


def map_strings(value: T, change: Callable[[str], str]) -> T:
    """A copy of a tree of dataclasses and tuples with every string changed; numbers that are not finite become 0."""
    if isinstance(value, str):
        return cast("T", change(value))
    if isinstance(value, float):
        return cast("T", value if math.isfinite(value) else 0.0)
    if isinstance(value, tuple):
        return cast("T", tuple(map_strings(item, change) for item in value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = (field.name for field in dataclasses.fields(value))
        return dataclasses.replace(value, **{name: map_strings(getattr(value, name), change) for name in names})
    return value


def encodable(text: str) -> str:
    """The text with lone surrogates written as escapes, so that it can be encoded."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def visible(text: str) -> str:
    """The text with everything that a reader cannot see, or that moves other text about, written as escapes."""
    text = text.replace("\r\n", "\n").expandtabs(4)
    return _INVISIBLE.sub(lambda match: ascii(match[0])[1:-1], text)


def one_line(text: str, limit: int = 2000) -> str:
    """The text on one line, shortened where it is longer than `limit` characters."""
    return clip(" ".join(text[: 4 * limit].split()), limit)


def clip(text: str, limit: int) -> str:
    """The text, shortened with a word about what was left out where it is longer than `limit` characters.

    A little more is kept whole: a cut in the last word saves no room.
    """
    if len(text) <= limit + min(SLACK, limit // 4):
        return text
    return f"{text[:limit]}... ({counted(len(text) - limit, 'more character')})"


OWN_FAULT = "exportlint itself failed"


def own_fault(error: Exception) -> str:
    """What is said of a failure that is exportlint's own, in one line."""
    return f"{OWN_FAULT}: {type(error).__name__}: {said(error)}".splitlines()[0]


def said(error: BaseException) -> str:
    """The message of an exception; empty where it cannot be made, as of a class of the model's own."""
    try:
        return str(error)
    except Exception:
        return ""


def counted(number: int, noun: str) -> str:
    """``1 case``, ``2 cases``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """``0.4 s``, ``52 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def size(number: int) -> str:
    """Bytes in the unit that keeps them readable."""
    value, unit = float(number), 0
    while value >= 1024 and unit < len(UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{number} bytes" if unit == 0 else f"{value:.1f} {UNITS[unit]}"


def listed(words: Sequence[str], most: int) -> str:
    """``a, b``, or ``a, b and 3 more`` where there are more than `most`."""
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def package(path: str) -> str | None:
    """The installed package that a file belongs to; ``None`` for one of the project."""
    found = re.search(r"(?:^|/)(?:site|dist)-packages/([^/]+)", path)
    return found[1].removesuffix(".py") if found else None


def short_path(path: str) -> str:
    """The path from its package on, where it lies in an installed library."""
    return re.sub(r".*/(?:site|dist)-packages/", "", path)
