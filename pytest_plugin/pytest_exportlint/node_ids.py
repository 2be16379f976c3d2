"""Ids of tests as a person writes them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def plain_id(item: pytest.Item) -> str:
    """The id of an item without what ``--dist loadgroup`` of xdist appends to it."""
    return re.sub(r"@[^@\[\]]*$", "", item.nodeid)
