"""A failure that no rule explains, at a line that uses what a predicted hazard made: the hazard's line is the cause.

What a hazard makes may fail later than where it is made, as the copy of a tensor does that tracing did not see.
"""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING

from exportlint.places import parsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from exportlint.findings import CheckResult, Finding

UNEXPLAINED = "EXP003"


def explained(checks: Iterable[CheckResult], predicted: Sequence[Finding]) -> tuple[CheckResult, ...]:
    """The checks, whose unexplained failures are told of the line and by the rule of the hazard that they come from.

    Args:
        checks: What was observed.
        predicted: What the linter found in the files that ran.
    """
    return tuple(dataclasses.replace(c, findings=tuple(_told(f, predicted) for f in c.findings)) for c in checks)


def _told(finding: Finding, predicted: Sequence[Finding]) -> Finding:
    line = finding.line
    if finding.rule != UNEXPLAINED or finding.file is None or line is None:
        return finding
    before = [
        p
        for p in predicted
        if p.file == finding.file and p.severity == "error" and p.line is not None and p.line < line
    ]
    cause = next((p for p in before if _leads(finding.file, p.line or 0, line)), None) if before else None
    if cause is None:
        return finding
    message = f"{cause.message}, and what comes of it fails at line {line}"
    return dataclasses.replace(
        finding,
        rule=cause.rule,
        message=message,
        line=cause.line,
        end_line=cause.end_line,
        source=cause.source,
        rewrite=cause.rewrite,
    )


def _leads(file: str, made: int, used: int) -> bool:
    """Whether a line reads a name that an earlier line of the same function binds, and no line between binds anew."""
    function = _function(file, made, used)
    if function is None:
        return False
    statements = [node for node in ast.walk(function) if isinstance(node, ast.stmt) and node is not function]
    names = set(_names(_at(statements, made), ast.Store))
    for statement in statements:
        if made < statement.lineno < used and not hasattr(statement, "body"):
            names -= set(_names([statement], ast.Store))
    return bool(names & set(_names(_at(statements, used), ast.Load)))


def _function(file: str, *lines: int) -> ast.stmt | None:
    """The innermost function around the lines."""
    tree = parsed(file)
    if tree is None:
        return None
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and all(node.lineno < line <= (node.end_lineno or node.lineno) for line in lines)
    ]
    return max(around, key=lambda node: node.lineno, default=None)


def _at(statements: Iterable[ast.stmt], line: int) -> list[ast.stmt]:
    """The statements without a block on a line; of those with one, nothing."""
    return [s for s in statements if s.lineno <= line <= (s.end_lineno or s.lineno) and not hasattr(s, "body")]


def _names(statements: Iterable[ast.stmt], context: type[ast.expr_context]) -> Iterator[str]:
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, context):
                yield node.id
