"""Programs that are saved and loaded once more, without what leaves no trace in the file or in the program.

torch makes the canonical form of each program that it saves, of a copy of everything, and throws it away: whether there
is one is told by the first file. It asks for the annotations of its schema's classes anew at each node that it loads.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import textwrap
import typing
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def quick() -> Iterator[None]:
    """Within it, `torch.export.save` and ``load`` do the same in less time; as ever, where this torch differs.

    Not where somebody is told what torch says of the file, which may be that there is no canonical form, nor where the
    time is told.
    """
    if why_not() is not None:
        yield
        return
    from torch._export.serde import serialize

    names: Any = vars(serialize)
    before = {"canonicalize": names["canonicalize"], "typing": names["typing"]}
    names.update(canonicalize=lambda program, *_: program, typing=_typing())
    try:
        yield
    finally:
        names.update(before)


@functools.cache
def why_not() -> str | None:
    """Why nothing can be left out with this torch, or ``None``: the canonical form must be of no use to it."""
    import torch

    try:
        from torch._export.serde import serialize

        inner, outer = serialize.ExportedProgramSerializer.serialize, serialize.serialize
        asked = (_calls(inner, "canonicalize"), _calls(outer, "canonicalize"))
        if asked == (["Expr"], []) and vars(serialize)["typing"] is typing:
            return None
    except (ImportError, AttributeError, KeyError, OSError, TypeError):
        pass
    return f"torch {torch.__version__} saves programs in another way than exportlint knows"


def _calls(function: Any, name: str) -> list[str]:
    """What is done with the results of a function that another one calls: the kinds of the nodes around the calls."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return [
        type(node).__name__
        for node in ast.walk(tree)
        for child in ast.iter_child_nodes(node)
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id == name
    ]


def _typing() -> ModuleType:
    """The module `typing`, with annotations that are looked up once: torch asks for all of them in the same way."""
    known: dict[Any, dict[str, Any]] = {}

    def get_type_hints(cls: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        if cls not in known:
            known[cls] = typing.get_type_hints(cls, *args, **kwargs)
        return known[cls]

    made = ModuleType("typing")
    vars(made).update(vars(typing), get_type_hints=get_type_hints)
    return made
