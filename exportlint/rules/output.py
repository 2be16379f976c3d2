"""Statements that only print, log or warn, whose lines decide nothing that is computed."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from exportlint.source.tree import descendants

if TYPE_CHECKING:
    from collections.abc import Iterator

LEVELS = frozenset({"debug", "info", "warning", "warn", "error", "critical", "exception", "log"})  # a logger's methods
_LOGGER = re.compile(r"log(?:ger|ging)?$|^warnings$", re.IGNORECASE)


def lines_of_output(text: str) -> Iterator[int]:
    """The lines of statements that only print, log or warn, and of an ``if`` that holds nothing else."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):  # the analysis would not have come so far
        return
    for node in descendants(tree):
        if isinstance(node, ast.stmt) and _only_tells(node):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _only_tells(node: ast.stmt) -> bool:
    if isinstance(node, ast.If):
        return not node.orelse and all(isinstance(part, ast.Pass) or _only_tells(part) for part in node.body)
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    func = node.value.func
    if isinstance(func, ast.Name):
        return func.id == "print"
    logs = isinstance(func, ast.Attribute) and func.attr in LEVELS
    return logs and isinstance(func, ast.Attribute) and _LOGGER.search(ast.unparse(func.value)) is not None
