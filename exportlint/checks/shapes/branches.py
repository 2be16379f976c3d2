"""Which way the branches of the user's source were taken in eager calls."""

from __future__ import annotations

import ast
import functools
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exportlint import places
from exportlint.places import Place

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


@dataclass(frozen=True, slots=True)
class Branch:
    """An ``if`` or ``while`` whose body begins on a line of its own: the lines of its test, and its body's first."""

    test: range
    body: int


@dataclass
class Branches:
    """The branches that calls came to, each with the ways that were taken.

    Attributes:
        taken: By the line of the branch: ``True`` where its body was entered, ``False`` where it was not.
    """

    taken: dict[Place, set[bool]] = field(default_factory=dict)

    def watch(self, function: Callable[[], Any]) -> None:
        """Call a function and note which way each branch goes; what it raises is ignored."""
        previous = sys.gettrace()
        sys.settrace(self._on_call)
        try:
            function()
        except Exception:
            return
        finally:
            sys.settrace(previous)

    def one_way(self) -> list[tuple[Place, bool]]:
        """The branches that were taken one way only, with that way."""
        return [(place, next(iter(ways))) for place, ways in sorted(self.taken.items()) if len(ways) == 1]

    def _on_call(self, frame: FrameType, event: str, _: Any) -> Any:
        file = frame.f_code.co_filename
        inner = frame.f_code.co_name.startswith("<")  # a comprehension or lambda, which may be part of a test
        if event != "call" or inner or not places.is_users(file) or _installed(file):
            return None
        by_line = _branches(file)
        if not by_line:
            return None
        waiting: list[Branch] = []  # the branch whose test is being evaluated

        def on_line(frame: FrameType, event: str, _: Any) -> Any:
            if event == "line":
                line = frame.f_lineno
                if waiting and line not in waiting[-1].test:
                    branch = waiting.pop()
                    self.taken.setdefault(Place(file, branch.test.start), set()).add(line == branch.body)
                if (found := by_line.get(line)) is not None and not (waiting and waiting[-1] is found):
                    waiting.append(found)
            elif event == "exception":
                waiting.clear()
            elif event == "return" and waiting:
                branch = waiting.pop()
                self.taken.setdefault(Place(file, branch.test.start), set()).add(False)
            return on_line

        return on_line


@functools.lru_cache(maxsize=4096)
def _installed(file: str) -> bool:
    """Whether the file is a library's, whose branches are its own business."""
    return "site-packages" in file or "dist-packages" in file


@functools.lru_cache(maxsize=64)
def _branches(file: str) -> dict[int, Branch]:
    """The branches of a file, by each line of their tests."""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[int, Branch] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.While)):
            test = range(node.lineno, (node.test.end_lineno or node.lineno) + 1)
            if node.body[0].lineno not in test:
                found.update(dict.fromkeys(test, Branch(test, node.body[0].lineno)))
    return found
