"""Blocks of statements: their text at another indentation, what they bind, and what is around them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from exportlint.fixes.tree import HinderedError, Text, Tree, UnfitError, last_name
from exportlint.source.facts import facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_HEADER = re.compile(r"[\s)]*?:[ \t]*(#[^\r\n]*)?(?:\r\n|\n|\r)")


def decided(tree: Tree, node: cst.CSTNode) -> cst.If:
    """The ``if``, no ``elif``, in whose test a node is.

    Raises:
        UnfitError: When it is in none.
    """
    for outer in tree.outwards(node):
        if isinstance(outer, cst.If):
            inside = node is outer.test or any(each is node for each in tree.inside(outer.test, type(node)))
            if inside and _has_own_line(tree, outer):
                return outer
        if isinstance(outer, cst.BaseStatement):
            break
    raise UnfitError("it is no plain if")


def _has_own_line(tree: Tree, node: cst.CSTNode) -> bool:
    return isinstance(tree.parents[node], cst.IndentedBlock)


def indentation(tree: Tree, node: cst.CSTNode) -> str:
    """The space before a statement.

    Raises:
        UnfitError: When something else stands there.
    """
    start = tree.span(node)[0]
    found = tree.text[tree.offset(tree.positions[node].start.line, 1) : start]
    if found.strip():
        raise UnfitError("it does not stand alone on its line")
    return found


def lines_of(tree: Tree, body: cst.BaseSuite, header: int) -> list[str]:
    """The lines of a block, without their common indentation, and without line ends; a comment behind the colon first.

    Args:
        tree: The file.
        body: The block.
        header: The offset at which what is decided or entered before the block ends.

    Raises:
        UnfitError: When a comment stands in the header, or a line does not begin with the indentation.
    """
    if not isinstance(body, cst.IndentedBlock):
        raise UnfitError("it stands on one line")
    colon = _HEADER.match(tree.text, header)
    if colon is None:
        raise HinderedError("a comment would be lost")
    step = indentation(tree, body.body[0])
    text = tree.text[colon.end() : tree.span(body.body[-1])[1]]
    for string in tree.inside(body, cst.SimpleString):
        if "\n" in string.value:
            raise UnfitError("a text goes over several lines")
    found = re.split(r"\r\n|\n|\r", text)
    if any(line.strip() and not line.startswith(step) for line in found):
        raise UnfitError("a line is not indented")
    return [*([colon[1]] if colon[1] else []), *(line[len(step) :] for line in found)]


def in_place_of(tree: Tree, node: cst.BaseStatement, lines: Iterable[str], end: int | None = None) -> Text:
    """The edit that writes lines in the place of a statement, at its indentation."""
    space = indentation(tree, node)
    written = [space + line if line.strip() else line.strip() for line in lines]
    text = tree.module.default_newline.join(written).removeprefix(space)
    start, last = tree.span(node)
    return tree.replaced(start, last if end is None else end, text)


def without(tree: Tree, node: cst.BaseStatement) -> Text:
    """The edit that takes a statement out, with the lines that it stands on.

    Raises:
        UnfitError: When a comment would be lost.
    """
    indentation(tree, node)
    place = tree.positions[node]
    start = tree.offset(place.start.line, 1)
    end = tree.span(node)[1]
    rest = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|$)").match(tree.text, end)
    last = rest.end() if rest is not None else end
    tree.uncommented(start, last)
    return Text(start, last, "")


def smalls(body: Sequence[cst.BaseStatement] | Sequence[cst.BaseSmallStatement]) -> list[cst.BaseSmallStatement]:
    """The statements of a block, each alone on its line.

    Raises:
        UnfitError: When one of them is a compound statement.
    """
    found = []
    for line in body:
        if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
            raise UnfitError("it does more than binding names")
        found.append(line.body[0])
    return found


def only_one(block: cst.BaseSuite) -> cst.BaseSmallStatement | None:
    """The one statement of a block; ``None`` where there are several.

    Raises:
        UnfitError: When it is a compound statement.
    """
    return smalls(block.body)[0] if len(block.body) == 1 else None


def names_in(tree: Tree, node: cst.CSTNode) -> Iterator[cst.Name]:
    """The variables in a node, in the order of the source: no attributes, and no names of keyword arguments."""
    own = [node] if isinstance(node, cst.Name) else tree.inside(node, cst.Name)
    for name in own:
        outer = tree.parents[name]
        attribute = isinstance(outer, cst.Attribute) and outer.attr is name
        keyword = isinstance(outer, cst.Arg) and outer.keyword is name
        if not attribute and not keyword:
            yield name


def mentions(tree: Tree, node: cst.CSTNode, name: str) -> bool:
    """Whether a variable is in a node."""
    return any(each.value == name for each in names_in(tree, node))


def assigned(statement: cst.CSTNode) -> tuple[cst.Name, cst.BaseExpression]:
    """The one name that a statement binds, and to what.

    Raises:
        UnfitError: When it does something else.
    """
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        target = statement.targets[0].target
        if isinstance(target, cst.Name):
            return target, statement.value
    raise UnfitError("it does more than binding a name")


def bound_before(tree: Tree, function: cst.FunctionDef, node: cst.CSTNode) -> set[str]:
    """The variables that are surely bound where a statement begins: parameters, and what was bound above."""
    params = function.params
    every = [*params.params, *params.posonly_params, *params.kwonly_params]
    found = {p.name.value for p in every}
    inner = node
    for outer in tree.outwards(node):
        if isinstance(outer, cst.IndentedBlock):
            for line in outer.body:
                if line is inner:
                    break
                found.update(_binds(line))
        if outer is function:
            break
        inner = outer
    return found


def _binds(line: cst.BaseStatement) -> Iterator[str]:
    for small in line.body if isinstance(line, cst.SimpleStatementLine) else ():
        for target in small.targets if isinstance(small, cst.Assign) else ():
            yield from _bound_names(target.target)


def _bound_names(target: cst.BaseExpression) -> Iterator[str]:
    if isinstance(target, cst.Name):
        yield target.value
    elif isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from _bound_names(element.value)


def rows_of(node: cst.BaseExpression) -> str:
    """The variable whose number of rows an expression is; empty for anything else."""
    if isinstance(node, cst.Call) and len(node.args) == 1:
        given = node.args[0].value
        if last_name(node.func) == "len":
            return given.value if isinstance(given, cst.Name) else ""
        first = isinstance(given, cst.Integer) and given.value == "0"
        return receiver(node.func) if last_name(node.func) == "size" and first else ""
    if isinstance(node, cst.Subscript) and last_name(node.value) == "shape" and len(node.slice) == 1:
        index = node.slice[0].slice
        first = isinstance(index, cst.Index) and isinstance(index.value, cst.Integer) and index.value.value == "0"
        return receiver(node.value) if first else ""
    return ""


def count_of(node: cst.BaseExpression) -> str:
    """The variable whose number of elements an expression is; empty for anything else."""
    counted = isinstance(node, cst.Call) and not node.args and last_name(node.func) in ("numel", "nelement")
    return receiver(node.func) if counted and isinstance(node, cst.Call) else ""


def receiver(node: cst.BaseExpression) -> str:
    """The variable whose attribute an expression is; empty for anything else."""
    return node.value.value if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) else ""


# What gives a tensor another size, which both ways must agree on.
_RESIZING = (
    "pad", "cat", "concat", "stack", "hstack", "vstack", "repeat", "tile", "repeat_interleave", "interpolate",
    "nonzero", "unique", "masked_select",
)  # fmt: skip


def resizes(value: cst.BaseExpression) -> bool:
    """Whether an expression makes a tensor of another size than those that it is made of."""
    return isinstance(value, cst.Call) and last_name(value.func) in _RESIZING


# What takes dimensions away, unless it is asked to keep them.
_REDUCING = (
    "sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "any", "all", "norm", "std", "var", "logsumexp",
    "flatten", "squeeze", "unsqueeze",
)  # fmt: skip


def reduction_in(value: cst.BaseExpression) -> str:
    """What takes dimensions away from the tensor that an expression is, or adds one, with its arguments."""
    if not isinstance(value, cst.Call) or last_name(value.func) not in _REDUCING:
        return ""
    given = (cst.Module([]).code_for_node(arg.value) for arg in _beside_tensor(value))
    return " ".join([last_name(value.func), *given])


def is_reduced(value: cst.BaseExpression) -> bool:
    """Whether an expression surely is a tensor without dimensions: what a whole tensor comes to."""
    if not isinstance(value, cst.Call) or last_name(value.func) not in facts().reductions:
        return False
    return not _beside_tensor(value) and (bool(value.args) or _is_method(value))


def _is_method(call: cst.Call) -> bool:
    """Whether an operator is called as a method of the tensor, and not as a function of torch."""
    return isinstance(call.func, cst.Attribute) and last_name(call.func.value) != "torch"


def _beside_tensor(call: cst.Call) -> Sequence[cst.Arg]:
    """What an operator is given beside the tensor."""
    return call.args if _is_method(call) else call.args[1:]
