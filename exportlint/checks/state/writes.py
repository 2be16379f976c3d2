"""The line that writes a name: from an attribute or global that changed to the statement that changed it."""

from __future__ import annotations

import ast
import functools
import os
from types import CodeType
from typing import TYPE_CHECKING

from exportlint.places import Place, parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeGuard

# Methods that change their object.
_CHANGING = frozenset({
    "append", "appendleft", "extend", "insert", "add", "update", "setdefault", "pop", "popitem", "popleft", "remove",
    "discard", "clear", "sort", "reverse", "fill_", "copy_", "add_", "mul_", "zero_", "__setitem__", "set",
})  # fmt: skip
# Functions whose arguments name an attribute that they set.
_SETTING = frozenset({"setattr", "register_buffer", "register_parameter", "add_module", "__setattr__", "setdefault"})
_SHORT = 40
_START = ("__init__", "__new__", "reset", "build")


def line_of(
    name: str, executed: Iterable[tuple[str, int]], files: Iterable[str], *, bare: bool = False
) -> Place | None:
    """The line that wrote an attribute or global of this name.

    Args:
        name: Name of the attribute or global.
        executed: Lines that ran, in order; the last of them that writes the name is meant.
        files: Where to look if none of them does: the files of the code that has the name.
        bare: Whether the name alone means it, as that of a global does; else only attributes of that name count.

    Returns:
        The line; where no line that ran writes the name, one that did not run, else one that ran and mentions it.
    """
    order = [(os.path.realpath(file), line) for file, line in executed]
    ran = set(order)
    looked = dict.fromkeys([*(os.path.realpath(file) for file in files), *(file for file, _ in order)])
    last = {place: i for i, place in enumerate(order)}
    hits = [(place, line, write) for file in looked for line, write, place in _hits(file, name, bare)]
    for wanted in ("write", "mention"):
        here = [(file, line) for file, line, how in hits if how == wanted and (file, line) in ran]
        if here:
            return Place(*max(here, key=lambda place: last[place]))
        written = [(file, line) for file, line, how in hits if how == wanted == "write"]
        if written:
            return Place(*max(place for place in written if place[0] == written[0][0]))
    return None


def lines_that_write(
    name: str,
    executed: Iterable[tuple[str, int]],
    *,
    bare: bool = False,
    receiver: Callable[[str | None], bool] | None = None,
) -> list[Place]:
    """All lines that ran and write an attribute or global of this name, in the order given.

    Args:
        name: As for `line_of`.
        executed: Lines that ran.
        bare: As for `line_of`.
        receiver: Which receivers count, by their last name: ``self`` of ``self.n``, ``child`` of ``self.child.n``,
            ``None`` where what is written is no attribute of a name. Default: any.
    """
    ran = dict.fromkeys((os.path.realpath(file), line) for file, line in executed)
    hits = set()
    for file in dict.fromkeys(file for file, _ in ran):
        tree = _parsed(file)
        for node in _body(tree) if tree is not None else ():
            if _writes(node, name, bare) and (receiver is None or any(map(receiver, _receivers(node, name)))):
                hits.add((file, node.lineno))
    return [Place(*place) for place in ran if place in hits]


def lines_of_code(code: CodeType) -> Iterator[tuple[str, int]]:
    """The lines of a function and of those inside it, with their file."""
    yield from ((os.path.realpath(code.co_filename), line) for _, _, line in code.co_lines() if line)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from lines_of_code(inner)


def scope_of(file: str, line: int, *, whole: bool) -> range:
    """The lines of the function that begins at a line; with `whole` those of the outermost function around it."""
    tree = _parsed(file)
    functions = [
        range(min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))]), (node.end_lineno or 0) + 1)
        for node in (ast.walk(tree) if tree is not None else ())
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    ]
    around = [lines for lines in functions if line in lines]
    return (max if whole else min)(around, key=len, default=range(line, line + 1))


def is_read(name: str, executed: Iterable[tuple[str, int]], *, bare: bool = False) -> bool:
    """Whether the files of the lines that ran name it elsewhere than in statements that write it."""
    for file in dict.fromkeys(os.path.realpath(file) for file, _ in executed):
        tree = _parsed(file)
        nodes = list(_body(tree)) if tree is not None else []
        writing = [node for node in nodes if _writes(node, name, bare)]
        own = {id(inner) for node in writing for inner in ast.walk(node)}
        if any(_names(node, name, bare) and id(node) not in own for node in nodes):
            return True
    return False


def _names(node: ast.AST, name: str, bare: bool) -> bool:
    return isinstance(node, (ast.Attribute, ast.Name)) and _is(node, name, bare)


