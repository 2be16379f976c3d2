"""What the calls of a function give a parameter: whether one may give it something else than a tensor.

A helper is analysed for the calls that a model leads to. A fix that takes a device from one of its parameters is safe
only if the other calls give a tensor, too: those of the file, and of the files that import it, are read for what their
argument is. What a method is given is taken for a tensor unless the class says otherwise, since methods are followed.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from exportlint.fixes.edits import Handed
from exportlint.source.tree import FunctionNode, descendants, is_none, parameters, positional

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from exportlint.source.tree import Parameter

_STEPS = 4  # callers of callers
_OWNERS = ("self", "cls")
_NUMBERS = ("int", "float", "bool", "str", "complex")
_CONVERTING = (*_NUMBERS, "len", "round", "range", "list", "tuple", "dict", "set")
_ASKING = ("item", "tolist", "size", "dim", "numel", "element_size")
_FACTS = ("shape", "ndim", "dtype", "device", "itemsize")
_PLAIN = (
    ast.Constant, ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp,
    ast.GeneratorExp, ast.Lambda,
)  # fmt: skip


class Around(NamedTuple):
    """Where a call stands: its file, and the class and the function around it, if any."""

    path: str
    tree: ast.Module
    cls: ast.ClassDef | None
    function: FunctionNode | None


@dataclass(slots=True, eq=False)
class CallSites:
    """Reads calls in the files of a project.

    Attributes:
        text: The text of a file; ``None`` where it cannot be read.
        importing: The files that import a file.
    """

    text: Callable[[str], str | None]
    importing: Callable[[str], Iterable[str]]
    _trees: dict[str, ast.Module | None] = field(default_factory=dict)
    _known: dict[tuple[str, Handed], bool] = field(default_factory=dict)

    def may_give_other(self, path: str, handed: Handed) -> bool:
        """Whether a call of a function of a file may give a parameter what is no tensor."""
        if (path, handed) not in self._known:
            calls = self._calls(path, handed)
            self._known[path, handed] = any(self._gives_other(call, at, handed, _STEPS) for call, at in calls)
        return self._known[path, handed]

    def _calls(self, path: str, handed: Handed) -> Iterator[tuple[ast.Call, Around]]:
        for file in dict.fromkeys((path, *self.importing(path))):
            text = self.text(file)
            if text is None or handed.function not in text:
                continue
            tree = self._tree(file, text)
            names = _aliases(tree, handed.function) if tree is not None else frozenset()
            for node, cls, function in _nodes(tree) if tree is not None else ():
                if isinstance(node, ast.Call) and _is_of(node, handed, names):
                    yield node, Around(file, tree, cls, function)  # type: ignore[arg-type]

    def _tree(self, path: str, text: str) -> ast.Module | None:
        if path not in self._trees:
            try:
                self._trees[path] = ast.parse(text)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                self._trees[path] = None
        return self._trees[path]

    def _gives_other(self, call: ast.Call, around: Around, handed: Handed, steps: int) -> bool:
        given = next((keyword.value for keyword in call.keywords if keyword.arg == handed.parameter), None)
        if given is None and any(isinstance(part, ast.Starred) for part in call.args[: handed.position + 1]):
            return around.cls is None
        if given is None and handed.position < len(call.args):
            given = call.args[handed.position]
        if given is None:  # its default
            return handed.optional or any(keyword.arg is None for keyword in call.keywords)
        return self._is_other(given, around, steps)

    def _is_other(self, node: ast.expr, around: Around, steps: int) -> bool:
        """Whether an expression may be something else than a tensor."""
        if isinstance(node, ast.UnaryOp):
            return isinstance(node.op, ast.Not) or self._is_other(node.operand, around, steps)
        if isinstance(node, ast.BinOp):
            return self._is_other(node.left, around, steps) and self._is_other(node.right, around, steps)
        if isinstance(node, ast.IfExp):
            return self._is_other(node.body, around, steps) or self._is_other(node.orelse, around, steps)
        if isinstance(node, ast.Attribute):
            return node.attr in _FACTS or self._is_other_attribute(node, around, steps)
        if isinstance(node, ast.Name):
            return self._is_other_name(node.id, around, steps)
        return _makes_other(node)

    def _is_other_attribute(self, node: ast.Attribute, around: Around, steps: int) -> bool:
        """Whether the class binds ``self.NAME`` to something else than a tensor."""
        if around.cls is None or not isinstance(node.value, ast.Name) or node.value.id not in _OWNERS or not steps:
            return False
        for method in [each for each in around.cls.body if isinstance(each, FunctionNode)]:
            inside = around._replace(function=method)
            for target, value in _bound(method):
                named = isinstance(target, ast.Attribute) and target.attr == node.attr
                if named and not is_none(value) and self._is_other(value, inside, steps - 1):
                    return True
        return False

    def _is_other_name(self, name: str, around: Around, steps: int) -> bool:
        """Whether a variable is bound to something else than a tensor, or a caller gives it that."""
        bound = [v for t, v in _bound(around.function or around.tree) if isinstance(t, ast.Name) and t.id == name]
        if not steps:
            return True
        if any(self._is_other(value, around, steps - 1) for value in bound if not _mentions(value, name)):
            return True
        function = around.function
        given = [p for p in parameters(function) if p.name == name] if function is not None else []
        if not given or function is None:
            return False
        if _says_number(given[0]) or around.cls is not None:
            return _says_number(given[0])
        handed = handed_to(function, name)
        calls = list(self._calls(around.path, handed))
        return not calls or any(self._gives_other(c, a, handed, steps - 1) for c, a in calls)


def _says_number(parameter: Parameter) -> bool:
    """Whether the annotation or the default of a parameter says that it is a number or the like."""
    annotation, default = parameter.node.annotation, parameter.default
    if isinstance(annotation, ast.Name) and annotation.id in _NUMBERS:
        return True
    return default is not None and not is_none(default) and isinstance(default, _PLAIN)


def behind(function: ast.AST, name: str) -> tuple[Handed, ...]:
    """The parameters of a function that a variable of it is, or is computed from with operators alone."""
    if not isinstance(function, FunctionNode):
        return ()
    given = {p.name for p in parameters(function)} - set(_OWNERS)
    waiting, seen = [name], {name: None}
    while waiting:
        bound = [v for t, v in _bound(function) if isinstance(t, ast.Name) and t.id == waiting[-1]]
        waiting.pop()
        further = [each for value in bound for each in _operands(value) if each not in seen]
        seen.update(dict.fromkeys(further))
        waiting += further
    return tuple(handed_to(function, each) for each in seen if each in given)


def _operands(node: ast.expr) -> Iterator[str]:
    """The variables of which operators alone make an expression: the result is a number where they are numbers."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, (ast.BinOp, ast.UnaryOp, ast.IfExp)):
        for part in ast.iter_child_nodes(node):
            yield from _operands(part) if isinstance(part, ast.expr) else ()


