"""The text that edits of numbers come to, which become tensors, or are read once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from exportlint.fixes.blocks import assigned, indentation, is_reduced, mentions, names_in
from exportlint.fixes.edits import ARGUMENT
from exportlint.fixes.imports import torch_name
from exportlint.fixes.initial import in_init
from exportlint.fixes.tree import Text, Tree, UnfitError, is_atom, is_attribute, last_name

if TYPE_CHECKING:
    from exportlint.fixes.edits import Computed, Followed, Hoisted, Lifted, Plain, Stacked, Unread
    from exportlint.source.sites import Range


def unread(tree: Tree, edit: Unread) -> Tree:
    """The file without a ``.item()`` whose number is only computed with, beside the test that it decides.

    What may have dimensions, each of one element, loses them: the number has none.

    Raises:
        UnfitError: When it is needed as a number elsewhere.
    """
    call, test = tree.find(edit.range, cst.Call), tree.expression(edit.test)
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "item" or call.args:
        raise UnfitError("it is no plain .item()")
    inside = any(node is call for node in tree.inside(test, cst.Call)) or call is test
    if not inside:
        _need_computing(tree, call, tree.around(test, cst.FunctionDef))
    start, end = tree.span(call.func.value)[1], tree.span(call)[1]
    tree.uncommented(start, end)
    instead = "" if is_reduced(call.func.value) else ".reshape(())"
    return Tree(tree.text[: end - len(_behind(tree, call))] + instead + tree.text[end:])


def _behind(tree: Tree, call: cst.Call) -> str:
    """What stands behind the receiver of a method: the dot, the name and the parentheses."""
    found = re.compile(r"\s*\.\s*item\s*\(\s*\)$").search(tree.text[: tree.span(call)[1]])
    if found is None:
        raise UnfitError("it is no plain .item()")
    return found[0]


def shifted(place: Range, tree: Tree, other: Tree) -> Range:
    """A place of a text in another one that has some characters less, or more, before or in it."""
    start, end = tree.offset(place.line, place.column), tree.offset(place.end_line, place.end_column)
    same = next((i for i, (a, b) in enumerate(zip(tree.text, other.text, strict=False)) if a != b), len(other.text))
    less = len(tree.text) - len(other.text)
    return other.range_of(start - less if same < start else start, end - less)


def _need_computing(tree: Tree, node: cst.BaseExpression, function: cst.FunctionDef) -> None:
    """Look whether the value of an expression is only added, multiplied, compared and so on.

    Raises:
        UnfitError: When it is not, or not in this function.
    """
    outer = tree.parents[node]
    if isinstance(outer, (cst.BinaryOperation, cst.UnaryOperation)):
        return
    name, _ = assigned(outer)
    for other in names_in(tree, function):
        around = tree.parents[other]
        computed = isinstance(around, (cst.BinaryOperation, cst.Comparison, cst.UnaryOperation))
        if other.value == name.value and other is not name and not computed:
            raise UnfitError("it is not only computed with")
    if tree.around(outer, cst.FunctionDef) is not function:
        raise UnfitError("it is read in another function")


def lifted(tree: Tree, edit: Lifted) -> list[Text]:
    """An index of no dimension as one of one dimension, of whose results there is one."""
    node = tree.find(edit.range, cst.Subscript)
    if isinstance(tree.parents[node], (cst.AssignTarget, cst.AugAssign, cst.Del)):
        raise UnfitError("it is written to")
    index = _index(node)
    end = tree.span(index)[1]
    if not is_atom(index):
        raise UnfitError("the index is not plain")
    last = tree.span(node)[1]
    return [Text(end, end, "[None]"), Text(last, last, "[0]")]


def _index(node: cst.Subscript) -> cst.BaseExpression:
    found = node.slice[0].slice
    if len(node.slice) != 1 or not isinstance(found, cst.Index):
        raise UnfitError("it has more than one index")
    return found.value


def stacked(tree: Tree, edit: Stacked) -> list[Text]:
    """The results of all modules of a container, and the one of them that a tensor chooses."""
    node = tree.find(edit.range, cst.Subscript)
    call = tree.parents[node]
    if not isinstance(call, cst.Call) or call.func is not node:
        raise UnfitError("the module is not called at once")
    index = _index(node)
    if not is_atom(index) or any(mentions(tree, each, "part") for each in (*call.args, index)):
        raise UnfitError("the index is not plain")
    start, end = tree.span(call)
    tree.uncommented(start, end)
    given = tree.text[tree.span(node)[1] : end]
    name, imports = torch_name(tree, "torch.stack")
    every = f"[part{given} for part in {tree.source(node.value)}]"
    return [*imports, tree.replaced(start, end, f"{name}({every})[{tree.source(index)}[None]][0]")]


def hoisted(tree: Tree, edit: Hoisted) -> list[Text]:
    """An expression that needs nothing of the call, computed when the module is made."""
    node = tree.expression(edit.range)
    function, cls = tree.around(node, cst.FunctionDef), tree.around(node, cst.ClassDef)
    if tree.parents[tree.parents[function]] is not cls:
        raise UnfitError("it is in no method")
    own = {each.value for each in names_in(tree, function.body) if isinstance(tree.parents[each], cst.AssignTarget)}
    own |= {param.name.value for param in tree.inside(function.params, cst.Param)}
    if any(each.value in own for each in names_in(tree, node)):
        raise UnfitError("it needs what the call is given")
    if any(is_attribute(each, edit.name) for each in tree.inside(cls, cst.Attribute)):
        raise UnfitError("the name is taken")
    start, end = tree.span(node)
    tree.uncommented(start, end)
    line = f"self.{edit.name} = {tree.text[start:end]}"
    return [in_init(tree, cls, line), tree.replaced(start, end, f"self.{edit.name}")]


def computed(tree: Tree, edit: Computed) -> list[Text]:
    """A tensor in the place of a number that a call draws."""
    call = tree.find(edit.range, cst.Call)
    _need_computing(tree, call, tree.around(call, cst.FunctionDef))
    start, end = tree.span(call)
    tree.uncommented(start, end)
    if any(arg.star or arg.keyword is not None for arg in call.args):
        raise UnfitError("its arguments are not plain")
    given = ", ".join(tree.source(arg.value) for arg in call.args)
    name, imports = torch_name(tree, "torch.")
    return [*imports, tree.replaced(start, end, edit.source.replace(ARGUMENT, given).replace("torch.", name, 1))]


def followed(tree: Tree, edit: Followed) -> list[Text]:
    """A tensor that is the default of a parameter, moved where the function begins."""
    node = tree.expression(edit.range)
    function = tree.around(node, cst.FunctionDef)
    first = function.body.body[0] if isinstance(function.body, cst.IndentedBlock) else None
    if first is None or (isinstance(first, cst.SimpleStatementLine) and _is_docstring(first)):
        raise UnfitError("there is no place for it")
    for each in names_in(tree, function.body):
        if each.value == edit.name and isinstance(tree.parents[each], (cst.Comparison, cst.AssignTarget)):
            raise UnfitError("it may be something else")
    start = tree.span(first)[0]
    space = indentation(tree, first)
    moved = f"{edit.name} = {edit.name}.to({edit.source})"
    return [Text(start, start, f"{moved}{tree.module.default_newline}{space}")]


def _is_docstring(line: cst.SimpleStatementLine) -> bool:
    return isinstance(line.body[0], cst.Expr) and isinstance(line.body[0].value, cst.BaseString)


_ASKED = ("max", "min", "sum")


def plain(tree: Tree, edit: Plain) -> list[Text]:
    """Sizes that numpy is given, as the tuple that they are."""
    call = tree.find(edit.range, cst.Call)
    if len(call.args) != 1 or call.args[0].keyword is not None or call.args[0].star:
        raise UnfitError("it is given more than sizes")
    name, _ = assigned(tree.parents[call])
    made = [tree.replaced(*tree.span(call), tree.source(call.args[0].value))]
    for each in names_in(tree, tree.around(call, cst.FunctionDef)):
        if each.value != name.value or each is name:
            continue
        method = tree.parents[each]
        asked = tree.parents[method]
        known = isinstance(method, cst.Attribute) and last_name(method) in _ASKED
        if not known or not isinstance(asked, cst.Call) or asked.args or asked.func is not method:
            raise UnfitError("more is done with the array than asking for the largest or smallest")
        made.append(tree.replaced(*tree.span(asked), f"{last_name(method)}({name.value})"))
    return made
