"""Where the keys of a state dict are not those that a model asks for: what differs, and the renaming that mends it.

Nothing here needs torch: a state dict is known by its keys and the shapes of its tensors.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from exportlint.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

Shapes = Mapping[str, tuple[int, ...]]

WRAPPERS = {
    "module": "`nn.DataParallel` or `DistributedDataParallel`, whose state dict was saved",
    "_orig_mod": "`torch.compile`, whose wrapper's state dict was saved",
}
MOST_RENAMINGS = 8
MOST_PAIRS = 20_000  # of keys that are compared to find a renaming
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Renaming:
    """Segments of a key that stand for others.

    Attributes:
        old: Segments in the file, joined by dots; empty where `new` is put in front.
        new: Segments in the model; empty where `old` is left out.
        front: Whether that holds at the beginning of a key only.
    """

    old: str
    new: str
    front: bool

    def __call__(self, key: str) -> str:
        """The key under its other name; the same key where it has no such segments."""
        if not self.old:
            return f"{self.new}.{key}"
        return re.sub(self._pattern, lambda found: f"{self.new}{found[1]}" if self.new else "", key)

    @property
    def _pattern(self) -> str:
        return f"{'^' if self.front else '(?<![^.])'}{re.escape(self.old)}" + (r"(\.|$)" if self.new else r"\.")

    @property
    def code(self) -> str:
        """An expression of Python for it, of ``key``."""
        if not self.old:
            return f'"{self.new}." + key'
        if self.front and not self.new:
            return f'key.removeprefix("{self.old}.")'
        new = rf'r"{self.new}\1"' if self.new else '""'
        return f're.sub(r"{self._pattern}", {new}, key)'

    @property
    def words(self) -> str:
        """What it does, in words."""
        if not self.old:
            return f"keys of the file lack `{self.new}.`"
        if not self.new:
            made = WRAPPERS.get(self.old)
            where = "begin with" if self.front else "hold"
            return f"keys of the file {where} `{self.old}.`" + (f", which comes from {made}" if made else "")
        return f"`{self.old}` in the file is `{self.new}` in the model"


@dataclass(frozen=True, slots=True)
class Misfit:
    """How the keys of a file do not fit a model.

    Attributes:
        missing: Keys that the model asks for, and the file lacks even when the renamings are done.
        unexpected: Keys of the file that the model does not know even then.
        reshaped: Keys with the shapes in the file and in the model.
        renamings: What mends the others, in order.
        mapping: The key in the model for each key of the file that fits, once they are done.
    """

    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    reshaped: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]
    renamings: tuple[Renaming, ...] = ()
    mapping: Mapping[str, str] = field(default_factory=dict)

    @property
    def mended(self) -> bool:
        """Whether the renamings mend all."""
        return bool(self.renamings) and not (self.missing or self.unexpected or self.reshaped)

    @property
    def words(self) -> str:
        """All of it, in one line."""
        parts = [renaming.words for renaming in self.renamings]
        parts += [f"missing: {_listed(self.missing)}"] if self.missing else []
        parts += [f"unexpected: {_listed(self.unexpected)}"] if self.unexpected else []
        parts += [_reshaped(*found) for found in self.reshaped[:SHOWN]]
        if len(self.reshaped) > SHOWN:
            parts.append(f"{len(self.reshaped) - SHOWN} more of other shapes")
        return "; ".join(parts)

    @property
    def code(self) -> str | None:
        """A line of Python that makes a state dict that fits of ``state``; ``None`` where no renaming was found."""
        if not self.renamings:
            return None
        if len(self.renamings) == 1:
            return f"state = {{{self.renamings[0].code}: value for key, value in state.items()}}"
        return "".join(f"state = {{{step.code}: value for key, value in state.items()}}; " for step in self.renamings)[
            :-2
        ]


def explain(wanted: Shapes, found: Shapes) -> Misfit | None:
    """How the keys of a file do not fit those of a model; ``None`` where they do.

    Args:
        wanted: Keys and shapes that the model asks for.
        found: Those of the file.
    """
    names = {key: key for key in found}
    renamings: list[Renaming] = []
    while len(renamings) < MOST_RENAMINGS:
        step = _best(wanted, {names[key]: shape for key, shape in found.items()})
        if step is None:
            break
        renamings.append(step)
        names = {key: step(name) for key, name in names.items()}
    by_name = {name: key for key, name in names.items()}
    reshaped = tuple(
        (name, tuple(found[key]), tuple(wanted[name]))
        for name, key in by_name.items()
        if name in wanted and tuple(wanted[name]) != tuple(found[key])
    )
    missing = tuple(key for key in wanted if key not in by_name)
    unexpected = tuple(name for name in by_name if name not in wanted)
    if not (missing or unexpected or reshaped or renamings):
        return None
    mapping = {key: name for key, name in names.items() if name in wanted}
    return Misfit(missing, unexpected, reshaped, tuple(renamings), mapping)


def _best(wanted: Shapes, found: Shapes) -> Renaming | None:
    """The renaming after which most keys fit that did not; none where no key would, or one that fits would not."""
    now = _fitting(wanted, found)
    best, most = None, len(now)
    for renaming in _candidates(wanted, found):
        renamed: dict[str, tuple[int, ...]] = {}
        for key, shape in found.items():
            renamed[renaming(key)] = shape
        if len(renamed) < len(found) or any(renaming(key) != key for key in now):
            continue
        number = len(_fitting(wanted, renamed))
        if number > most:
            best, most = renaming, number
    return best


def _fitting(wanted: Shapes, found: Shapes) -> set[str]:
    return {key for key, shape in found.items() if key in wanted and tuple(wanted[key]) == tuple(shape)}


def _candidates(wanted: Shapes, found: Shapes) -> Iterator[Renaming]:
    """Renamings of one key into one that is missing and has its shape, those of most keys first."""
    missing = collections.defaultdict[tuple[int, ...], list[str]](list)
    for key, shape in wanted.items():
        if key not in found:
            missing[tuple(shape)].append(key)
    counts = collections.Counter[Renaming]()
    pairs = ((key, other) for key, shape in found.items() if key not in wanted for other in missing[tuple(shape)])
    for _, (key, other) in zip(range(MOST_PAIRS), pairs, strict=False):
        counts.update(_between(key, other))
    # At one count the shorter: it says more. At the beginning before anywhere: it says less.
    ranked = sorted(counts, key=lambda r: (-counts[r], len(r.old) + len(r.new), not r.front, r.old, r.new))
    yield from ranked[:50]


def _between(key: str, other: str) -> Iterator[Renaming]:
    """What makes the second key of the first: the segments that differ, between a common beginning and a common end.

    Where both ends have the same segments in common, the beginning has them first, then the end.
    """
    a, b = key.split("."), other.split(".")
    least = min(len(a), len(b))
    begin = _alike(a, b, least)
    end = _alike(a[::-1], b[::-1], least)
    for first, last in {(begin, min(end, least - begin)), (min(begin, least - end), end)}:
        old, new = ".".join(a[first : len(a) - last]), ".".join(b[first : len(b) - last])
        if old:
            yield Renaming(old, new, front=False)
        if first == 0:
            yield Renaming(old, new, front=True)


def _alike(a: list[str], b: list[str], most: int) -> int:
    """How many segments the two have in common from their beginning on."""
    return next((i for i in range(most) if a[i] != b[i]), most)


def _listed(keys: tuple[str, ...]) -> str:
    more = len(keys) - SHOWN
    return ", ".join(f"`{key}`" for key in keys[:SHOWN]) + (f" and {counted(more, 'key')} more" if more > 0 else "")


def _reshaped(key: str, there: tuple[int, ...], here: tuple[int, ...]) -> str:
    words = f"`{key}` is {list(there)} in the file and {list(here)} in the model"
    if there[::-1] == here and len(here) == 2:
        return f"{words}: transposed"
    if _number(there) == _number(here):
        return f"{words}: as many elements, to be reshaped"
    return words


def _number(shape: tuple[int, ...]) -> int:
    number = 1
    for size in shape:
        number *= size
    return number
