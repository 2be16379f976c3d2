"""Names of devices for the check ``device``: those that exportlint knows, and every type that this torch knows."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from exportlint.findings import DEVICES
from exportlint.text import said

if TYPE_CHECKING:
    from collections.abc import Iterable

NOT_ELSEWHERE = frozenset({"cpu", "privateuseone"})


def select(names: Iterable[str]) -> tuple[str, ...]:
    """The devices of these names: exportlint's own in their order, then others, which alone cost an import of torch.

    Raises:
        ValueError: When a name is that of no device, or there is none.
    """
    wanted = list(dict.fromkeys(names))
    known = f"known: {', '.join(DEVICES)}"
    if not wanted:
        raise ValueError(f"names no device; {known}")
    others = [name for name in wanted if name not in DEVICES]
    for name in others:
        if not _is_type(name):
            raise ValueError(f"{name!r} is no device; {known}{_meant(name)}")
    return (*[name for name in DEVICES if name in wanted], *others)


def _is_type(name: str) -> bool:
    return name.isidentifier() and name in _types()


def _meant(name: str) -> str:
    close = difflib.get_close_matches(name.partition(":")[0], sorted({*DEVICES, *_types()}), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _types() -> set[str]:
    """The types of devices that this torch knows, with a registered backend's; empty where there is no torch."""
    try:
        import torch
    except ImportError:
        return set()
    try:
        torch.device("nosuchdevice")
    except RuntimeError as error:  # it lists them
        listed = re.search(r"[Ee]xpected one of ([\w, ]+?) device type", said(error))
        types = set(re.findall(r"\w+", listed[1])) if listed else set()
    return {*types, torch._C._get_privateuse1_backend_name()} - NOT_ELSEWHERE
