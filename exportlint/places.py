"""Places in source files: which frame is the user's, and how a place is written.

A failure is blamed on the innermost frame that is neither torch's, nor the standard library's, nor exportlint's.
"""

from __future__ import annotations

import ast
import functools
import linecache
import os
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType, TracebackType

    from exportlint.findings import Finding, Outcomes, Severity

INSTALLED = frozenset({"site-packages", "dist-packages"})  # folders of installed packages
# Packages whose frames never own a failure: the framework itself and what it computes with.
FRAMEWORK = frozenset(
    {"torch", "torchgen", "functorch", "sympy", "mpmath", "networkx", "numpy", "hypothesis", "_pytest", "pluggy"}
)
OURS = frozenset({"exportlint", "pytest_exportlint"})
JOBS = str(Path(__file__).parent / "checks" / "jobs.py")


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A line of a source file; `file` is absolute, `line` counts from 1."""

    file: str
    line: int

    @property
    def source(self) -> str:
        """The text of the line without its indentation; empty where the file cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    @property
    def end_line(self) -> int:
        """The last line of the innermost simple statement, or statement head, that the line belongs to."""
        return _end_lines(self.file).get(self.line, self.line)

    def finding(
        self,
        rule: str,
        severity: Severity,
        message: str,
        *,
        rewrite: str | None = None,
        evidence: str | None = None,
        outcomes: Outcomes | None = None,
    ) -> Finding:
        """A finding of this rule at this place."""
        from exportlint.findings import Finding

        return Finding(
            rule=rule,
            severity=severity,
            message=message,
            file=display_path(self.file),
            line=self.line,
            end_line=self.end_line,
            source=self.source or None,
            rewrite=rewrite,
            evidence=evidence,
            outcomes=outcomes or {},
        )


def parsed(file: str) -> ast.Module | None:
    """The syntax tree of a file; ``None`` where it cannot be read, or this Python does not read it as Python."""
    try:
        return ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def body_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> range:
    """The lines of a function's body, without those of its head."""
    return range(function.body[0].lineno, (function.end_lineno or function.lineno) + 1)


@functools.lru_cache(maxsize=256)
def _end_lines(file: str) -> dict[int, int]:
    """The last line of the statement (or head of a compound statement) around each line of more than one line."""
    tree = parsed(file)
    if tree is None:
        return {}
    ends: dict[int, int] = {}
    waiting: list[ast.AST] = [tree]
    for node in waiting:
        first, last = _extent(node)
        ends.update((line, last) for line in range(first, last + 1) if last > first)
        for kind in ("body", "orelse", "handlers", "finalbody", "cases"):  # no expression holds a statement
            inner = getattr(node, kind, None)
            waiting += inner if isinstance(inner, list) else ()
    return ends


def _extent(node: ast.AST) -> tuple[int, int]:
    """First and last line of a simple statement or of the head of a compound one; no lines for other nodes."""
    if not isinstance(node, (ast.stmt, ast.ExceptHandler, ast.match_case)):
        return 0, 0
    children = getattr(node, "cases", None) or getattr(node, "body", None)
    if isinstance(children, list) and children:
        return _first_line(node), _first_line(children[0]) - 1
    return _first_line(node), getattr(node, "end_lineno", None) or 0


def _first_line(node: ast.AST) -> int:
    line: int = node.pattern.lineno if isinstance(node, ast.match_case) else getattr(node, "lineno", 0)
    return line


@functools.cache
def _library_roots() -> tuple[str, ...]:
    """Folders whose frames never own a failure: the standard library, the framework, exportlint."""
    roots = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), str(Path(__file__).parent)}
    for site in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *sys.path}:
        for package in FRAMEWORK | OURS:
            folder = Path(site or ".") / package
            if (folder / "__init__.py").is_file():
                roots.add(str(folder))
    return tuple(os.path.realpath(root) + os.sep for root in roots if root)


@functools.lru_cache(maxsize=4096)
def is_installed(file: str) -> bool:
    """Whether the file is an installed package's."""
    return not INSTALLED.isdisjoint(Path(file).parts)


@functools.lru_cache(maxsize=4096)
def is_users(file: str) -> bool:
    """Whether frames of this file may own a failure: the user's own code, or a model library's."""
    if file.startswith("<") or not file:
        return False
    path = os.path.realpath(file)
    if f"{os.sep}site-packages{os.sep}" in path or f"{os.sep}dist-packages{os.sep}" in path:
        tail = path.replace("dist-packages", "site-packages").rpartition(f"{os.sep}site-packages{os.sep}")[2]
        return Path(tail).parts[0] not in FRAMEWORK | OURS
    return not path.startswith(_library_roots())


def is_ours(file: str) -> bool:
    """Whether a frame of this file is exportlint's."""
    return os.path.realpath(file).startswith(str(Path(__file__).resolve().parent) + os.sep)


def of_frames(frames: Iterable[tuple[str, int]]) -> Place | None:
    """The first of the frames, given innermost first as (file, line), that is the user's and that a job called."""
    for file, line in frames:
        if file == JOBS:  # further out is who asked for the check: a test function, in a child forked from pytest
            return None
        if is_users(file):
            return Place(os.path.realpath(file), line)
    return None


def raised_by_users(traceback: TracebackType | None) -> bool:
    """Whether code of the user's raised, and nothing of exportlint's that it called."""
    files: list[str] = []
    while traceback is not None:
        files.append(traceback.tb_frame.f_code.co_filename)
        traceback = traceback.tb_next
    return next((is_users(file) for file in reversed(files) if is_users(file) or is_ours(file)), False)


def asked_of_users(traceback: TracebackType | None) -> str | None:
    """The function of the user's that exportlint, or torch for it, called, such as ``Model.named_parameters``."""
    found: str | None = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if is_ours(code.co_filename):
            found = None
        elif found is None and is_users(code.co_filename):
            found = getattr(code, "co_qualname", code.co_name)  # from Python 3.11
        traceback = traceback.tb_next
    return found


def caller(frame: FrameType | None) -> Place | None:
    """The innermost place that is the user's, from this frame outwards."""
    return of_frames(_outwards(frame))


def of_traceback(traceback: TracebackType | None) -> Place | None:
    """The innermost place that is the user's in a traceback."""
    frames: list[tuple[str, int]] = []
    while traceback is not None:
        frames.append((traceback.tb_frame.f_code.co_filename, traceback.tb_lineno))
        traceback = traceback.tb_next
    return of_frames(reversed(frames))


def _outwards(frame: FrameType | None) -> Iterator[tuple[str, int]]:
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


def display_path(file: str) -> str:
    """The path as reports write it: relative to the working directory where it lies inside, with forward slashes."""
    path = Path(os.path.realpath(file))
    try:
        return path.relative_to(Path(os.path.realpath(Path.cwd()))).as_posix()
    except (ValueError, OSError):
        return path.as_posix()