def numbers_beside(name: str, executed: Iterable[tuple[str, int]], *, bare: bool = False) -> list[int]:
    """The whole numbers in the functions that name an attribute or global: what its value may be compared with."""
    numbers: dict[int, None] = {}
    for file in dict.fromkeys(os.path.realpath(file) for file, _ in executed):
        tree = _parsed(file)
        for function in ast.walk(tree) if tree is not None else ():
            if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            inside = list(ast.walk(function))
            if any(_names(node, name, bare) for node in inside):
                constants = [node.value for node in inside if isinstance(node, ast.Constant)]
                numbers.update((value, None) for value in constants if type(value) is int)
    return list(numbers)


def strings_around(place: Place) -> list[str]:
    """The short strings in the function around a line: what a value that is read there may be compared with."""
    tree = _parsed(place.file)
    functions = [
        node
        for node in (ast.walk(tree) if tree is not None else ())
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.lineno <= place.line <= (node.end_lineno or node.lineno)
    ]
    inner = max(functions, key=lambda node: node.lineno, default=None)
    texts = [node.value for node in ast.walk(inner) if isinstance(node, ast.Constant)] if inner is not None else []
    return [text for text in texts if isinstance(text, str) and len(text) <= _SHORT and text.isprintable()]


def _hits(file: str, name: str, bare: bool) -> Iterator[tuple[int, str, str]]:
    """Lines outside of constructors that write or mention a name, as (line, how, file)."""
    tree = _parsed(file)
    for node in _body(tree) if tree is not None else ():
        if _writes(node, name, bare):
            yield node.lineno, "write", file
        elif _names(node, name, bare):
            yield node.lineno, "mention", file  # type: ignore[attr-defined]


def _writes(node: ast.AST, name: str, bare: bool) -> TypeGuard[ast.stmt | ast.expr]:
    if isinstance(node, ast.stmt):
        return any(_is(target, name, bare) for target in _targets(node))
    if isinstance(node, ast.Call):
        return _call_writes(node, name, bare)
    return isinstance(node, ast.NamedExpr) and _is(node.target, name, bare)


def _receivers(node: ast.stmt | ast.expr, name: str) -> list[str | None]:
    """What has the attribute that a node writes, by its last name."""
    if isinstance(node, ast.stmt):
        written = [target for target in _targets(node) if _is(target, name, bare=True)]
    elif isinstance(node, ast.Call):
        return [_last_name(_receiver_of_call(node, name))]
    else:
        return [None]
    return [_last_name(_owner(target)) for target in written]


def _receiver_of_call(node: ast.Call, name: str) -> ast.expr | None:
    function = node.func
    if _called(node) in _SETTING and any(isinstance(a, ast.Constant) and a.value == name for a in node.args):
        by_name = isinstance(
            node.args[0], ast.Constant
        )  # register_buffer("n", x) of an object, not setattr(it, "n", x)
        return function.value if by_name and isinstance(function, ast.Attribute) else node.args[0]
    return _owner(function.value if isinstance(function, ast.Attribute) else node.args[0])


def _owner(node: ast.expr) -> ast.expr | None:
    """The object of an attribute, or of an element of one."""
    while isinstance(node, (ast.Subscript, ast.Starred)):
        node = node.value
    return node.value if isinstance(node, ast.Attribute) else None


def _last_name(node: ast.expr | None) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None


_parsed = functools.lru_cache(maxsize=64)(parsed)


def _body(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes inside functions that do not make or reset the object."""
    pending: list[tuple[ast.AST, bool]] = [(tree, False)]
    while pending:
        node, inside = pending.pop(0)
        function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        if function and getattr(node, "name", "").startswith(_START):
            continue
        if inside:
            yield node
        pending += [(child, inside or function) for child in ast.iter_child_nodes(node)]


def _targets(node: ast.stmt) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.For)):
        targets = [node.target]
    elif isinstance(node, ast.Delete):
        targets = node.targets
    else:
        return []
    flat: list[ast.expr] = []
    for target in targets:
        flat += target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    return flat


def _is(node: ast.AST, name: str, bare: bool) -> bool:
    """Whether the expression is the name, an attribute of that name, or an element of one."""
    while isinstance(node, (ast.Subscript, ast.Starred)):
        node = node.value
    if isinstance(node, ast.Attribute):
        return node.attr == name
    return bare and isinstance(node, ast.Name) and node.id == name


def _call_writes(node: ast.Call, name: str, bare: bool) -> bool:
    function, called = node.func, _called(node)
    if called in _SETTING and any(isinstance(a, ast.Constant) and a.value == name for a in node.args):
        return True
    if called == "next" and node.args and _is(node.args[0], name, bare):
        return True
    return isinstance(function, ast.Attribute) and called in _CHANGING and _is(function.value, name, bare)


def _called(node: ast.Call) -> str:
    """The last name of what is called."""
    return _last_name(node.func) or ""