def handed_to(function: FunctionNode, name: str) -> Handed:
    """How a call gives a parameter of a function."""
    names = [p.name for p in positional(function.args)]
    owned = bool(names) and names[0] in _OWNERS
    default = next((p.default for p in parameters(function) if p.name == name), None)
    position = names.index(name) - owned if name in names else len(names)
    return Handed(function.name, name, position, owned, default is not None)


def _makes_other(node: ast.expr) -> bool:
    """Whether an expression makes a number or the like, by itself or with a call."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr in _FACTS
    if not isinstance(node, ast.Call):
        return isinstance(node, _PLAIN)
    func = node.func
    if isinstance(func, ast.Name):
        return func.id in _CONVERTING
    of_math = isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "math"
    return of_math or (isinstance(func, ast.Attribute) and func.attr in _ASKING)


def _is_of(call: ast.Call, handed: Handed, names: frozenset[str]) -> bool:
    """Whether a call is one of the function, as its name tells."""
    func = call.func
    if isinstance(func, ast.Attribute):
        owned = isinstance(func.value, ast.Name) and func.value.id in _OWNERS
        return func.attr == handed.function and (handed.owned or not owned)
    return isinstance(func, ast.Name) and func.id in names and not handed.owned


def _aliases(tree: ast.Module, name: str) -> frozenset[str]:
    """The names that a file has for a function."""
    imports = [node for node in descendants(tree) if isinstance(node, ast.ImportFrom)]
    return frozenset([name, *(a.asname for node in imports for a in node.names if a.name == name and a.asname)])


def _bound(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What assignments in a function, or at the top level of a file, bind, and to what."""
    own = descendants(node) if isinstance(node, FunctionNode) else (s for s in getattr(node, "body", ()))
    for part in own:
        if isinstance(part, ast.Assign):
            yield from ((target, part.value) for target in part.targets)
        elif isinstance(part, (ast.AnnAssign, ast.NamedExpr)) and part.value is not None:
            yield part.target, part.value


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(part, ast.Name) and part.id == name for part in (node, *descendants(node)))


def _nodes(tree: ast.Module) -> Iterator[tuple[ast.AST, ast.ClassDef | None, FunctionNode | None]]:
    """The nodes of a file, each with the class whose method it is in and the outermost function around it."""
    waiting: list[tuple[ast.AST, ast.ClassDef | None, FunctionNode | None]] = [(tree, None, None)]
    while waiting:
        node, cls, function = waiting.pop()
        yield node, cls, function
        if isinstance(node, ast.ClassDef) and function is None:
            cls = node
        if isinstance(node, FunctionNode) and function is None:
            function = node
        waiting += [(part, cls, function) for part in ast.iter_child_nodes(node)]
