"""Walking syntax trees by direct access to their fields, and what their nodes say of calls and parameters."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class Parameter(NamedTuple):
    """A parameter of a function that takes one argument."""

    node: ast.arg
    default: ast.expr | None

    @property
    def name(self) -> str:
        """Its name."""
        return self.node.arg


def children(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes directly below a node, in the order of the source as far as the fields have it."""
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            for item in value:
                if isinstance(item, ast.AST):
                    yield item
        elif isinstance(value, ast.AST):
            yield value


def descendants(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below a node, without recursion."""
    waiting = list(children(node))[::-1]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += list(children(found))[::-1]


def given(node: ast.Call) -> list[ast.expr]:
    """The expressions of the arguments of a call, those with a name last."""
    parts = [part.value if isinstance(part, ast.Starred) else part for part in node.args]
    return [*parts, *(keyword.value for keyword in node.keywords)] if node.keywords else parts


def indices(node: ast.Subscript) -> list[ast.expr]:
    """The expressions between the brackets."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) and node.slice.elts else [node.slice]
    return [part.value if isinstance(part, ast.Starred) else part for part in parts]


def positional(arguments: ast.arguments) -> Iterator[Parameter]:
    """The parameters that an argument without a name may be given to."""
    nodes = [*arguments.posonlyargs, *arguments.args]
    plain = len(nodes) - len(arguments.defaults)
    for i, node in enumerate(nodes):
        yield Parameter(node, arguments.defaults[i - plain] if i >= plain else None)


def keyword_only(arguments: ast.arguments) -> Iterator[Parameter]:
    """The parameters that need a name."""
    yield from map(Parameter, arguments.kwonlyargs, arguments.kw_defaults)


def parameters(node: FunctionNode | ast.Lambda) -> Iterator[Parameter]:
    """All parameters that take one argument, in order."""
    yield from positional(node.args)
    yield from keyword_only(node.args)


def same(left: ast.AST, right: ast.AST) -> bool:
    """Whether two expressions are spelt the same, whether they are read or written."""
    if isinstance(left, ast.Attribute) and isinstance(right, ast.Attribute):
        return left.attr == right.attr and same(left.value, right.value)
    if isinstance(left, ast.Name) and isinstance(right, ast.Name):
        return left.id == right.id
    return type(left) is type(right) and ast.dump(left) == ast.dump(right)


def bound_in(node: ast.AST) -> Iterator[str]:
    """The variables that a target, or a statement, binds; not those of which it changes a part."""
    for part in (node, *descendants(node)):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            yield part.id


def is_none(node: ast.AST | None) -> bool:
    """Whether an expression is the word ``None``."""
    return isinstance(node, ast.Constant) and node.value is None
