"""Ids of tests as a person writes them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def heading(name: str) -> str:
    """What a test is called above its failure: its name, unless ``-v`` would write ``::`` for a dot in it."""
    case, bracket, check = name.rpartition("[")
    return f"{check.removesuffix(']')} of {case}" if bracket and "." in case.partition("[")[0] else name


def plain_id(item: pytest.Item) -> str:
    """The id of an item without what ``--dist loadgroup`` of xdist appends to it."""
    return re.sub(r"@[^@\[\]]*$", "", item.nodeid)
