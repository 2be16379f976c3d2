"""A line of somebody's library, run otherwise for a while: the patch that reports propose where a user cannot edit.

    with exportlint.patched("package.module:12", "torch.arange(n)", "torch.arange(n, device=x.device)"):
        program = torch.export.export(model, args)

The module is compiled anew from its own source with the line corrected, and the function that holds the line gets the
new code for as long as the context lasts. So closures, decorators and ``super()`` go on working, and whoever imported
the function under another name runs the patched code as well. No file is changed.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


_KINDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


@contextlib.contextmanager
def patched(place: str, old: str, new: str) -> Iterator[None]:
    """Replace a piece of one line while the context lasts.

    Args:
        place: The line, as ``package.module:LINE``.
        old: What stands there now; the line must hold it once and no more.
        new: What is to run instead, on one line.

    Raises:
        ValueError: When the place is written otherwise, the module has no source, the line does not hold the piece (the
            library has changed) or holds it twice, the corrected line is no Python or on several lines, or no function
            that can be reached by name holds the line.
        TypeError: When an argument is no text.
    """
    for key, text in (("place", place), ("old", old), ("new", new)):
        if not isinstance(text, str):
            raise TypeError(f"{key} must be text, not {type(text).__name__}")
    name, _, number = place.rpartition(":")
    if not name or not (number.isascii() and number.isdecimal()):
        raise ValueError(f"{place!r} is no place such as 'package.module:12'")
    if "\n" in new:
        raise ValueError(f"the new text for {place} has several lines")
    module, line = importlib.import_module(name), int(number)
    file = Path(getattr(module, "__file__", None) or "")
    if file.suffix != ".py":
        raise ValueError(f"{name} has no source in Python")
    source = file.read_text(encoding="utf-8")
    function = _function(module, _path(ast.parse(source), line))
    if function is None:
        raise ValueError(f"{place} is in no function that can be patched")
    plain = function.__code__
    function.__code__ = _corrected(source, line, (old, new), plain, place)
    try:
        yield
    finally:
        function.__code__ = plain


def _path(tree: ast.Module, line: int) -> list[str]:
    """The names that lead to the outermost function around a line: of classes, then its own."""
    names: list[str] = []
    body: list[ast.stmt] = tree.body
    while True:
        kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        around = [n for n in ast.walk(ast.Module(body, [])) if isinstance(n, kinds) and _holds(n, line)]
        if not around:
            return []
        names.append(around[0].name)
        if not isinstance(around[0], ast.ClassDef):
            return names
        body = around[0].body


def _holds(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _function(module: Any, path: list[str]) -> FunctionType | None:
    """The function itself, below properties, static methods and decorators."""
    found: Any = module if path else None
    for name in path:
        found = vars(found).get(name) if isinstance(found, type) else getattr(found, name, None)
    found = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
    found = inspect.unwrap(found) if callable(found) else None
    return found if isinstance(found, FunctionType) else None


def _corrected(source: str, line: int, change: tuple[str, str], plain: CodeType, place: str) -> CodeType:
    """The code of the function, compiled with its module from the corrected source."""
    lines = source.splitlines(keepends=True)
    held = lines[line - 1].count(change[0]) if change[0] and 0 < line <= len(lines) else 0
    if held > 1:
        raise ValueError(f"{place} holds {change[0]!r} {held} times: take a longer piece")
    if not held:
        raise ValueError(f"{place} does not hold {change[0]!r}: the library is another version")
    lines[line - 1] = lines[line - 1].replace(*change)
    try:
        whole = compile("".join(lines), plain.co_filename, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise ValueError(f"{place} is no Python with {change[1]!r}: {error.msg}") from error
    found = [c for c in _codes(whole) if (c.co_name, c.co_firstlineno) == (plain.co_name, plain.co_firstlineno)]
    if len(found) != 1 or found[0].co_freevars != plain.co_freevars:
        raise ValueError(f"{place} is in no function that can be patched")
    if (found[0].co_flags ^ plain.co_flags) & _KINDS:
        raise ValueError(f"{place} would make the function a generator or a coroutine with {change[1]!r}")
    return found[0]


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)
