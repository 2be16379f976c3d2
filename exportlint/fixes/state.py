"""The text that edits of what a module keeps come to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from exportlint.fixes import decisions
from exportlint.fixes.blocks import names_in, without
from exportlint.fixes.imports import torch_name
from exportlint.fixes.initial import in_init
from exportlint.fixes.tree import Text, Tree, UnfitError, is_attribute, last_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from exportlint.fixes.edits import Copied, Counted, Listed, Owned, Registered, Renamed

_NAMED = ("register_buffer", "register_parameter", "register_module", "add_module")
# Bases that are known to bind no attribute that a model would give a tensor to.
_KNOWN_BASES = frozenset({"Module", "PreTrainedModel", "LightningModule", "GenerationMixin", "ABC", "object"})
_INPLACE = {cst.AddAssign: "add_", cst.SubtractAssign: "sub_", cst.MultiplyAssign: "mul_"}


def registered(tree: Tree, edit: Registered) -> list[Text]:
    """The assignment as a registered buffer, where it is the only one and the module is initialised before it."""
    node = tree.expression(edit.range)
    assign = tree.around(node, cst.Assign)
    target = assign.targets[0].target
    function, cls = tree.around(assign, cst.FunctionDef), tree.around(assign, cst.ClassDef)
    if len(assign.targets) != 1 or not is_attribute(target, edit.name) or function.name.value != "__init__":
        raise UnfitError("it is not bound by a plain assignment in __init__")
    others = [
        other
        for other in _bindings(tree, cls, edit.name)
        if other is not assign and not any(is_attribute(n, edit.name) for n in tree.inside(other.value, cst.Attribute))
    ]
    first = _empty_first(tree, function, assign, others) if others else None
    start, end = tree.span(first or assign)
    _need_initialised(tree, function, start)
    _need_free(tree, cls, edit.name)
    if len(re.findall(rf"\.{edit.name}\s*(?::[^=\n]*)?=(?!=)", tree.text)) > len(_bindings(tree, cls, edit.name)):
        raise UnfitError("another class of the file binds it as well")
    if first is not None:  # a tensor that is assigned later becomes the buffer
        return [tree.replaced(start, end, f'self.register_buffer("{edit.name}", None, persistent=False)')]
    sign = re.compile(r"\s*=\s*").match(tree.text, tree.span(target)[1])
    if sign is None:
        raise UnfitError("it is not a plain assignment")
    return [
        Text(start, sign.end(), f'self.register_buffer("{edit.name}", '),
        Text(end, end, ", persistent=False)"),
    ]


def _empty_first(tree: Tree, function: cst.FunctionDef, assign: cst.Assign, others: Sequence[cst.Assign]) -> cst.Assign:
    """The only other assignment, where it binds ``None`` in any case before the one that binds a tensor.

    Raises:
        UnfitError: When it does not, or there are more.
    """
    first = others[0]
    line = tree.parents[first]
    plain = len(others) == 1 and len(first.targets) == 1 and last_name(first.value) == "None"
    if not plain or tree.parents[line] is not function.body or tree.span(first)[0] > tree.span(assign)[0]:
        raise UnfitError("it is bound elsewhere as well")
    return first


def _need_initialised(tree: Tree, function: cst.FunctionDef, start: int) -> None:
    """Look whether the module's own ``__init__`` is called in a function before an offset.

    Raises:
        UnfitError: When it is not.
    """
    if "__init__(" not in tree.text[tree.span(function.body)[0] : start]:
        raise UnfitError("the module is not initialised before it")


def _need_free(tree: Tree, cls: cst.ClassDef, name: str) -> None:
    """Look whether a buffer may have the name: torch refuses one that a class or a base has for something else.

    Raises:
        UnfitError: When it may not, or a base is not known.
    """
    if name in _bound_by_class(cls):
        raise UnfitError("the class has an attribute of that name")
    defined = {c.name.value: c for c in tree.inside(tree.module, cst.ClassDef)}
    waiting, seen = [cls], {cls.name.value}
    while waiting:
        for argument in waiting.pop().bases:
            base = last_name(argument.value)
            if base in seen or base in _KNOWN_BASES:
                continue
            seen.add(base)
            if base not in defined:
                raise UnfitError("what a base of the class binds is not known")
            if name in _bound_by_class(defined[base]) or _bindings(tree, defined[base], name):
                raise UnfitError("a base of the class has an attribute of that name")
            waiting.append(defined[base])


def _bound_by_class(cls: cst.ClassDef) -> set[str]:
    """The names that the body of a class binds."""
    found: set[str] = set()
    for statement in cls.body.body:
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            found.add(statement.name.value)
        for part in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
            targets = [t.target for t in part.targets] if isinstance(part, cst.Assign) else []
            targets += [part.target] if isinstance(part, cst.AnnAssign) and part.value is not None else []
            found.update(target.value for target in targets if isinstance(target, cst.Name))
    return found


def _bindings(tree: Tree, cls: cst.ClassDef, name: str) -> list[cst.Assign]:
    """The assignments in a class that bind ``self.NAME``."""
    found = tree.inside(cls, cst.Assign)
    return [a for a in found if any(_binds(tree, t.target, name) for t in a.targets)]


def _binds(tree: Tree, target: cst.BaseAssignTargetExpression, name: str) -> bool:
    if isinstance(target, (cst.Tuple, cst.List)):
        return any(is_attribute(node, name) for node in tree.inside(target, cst.Attribute))
    return is_attribute(target, name)


def listed(tree: Tree, edit: Listed) -> list[Text]:
    """A list of modules as one that the module knows."""
    cls = tree.around(tree.expression(edit.range), cst.ClassDef)
    bindings = _bindings(tree, cls, edit.name)
    if len(bindings) != 1 or not isinstance(bindings[0].value, (cst.List, cst.ListComp)):
        raise UnfitError("it is not bound to one list")
    value = bindings[0].value
    made = _elements(value) or _appended(tree, cls, edit.name)
    names = {last_name(e.func) if isinstance(e, cst.Call) else "" for e in made}
    if not names or any(not name[:1].isupper() for name in names) or ("Parameter" in names and len(names) > 1):
        raise UnfitError("what is in the list is not known")
    kind = "ParameterList" if names == {"Parameter"} else "ModuleList"
    name, imports = _nn_name(tree, kind)
    start, end = tree.span(value)
    return [*imports, Text(start, start, f"{name}("), Text(end, end, ")")]


def _elements(value: cst.List | cst.ListComp) -> list[cst.BaseExpression]:
    return [value.elt] if isinstance(value, cst.ListComp) else [element.value for element in value.elements]


def _appended(tree: Tree, cls: cst.ClassDef, name: str) -> list[cst.BaseExpression]:
    """What is appended to an attribute in a class."""
    found = tree.inside(cls, cst.Call)
    return [
        call.args[0].value
        for call in found
        if isinstance(call.func, cst.Attribute)
        and call.func.attr.value == "append"
        and is_attribute(call.func.value, name)
        and len(call.args) == 1
    ]


def _nn_name(tree: Tree, kind: str) -> tuple[str, list[Text]]:
    if re.search(r"^(?:from torch import .*\bnn\b|import torch\.nn as nn\b)", tree.text, re.MULTILINE):
        return f"nn.{kind}", []
    return torch_name(tree, f"torch.nn.{kind}")


def renamed(tree: Tree, edit: Renamed) -> list[Text]:
    """An attribute under another name, wherever its class names it."""
    cls = tree.around(tree.expression(edit.range), cst.ClassDef)
    for other in tree.inside(tree.module, cst.ClassDef):
        if any(last_name(base.value) == cls.name.value for base in other.bases):
            raise UnfitError("a class that derives from this one may name it")
    attributes = list(tree.inside(cls, cst.Attribute))
    new = _free(edit.new, {node.attr.value for node in attributes} | _bound_by_class(cls))
    found = [tree.span(node.attr) for node in attributes if is_attribute(node, edit.name)]
    for call in tree.inside(cls, cst.Call):
        first = call.args[0].value if call.args else None
        if last_name(call.func) in ("getattr", "setattr", "hasattr", "delattr") and len(call.args) > 1:
            first = call.args[1].value
        named = isinstance(first, cst.SimpleString) and first.evaluated_value == edit.name
        if named and first is not None and last_name(call.func) in _NAMED:
            start, end = tree.span(first)
            found.append((start + 1, end - 1))
        elif named:
            raise UnfitError("it is asked for by its name")
    return [Text(start, end, new) for start, end in sorted(found)]


def _free(name: str, taken: set[str]) -> str:
    """The name, or the first of those like it that is not taken."""
    names = (name, *(f"{name}{number}" for number in range(2, 100)))
    found = next((each for each in names if each not in taken), None)
    if found is None:
        raise UnfitError("the new name is taken")
    return found


def counted(tree: Tree, edit: Counted) -> list[Text]:
    """A number that each call changes as a buffer that is changed in place, where else it is only computed with."""
    change = _change(tree, edit)
    operator = _INPLACE.get(type(change.operator))
    cls = tree.around(change, cst.ClassDef)
    bindings = _bindings(tree, cls, edit.name)
    if operator is None or not is_attribute(change.target, edit.name) or len(bindings) != 1:
        raise UnfitError("it is no plain counter")
    first = bindings[0].value
    function = tree.around(bindings[0], cst.FunctionDef)
    if not isinstance(first, (cst.Integer, cst.Float)) or function.name.value != "__init__":
        raise UnfitError("it does not start as a number")
    start, end = tree.span(bindings[0])
    _need_initialised(tree, function, start)
    _need_free(tree, cls, edit.name)
    chosen: list[Text] = []
    for node in tree.inside(cls, cst.Attribute):
        outer = tree.parents[node]
        bound = isinstance(outer, cst.AssignTarget) or outer is change
        if is_attribute(node, edit.name) and not bound and not isinstance(outer, cst.BinaryOperation):
            chosen += _decision(tree, outer)
    name, imports = torch_name(tree, "torch.tensor")
    imports += chosen
    kept = f'self.register_buffer("{edit.name}", {name}({tree.source(first)}), persistent=False)'
    tree.uncommented(*tree.span(change))
    changed = f"{tree.source(change.target)}.{operator}({tree.source(change.value)})"
    return [*imports, tree.replaced(start, end, kept), tree.replaced(*tree.span(change), changed)]


def _decision(tree: Tree, node: cst.CSTNode) -> list[Text]:
    """A decision by a number as one by the tensor that it becomes."""
    if isinstance(node, (cst.Comparison, cst.ComparisonTarget)):
        compared = node if isinstance(node, cst.Comparison) else tree.parents[node]
        outer = tree.parents[compared]
        if isinstance(outer, cst.If) and outer.test is compared:
            return decisions.chosen(tree, outer)
    raise UnfitError("it is not only computed with")


def owned(tree: Tree, edit: Owned) -> list[Text]:
    """A global number that each call of a method changes as a buffer of the module."""
    change = _change(tree, edit)
    operator = _INPLACE.get(type(change.operator))
    function, cls = tree.around(change, cst.FunctionDef), tree.around(change, cst.ClassDef)
    new = edit.name.lower()
    if not new.isidentifier():
        raise UnfitError("it is no global of this file")
    _need_alone(tree, function, edit.name)
    if operator is None or tree.parents[tree.parents[function]] is not cls:
        raise UnfitError("it is no plain counter")
    _need_free(tree, cls, new)
    if any(is_attribute(node, new) for node in tree.inside(cls, cst.Attribute)):
        raise UnfitError("the name is taken")
    name, imports = torch_name(tree, "torch.tensor")
    kept = f'self.register_buffer("{new}", {name}({edit.name}), persistent=False)'
    made = [*imports, in_init(tree, cls, kept)]
    for node in names_in(tree, function.body):
        outer = tree.parents[node]
        if node.value != edit.name:
            continue
        if isinstance(outer, cst.NameItem):
            made.append(_undeclared(tree, outer))
            continue
        if outer is not change and not isinstance(outer, cst.BinaryOperation):
            raise UnfitError("it is not only computed with")
        if outer is not change:
            made.append(tree.replaced(*tree.span(node), f"self.{new}"))
    tree.uncommented(*tree.span(change))
    return [*made, tree.replaced(*tree.span(change), f"self.{new}.{operator}({tree.source(change.value)})")]


def _undeclared(tree: Tree, item: cst.NameItem) -> Text:
    """The edit that takes out a ``global`` statement of one name."""
    statement = tree.parents[item]
    line = tree.parents[statement]
    if (
        not isinstance(statement, cst.Global)
        or len(statement.names) != 1
        or not isinstance(line, cst.SimpleStatementLine)
    ):
        raise UnfitError("it is declared with others")
    return without(tree, line)


def _need_alone(tree: Tree, function: cst.FunctionDef, name: str) -> None:
    """Look whether one function alone changes a global number, and nothing else in the file reads it.

    Raises:
        UnfitError: When something else does.
    """
    start, end = tree.span(function)
    for node in tree.inside(tree.module, cst.Name):
        if node.value == name and not start <= tree.span(node)[0] < end and not _is_number(tree, node):
            raise UnfitError("it is used elsewhere")


def _is_number(tree: Tree, node: cst.Name) -> bool:
    """Whether a name is bound to a number at the top level of the file."""
    return any(
        isinstance(small, cst.Assign)
        and isinstance(small.value, cst.Integer)
        and any(target.target is node for target in small.targets)
        for line in tree.module.body
        if isinstance(line, cst.SimpleStatementLine)
        for small in line.body
    )


def copied(tree: Tree, edit: Copied) -> list[Text]:
    """A buffer that is bound anew, written to in place."""
    node = tree.find(edit.range, cst.CSTNode)  # type: ignore[type-abstract]
    assign = node if isinstance(node, cst.Assign) else tree.around(node, cst.Assign)
    target = assign.targets[0].target
    if len(assign.targets) != 1 or not is_attribute(target, edit.name):
        raise UnfitError("it is not bound by a plain assignment")
    start, end = tree.span(assign)
    tree.uncommented(start, end)
    return [tree.replaced(start, end, f"self.{edit.name}.copy_({tree.text[slice(*tree.span(assign.value))]})")]


def _change(tree: Tree, edit: Counted | Owned) -> cst.AugAssign:
    """The augmented assignment at a place, or whose target is there."""
    try:
        return tree.find(edit.range, cst.AugAssign)
    except UnfitError:
        found = tree.parents[tree.expression(edit.range)]
    if not isinstance(found, cst.AugAssign):
        raise UnfitError("it is no counter")
    return found
