"""Where two eager calls part: the last line that both executed before they went different ways.

A program that is right for its example and wrong for another call has usually frozen a decision. The line that decides
is found by tracing the lines of the user's code in both calls.
"""

from __future__ import annotations

import ast
import functools
import sys
from typing import TYPE_CHECKING, Any

from exportlint import places
from exportlint.places import Place, body_of, parsed

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

MAX_LINES = 1_000_000


def lines_of(function: Callable[[], Any]) -> list[tuple[str, int]]:
    """The lines of the user's code that the call executes, in order; what it raises is ignored."""
    lines: list[tuple[str, int]] = []

    def trace_lines(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line" and len(lines) < MAX_LINES:
            lines.append((frame.f_code.co_filename, frame.f_lineno))
        return trace_lines

    def trace_calls(frame: FrameType, event: str, _: Any) -> Any:
        return trace_lines if event == "call" and places.is_users(frame.f_code.co_filename) else None

    previous = sys.gettrace()
    sys.settrace(trace_calls)
    try:
        function()
    except Exception:
        return lines
    finally:
        sys.settrace(previous)
    return lines


def decision(lines: list[tuple[str, int]], i: int) -> Place | None:
    """The line that chose line `i`: the last before it in the same function, since what that called decides nothing."""
    file, line = lines[i]
    around = [function for function in _functions(file) if line in function]
    function = min(around, key=len) if around else range(line, line + 1)
    before = [place for place in lines[:i] if place[0] == file and place[1] in function]
    return Place(*(before or lines[:i])[-1]) if i else None


@functools.lru_cache(maxsize=64)
def _functions(file: str) -> tuple[range, ...]:
    """The lines of each function's body."""
    tree = parsed(file)
    nodes = () if tree is None else ast.walk(tree)
    return tuple(body_of(node) for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def place(first: Callable[[], Any], second: Callable[[], Any]) -> Place | None:
    """The line after which two calls execute different lines; ``None`` where they execute the same."""
    one, two = lines_of(first), lines_of(second)
    for i, (a, b) in enumerate(zip(one, two, strict=False)):
        if a != b:
            return decision(one, i)
    if len(one) != len(two) and one and two:
        return Place(*one[min(len(one), len(two)) - 1])
    return None
