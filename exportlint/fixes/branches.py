"""The two ways of an ``if`` as functions for ``torch.cond``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from exportlint.fixes.blocks import assigned, bound_before, decided, in_place_of, lines_of, names_in, resizes
from exportlint.fixes.conditions import alone
from exportlint.fixes.imports import torch_name
from exportlint.fixes.tree import Text, Tree, UnfitError, last_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from exportlint.fixes.edits import Branched

# What is no tensor, whatever it is made of.
_PLAIN = (
    cst.BaseString, cst.BaseNumber, cst.List, cst.Tuple, cst.Dict, cst.Set, cst.Lambda, cst.ListComp, cst.DictComp,
    cst.BooleanOperation, cst.FormattedString, cst.IfExp,
)  # fmt: skip
# What may be the tensor itself, or a view of it.
_VIEWS = (
    "view", "reshape", "to", "contiguous", "transpose", "permute", "squeeze", "unsqueeze", "expand", "flatten",
    "detach", "float", "half", "double", "type", "type_as", "view_as", "expand_as", "narrow", "select", "movedim", "t",
)  # fmt: skip
_NUMBERS = ("len", "int", "float", "bool", "str", "list", "tuple", "dict", "range", "item", "tolist", "dim", "size")


@dataclass(frozen=True, slots=True)
class _Way:
    """One way of a decision.

    Attributes:
        lines: Its statements, without their indentation.
        binds: The variables that it binds, in this order.
        reads: Those that it reads before it binds them.
    """

    lines: tuple[str, ...] = ()
    binds: tuple[str, ...] = ()
    reads: frozenset[str] = frozenset()


def branched(tree: Tree, edit: Branched) -> list[Text]:
    """An ``if`` that binds names either way, as ``torch.cond`` of two functions that return them."""
    node = decided(tree, tree.expression(edit.range))
    function = tree.around(node, cst.FunctionDef)
    if isinstance(node.orelse, cst.If):
        raise UnfitError("it is one of several")
    first, second = _way(tree, node.body, tree.span(node.test)[1]), _Way()
    if isinstance(node.orelse, cst.Else):
        second = _way(tree, node.orelse.body, tree.span(node.orelse)[0] + len("else"))
    before = bound_before(tree, function, node)
    results = _results(tree, function, node, (first, second), before)
    given = [name for name in dict.fromkeys((*results, *first.binds, *second.binds))
             if name in before and any(name in w.reads or (name in results and name not in w.binds)
                                       for w in (first, second))]  # fmt: skip
    _need_tensors_before(tree, function, node, given)
    names = _names(tree, function)
    name, imports = torch_name(tree, "torch.cond")
    lines = [*_function(names[0], first, given, results, tree), "", *_function(names[1], second, given, results, tree)]
    operands = f"({', '.join(given)}{',' if len(given) == 1 else ''})"
    call = f"{name}({alone(tree, node.test, known=edit.alone)}, {names[0]}, {names[1]}, {operands})"
    lines += ["", f"{', '.join(results)} = {call}"]
    return [*imports, in_place_of(tree, node, lines)]


def _way(tree: Tree, body: cst.BaseSuite, header: int) -> _Way:
    """One way, which binds variables to tensors and does nothing else.

    Raises:
        UnfitError: When it does more, or binds what is no tensor.
    """
    binds: list[str] = []
    reads: set[str] = set()
    for line in body.body:
        small = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
        if isinstance(small, cst.AugAssign) and isinstance(small.target, cst.Name):
            raise UnfitError("it changes a tensor in place")
        if small is None:
            raise UnfitError("it does more than binding names")
        target, value = assigned(small)
        _need_tensor(value)
        reads.update(each.value for each in names_in(tree, value) if each.value not in binds)
        binds.append(target.value)
    return _Way(tuple(lines_of(tree, body, header)), tuple(dict.fromkeys(binds)), frozenset(reads))


def _need_tensor(value: cst.BaseExpression) -> None:
    """Look whether a value may be a new tensor.

    Raises:
        UnfitError: When it is something else, or a tensor that there was.
    """
    number = isinstance(value, cst.Call) and last_name(value.func) in _NUMBERS
    old = isinstance(value, (cst.Name, cst.Attribute, cst.Subscript))
    old = old or (isinstance(value, cst.Call) and last_name(value.func) in _VIEWS)
    changes = isinstance(value, cst.Call) and last_name(value.func).endswith("_")
    if isinstance(value, _PLAIN) or number or changes or old:
        raise UnfitError("it binds what may be no new tensor")
    if resizes(value):
        raise UnfitError("it binds a tensor of another size")


def _need_tensors_before(tree: Tree, function: cst.FunctionDef, node: cst.If, names: Sequence[str]) -> None:
    """Look whether variables may be tensors before a decision.

    Raises:
        UnfitError: When one is bound to what is none.
    """
    for statement in tree.inside(function, cst.Assign):
        bound = {t.target.value for t in statement.targets if isinstance(t.target, cst.Name)} & set(names)
        number = isinstance(statement.value, cst.Call) and last_name(statement.value.func) in _NUMBERS
        plain = isinstance(statement.value, (*_PLAIN, cst.UnaryOperation)) or last_name(statement.value) == "None"
        if bound and (number or plain) and tree.span(statement)[1] <= tree.span(node)[0]:
            raise UnfitError("what it binds is no tensor before")


def _results(tree: Tree, function: cst.FunctionDef, node: cst.If, ways: Sequence[_Way], before: set[str]) -> list[str]:
    """The variables that both ways give a value, and that are read behind them.

    Raises:
        UnfitError: When one may have no value.
    """
    end = tree.span(node)[1]
    looped = any(isinstance(outer, (cst.For, cst.While)) for outer in tree.outwards(node))
    start = tree.span(node)[0]
    later = {
        each.value
        for each in names_in(tree, function.body)
        if not isinstance(tree.parents[each], cst.AssignTarget)
        and (tree.span(each)[0] >= end or (looped and tree.span(each)[0] < start))
    }
    found = [name for name in dict.fromkeys((*ways[0].binds, *ways[1].binds)) if name in later]
    if not found:
        raise UnfitError("nothing is done with what it binds")
    if any(name not in before and any(name not in way.binds for way in ways) for name in found):
        raise UnfitError("the name may not be bound before")
    return found


def _names(tree: Tree, function: cst.FunctionDef) -> tuple[str, str]:
    """Names for the two functions that mean nothing else there."""
    taken = {each.value for each in tree.inside(function, cst.Name)}
    for i in range(1, 100):
        end = "" if i == 1 else f"_{i}"
        if not {f"if_so{end}", f"if_not{end}"} & taken:
            return f"if_so{end}", f"if_not{end}"
    raise UnfitError("the names are taken")


def _function(name: str, way: _Way, given: Sequence[str], results: Sequence[str], tree: Tree) -> list[str]:
    """The lines of the function that goes one way."""
    step = tree.module.default_indent
    returned = [each if each in way.binds else f"{each}.clone()" for each in results]
    body = [*way.lines, f"return {', '.join(returned)}"]
    return [f"def {name}({', '.join(given)}):", *(step + line if line else line for line in body)]
