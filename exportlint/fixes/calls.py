"""The text that edits of calls come to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from exportlint.fixes.edits import ARGUMENT
from exportlint.fixes.imports import torch_name
from exportlint.fixes.tree import Text, Tree, UnfitError, is_atom, last_name

if TYPE_CHECKING:
    from exportlint.fixes.edits import Answered, Behind, Keyword, Moved, OfArgument, Tensorial

Whitespace = cst.BaseParenthesizableWhitespace

# The dtypes of the types that tensors had before there were dtypes.
_DTYPES = {
    "FloatTensor": "float32",
    "DoubleTensor": "float64",
    "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16",
    "LongTensor": "int64",
    "IntTensor": "int32",
    "ShortTensor": "int16",
    "CharTensor": "int8",
    "ByteTensor": "uint8",
    "BoolTensor": "bool",
}


def keyword(tree: Tree, edit: Keyword) -> list[Text]:
    """The call with a keyword argument, in the style of its other arguments."""
    call = tree.find(edit.range, cst.Call)
    given = _argument(call, edit.name, edit.position)
    if given is not None:
        return [tree.replaced(*tree.span(given.value), edit.source)]
    if any(arg.star == "**" for arg in call.args):
        raise UnfitError("the call may be given it already")
    if len(call.args) == 1 and isinstance(call.args[0].value, cst.GeneratorExp) and not call.args[0].value.lpar:
        raise UnfitError("a generator is the only argument")
    added = cst.Arg(cst.parse_expression(edit.source), cst.Name(edit.name), equal=_EQUAL)
    return [tree.exchanged(call, call.with_changes(args=_with(call, added)))]


_EQUAL = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def _argument(call: cst.Call, name: str, position: int = -1) -> cst.Arg | None:
    """The argument of this name, or at this position."""
    for i, arg in enumerate(call.args):
        if arg.star == "*":
            position = -1
        if (arg.keyword is not None and arg.keyword.value == name) or (
            i == position and arg.keyword is None and not arg.star
        ):
            return arg
    return None


def _with(call: cst.Call, added: cst.Arg) -> list[cst.Arg]:
    """The arguments of a call and one more: on a line of its own where they have such, with a comma where they do."""
    if not call.args:
        return [added]
    *before, last = call.args
    lead: Whitespace = call.whitespace_before_args
    if before and isinstance(before[-1].comma, cst.Comma):
        lead = before[-1].comma.whitespace_after
    if not before and not isinstance(lead, cst.ParenthesizedWhitespace):
        lead = cst.SimpleWhitespace(" ")
    trailing = isinstance(last.comma, cst.Comma)
    tail = last.comma.whitespace_after if isinstance(last.comma, cst.Comma) else last.whitespace_after_arg
    first, rest = _split(tail, lead)
    here = last.with_changes(comma=cst.Comma(whitespace_after=first), whitespace_after_arg=cst.SimpleWhitespace(""))
    if trailing:
        return [*before, here, added.with_changes(comma=cst.Comma(whitespace_after=rest))]
    return [*before, here, added.with_changes(whitespace_after_arg=rest)]


def _split(tail: Whitespace, lead: Whitespace) -> tuple[Whitespace, Whitespace]:
    """The space before and behind a new last argument, whose comment, if any, stays with the one before it."""
    if not isinstance(tail, cst.ParenthesizedWhitespace):
        if isinstance(lead, cst.ParenthesizedWhitespace):
            return cst.ParenthesizedWhitespace(indent=lead.indent, last_line=lead.last_line), tail
        return lead, tail
    if not isinstance(lead, cst.ParenthesizedWhitespace):
        return (lead, tail) if tail.first_line.comment is None else (tail, cst.SimpleWhitespace(""))
    behind = tail.with_changes(first_line=cst.TrailingWhitespace(), empty_lines=())
    return tail.with_changes(indent=lead.indent, last_line=lead.last_line), behind


def _given(tree: Tree, arg: cst.Arg) -> str:
    """The text of an argument with a name."""
    return f"{arg.keyword.value if arg.keyword is not None else ''}={tree.source(arg.value)}"


def moved(tree: Tree, edit: Moved) -> list[Text]:
    """``.cuda()`` and its like as ``.to(DEVICE)``; of a ``.to(...)`` the device is replaced."""
    call = tree.find(edit.range, cst.Call)
    if not isinstance(call.func, cst.Attribute):
        raise UnfitError("it is no method")
    if call.func.attr.value == "type":
        return _retyped(tree, call, call.func, edit.source)
    if call.func.attr.value == "to":
        given = _argument(call, "device", 0)
        if given is None:
            raise UnfitError("it names no device")
        if edit.source == f"{tree.source(call.func.value)}.device":
            raise UnfitError("what is moved is the only tensor at hand")
        return [tree.replaced(*tree.span(given.value), edit.source)]
    start, end = tree.span(call.func.attr)[0], tree.span(call)[1]
    tree.uncommented(start, end)
    kept = [arg for arg in call.args if arg.keyword is not None and arg.keyword.value != "device"]
    if any(arg.star for arg in call.args):
        raise UnfitError("it is given more than is written")
    receiver = tree.source(call.func.value)
    if not kept and edit.source == f"{receiver}.device":  # it is there already
        return [tree.replaced(tree.span(call)[0], end, receiver)]
    more = "".join(f", {_given(tree, arg)}" for arg in kept)
    return [tree.replaced(start, end, f"to({edit.source}{more})")]


def _retyped(tree: Tree, call: cst.Call, method: cst.Attribute, device: str) -> list[Text]:
    """``.type(torch.FloatTensor)``, which is a device and a dtype, as ``.to(DEVICE, torch.float32)``."""
    if len(call.args) != 1 or call.args[0].star:
        raise UnfitError("it is given more than a type")
    given = call.args[0].value
    name = given.raw_value if isinstance(given, cst.SimpleString) else last_name(given)
    dtype = _DTYPES.get(name.rpartition(".")[2])
    if dtype is None:
        raise UnfitError("it is no type of tensors")
    start, end = tree.span(method.attr)[0], tree.span(call)[1]
    tree.uncommented(start, end)
    spelt, imports = torch_name(tree, f"torch.{dtype}")
    there = device == f"{tree.source(method.value)}.device"
    return [*imports, tree.replaced(start, end, f"to({spelt})" if there else f"to({device}, {spelt})")]


def behind(tree: Tree, edit: Behind) -> list[Text]:
    """An expression with something behind it."""
    node = tree.expression(edit.range)
    if not is_atom(node):
        raise UnfitError("nothing can be written behind it")
    end = tree.span(node)[1]
    return [Text(end, end, edit.source)]


def of_argument(tree: Tree, edit: OfArgument) -> list[Text]:
    """Something made of the first argument of a call, which is written several times only if it is a name."""
    call = tree.find(edit.range, cst.Call)
    if not call.args or call.args[0].star or call.args[0].keyword is not None or (edit.alone and len(call.args) > 1):
        raise UnfitError("it has not one argument")
    value = call.args[0].value
    if edit.code.count(ARGUMENT) > 1 and not isinstance(value, cst.Name):
        raise UnfitError("the argument would be computed twice")
    start, end = tree.span(call)
    first, last = tree.span(value)
    tree.uncommented(start, first)
    tree.uncommented(last, end)
    found = tree.source(value)
    text = edit.code.replace(ARGUMENT, found if is_atom(value) else f"({found})")
    if "torch." not in edit.code:
        return [tree.replaced(start, end, text)]
    name, imports = torch_name(tree, "torch.")
    return [*imports, tree.replaced(start, end, text.replace("torch.", name, 1))]


def answered(tree: Tree, edit: Answered) -> list[Text]:
    """A keyword argument as a plain bool."""
    call = tree.find(edit.range, cst.Call)
    given = _argument(call, edit.name)
    if given is None or isinstance(given.value, (cst.IfExp, cst.Lambda)):
        raise UnfitError("there is no such argument")
    return [tree.replaced(*tree.span(given.value), f"True if {tree.source(given.value)} else False")]


_BACK = ("from_numpy", "as_tensor", "asarray", "tensor")
_TOLD = ("dtype", "device")


def tensorial(tree: Tree, edit: Tensorial) -> list[Text]:
    """The tensor itself, where an array of it becomes a tensor again at once."""
    call = tree.find(edit.range, cst.Call)
    outer = tree.parents.get(tree.parents[call])
    if not isinstance(outer, cst.Call) or last_name(outer.func) not in _BACK or outer.args[0].value is not call:
        raise UnfitError("the array is used as one")
    if not isinstance(call.func, cst.Attribute) or call.args:
        raise UnfitError("it is no plain .numpy()")
    more = outer.args[1:]
    if any(arg.keyword is None or arg.keyword.value not in _TOLD for arg in more):
        raise UnfitError("the tensor is made otherwise")
    start, end = tree.span(outer)
    first, last = tree.span(call.func.value)
    tree.uncommented(start, first)
    tree.uncommented(last, end)
    found = tree.source(call.func.value)
    if more:
        told = ", ".join(_given(tree, arg) for arg in more)
        found += f".to({told})"
    elif last_name(outer.func) == "tensor":
        found += ".clone()"
    return [tree.replaced(start, end, found)]
