"""Walking libcst trees by direct access to their fields.

libcst's own ``children`` runs its visitor machinery over whitespace and punctuation; this looks at the fields that
hold expressions and statements alone.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from collections.abc import Iterator

_PUNCTUATION = ("whitespace", "leading_lines", "lines_after", "header", "footer", "lpar", "rpar", "comma", "semicolon")


@functools.cache
def _fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    """Names of the fields of a node class that may hold expressions or statements."""
    names = (f.name for f in dataclasses.fields(kind) if not f.name.startswith("_"))
    return tuple(n for n in names if not any(word in n for word in _PUNCTUATION))


def children(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The nodes directly below a node, without whitespace and punctuation."""
    for name in _fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, cst.CSTNode):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from (item for item in value if isinstance(item, cst.CSTNode))
