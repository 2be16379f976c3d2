"""Tables that are kept for the next call, made anew in each call."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from exportlint.fixes.blocks import in_place_of, lines_of, names_in, smalls, without
from exportlint.fixes.tree import Text, Tree, UnfitError, is_attribute, last_name

if TYPE_CHECKING:
    from exportlint.fixes.edits import Recomputed, Undecorated


def undecorated(tree: Tree, edit: Undecorated) -> list[Text]:
    """A function without the decorator that keeps its results."""
    call = tree.find(edit.range, cst.Call)
    name = call.func.value if isinstance(call.func, cst.Name) else ""
    found = [s for s in tree.module.body if isinstance(s, cst.FunctionDef) and s.name.value == name]
    if len(found) != 1:
        raise UnfitError("the function is not in the file")
    for each in tree.inside(tree.module, cst.Attribute):
        if isinstance(each.value, cst.Name) and each.value.value == name:  # such as `table.cache_clear()`
            raise UnfitError("the cache is used")
    for decorator in found[0].decorators:
        made = decorator.decorator.func if isinstance(decorator.decorator, cst.Call) else decorator.decorator
        if last_name(made) in (edit.name, "cache"):
            line = tree.positions[decorator].start.line
            start, end = tree.offset(line, 1), tree.offset(tree.positions[decorator].end.line + 1, 1)
            tree.uncommented(start, end)
            return [Text(start, end, "")]
    raise UnfitError("the function is not decorated so")


def recomputed(tree: Tree, edit: Recomputed) -> list[Text]:
    """What an ``if`` keeps on ``self`` as variables that each call computes, without the ``if``."""
    node = tree.around(tree.expression(edit.range), cst.If)
    function, cls = tree.around(node, cst.FunctionDef), tree.around(node, cst.ClassDef)
    if node.orelse is not None or tree.parents[node] is not function.body:
        raise UnfitError("it does not hold for all of the call")
    kept = [name for statement in smalls(node.body.body) if (name := _kept(statement))]
    if not kept:
        raise UnfitError("it keeps nothing on self")
    end = tree.span(node)[1]
    reads = {name: _reads(tree, cls, function, node, name) for name in kept}
    lines = lines_of(tree, node.body, tree.span(node.test)[1])
    for name in kept:
        new = _variable(tree, function, name)
        if reads[name] or _is_read(tree, node, name):
            lines = [re.sub(rf"\bself\.{name}\b", new, line) for line in lines]
        else:
            lines = [line for line in lines if not re.match(rf"self\.{name}\s*=[^=]", line)]
    made = [in_place_of(tree, node, lines, end)]
    made += [Text(*place, _variable(tree, function, name)) for name in kept for place in reads[name]]
    return [*made, *(text for name in kept for text in _forgotten(tree, cls, name))]


def _kept(statement: cst.BaseSmallStatement) -> str:
    """The attribute of ``self`` that a statement binds; empty where it binds a variable."""
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        raise UnfitError("it does more than binding names")
    target = statement.targets[0].target
    if isinstance(target, cst.Attribute) and is_attribute(target, target.attr.value):
        return target.attr.value
    if isinstance(target, cst.Name):
        return ""
    raise UnfitError("it does more than binding names")


def _reads(tree: Tree, cls: cst.ClassDef, function: cst.FunctionDef, node: cst.If, name: str) -> list[tuple[int, int]]:
    """The places behind an ``if`` where its function names an attribute, which nothing else does but ``__init__``.

    Raises:
        UnfitError: When something else does.
    """
    found = []
    start, end = tree.span(node)
    last = tree.span(function)[1]
    for each in tree.inside(cls, cst.Attribute):
        if not is_attribute(each, name):
            continue
        place = tree.span(each)
        if end <= place[0] < last:
            found.append(place)
        elif not start <= place[0] < end and not _is_first_value(tree, each):
            raise UnfitError("it is used elsewhere")
    if re.search(rf"""["']{name}["']""", tree.text):
        raise UnfitError("it is named elsewhere")
    return found


def _is_first_value(tree: Tree, node: cst.Attribute) -> bool:
    """Whether an attribute is bound in ``__init__``."""
    return (
        isinstance(tree.parents[node], cst.AssignTarget)
        and tree.around(node, cst.FunctionDef).name.value == "__init__"
    )  # fmt: skip


def _is_read(tree: Tree, node: cst.If, name: str) -> bool:
    """Whether the body of an ``if`` reads an attribute."""
    found = [each for each in tree.inside(node.body, cst.Attribute) if is_attribute(each, name)]
    return any(not isinstance(tree.parents[each], cst.AssignTarget) for each in found)


def _variable(tree: Tree, function: cst.FunctionDef, name: str) -> str:
    """The variable that an attribute becomes."""
    new = name.strip("_")
    if not new or any(each.value == new for each in names_in(tree, function)):
        raise UnfitError("the name of the variable is taken")
    return new


def _forgotten(tree: Tree, cls: cst.ClassDef, name: str) -> list[Text]:
    """The statement that begins with nothing, which is taken out."""
    found = []
    for statement in tree.inside(cls, cst.SimpleStatementLine):
        assign = statement.body[0]
        if not isinstance(assign, cst.Assign) or len(statement.body) != 1 or len(assign.targets) != 1:
            continue
        number = assign.value.expression if isinstance(assign.value, cst.UnaryOperation) else assign.value
        plain = last_name(number) == "None" or isinstance(number, cst.Integer)
        inside = tree.around(assign, cst.FunctionDef).name.value == "__init__" if plain else False
        if inside and is_attribute(assign.targets[0].target, name):
            found.append(without(tree, statement))
    return found
