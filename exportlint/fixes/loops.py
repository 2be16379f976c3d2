"""Loops over the rows of tensors as computations of all rows at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from exportlint.fixes.blocks import assigned, in_place_of, mentions, names_in, rows_of, smalls
from exportlint.fixes.tree import Text, Tree, UnfitError, last_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from exportlint.fixes.edits import Vectorised


def vectorised(tree: Tree, edit: Vectorised) -> list[Text]:
    """A list of results of rows that is stacked, or a sum over rows, without the loop."""
    rows = tree.expression(edit.range)
    outer = tree.parents[rows]
    if isinstance(outer, cst.CompFor) and isinstance(tree.parents[outer], (cst.ListComp, cst.GeneratorExp)):
        return _stacked(tree, outer, tree.parents[outer])
    if isinstance(outer, cst.For) and outer.iter is rows:
        return _summed(tree, outer)
    raise UnfitError("it is no plain loop")


def _stacked(tree: Tree, loop: cst.CompFor, made: cst.CSTNode) -> list[Text]:
    """``torch.stack`` of a list that a comprehension makes, row by row."""
    if not isinstance(made, cst.ListComp) or loop.ifs or loop.inner_for_in is not None:
        raise UnfitError("it makes no plain list")
    tree.uncommented(*tree.span(made))
    stack, calls = _stack(tree, made)
    text = _lifted(tree, loop.target, loop.iter, made.elt)
    if stack.args[0].value is made:
        return [tree.replaced(*tree.span(stack), text)]
    return [tree.replaced(*tree.span(made), text), tree.replaced(*tree.span(stack), tree.source(calls))]


def _stack(tree: Tree, made: cst.ListComp) -> tuple[cst.Call, cst.BaseExpression]:
    """The call that stacks a list, which nothing else is done with, and the list as that call names it."""
    outer = tree.parents[made]
    if isinstance(outer, cst.Arg):
        return _need_stack(tree.parents[outer]), made
    name, _ = assigned(outer)
    function = tree.around(made, cst.FunctionDef)
    uses = [each for each in names_in(tree, function) if each.value == name.value and each is not name]
    argument = tree.parents[uses[0]] if len(uses) == 1 else None
    if not isinstance(argument, cst.Arg):
        raise UnfitError("more is done with the list than stacking it")
    return _need_stack(tree.parents[argument]), uses[0]


def _need_stack(call: cst.CSTNode) -> cst.Call:
    """A call of ``torch.stack`` along the first dimension.

    Raises:
        UnfitError: When it is none.
    """
    if not isinstance(call, cst.Call) or last_name(call.func) != "stack":
        raise UnfitError("more is done with the list than stacking it")
    rest = call.args[1:]
    first = all(isinstance(arg.value, cst.Integer) and arg.value.value == "0" for arg in rest)
    if not first or (rest and rest[0].keyword is not None and rest[0].keyword.value != "dim"):
        raise UnfitError("it is stacked along another dimension")
    return call


def _lifted(tree: Tree, target: cst.BaseExpression, rows: cst.BaseExpression, body: cst.BaseExpression) -> str:
    """What is computed of one row, computed of all of them.

    Raises:
        UnfitError: When it is not known how.
    """
    if isinstance(rows, cst.Call) and last_name(rows.func) == "range":
        counted = rows_of(rows.args[0].value) if len(rows.args) == 1 else ""
        if not counted or not isinstance(target, cst.Name) or not mentions(tree, body, counted):
            raise UnfitError("the loop does not count the rows of a tensor")
        return _Lift(tree, {}, target.value).text(body)
    given = [arg.value for arg in rows.args] if isinstance(rows, cst.Call) and last_name(rows.func) == "zip" else [rows]
    parts = [e.value for e in target.elements] if isinstance(target, (cst.Tuple, cst.List)) else [target]
    if len(parts) != len(given) or not all(isinstance(part, cst.Name) for part in (*parts, *given)):
        raise UnfitError("the loop unpacks more than rows")
    return _Lift(tree, {last_name(p): tree.source(g) for p, g in zip(parts, given, strict=True)}).text(body)


@dataclass(slots=True)
class _Lift:
    """Expressions of rows as expressions of the tensors that have the rows.

    Attributes:
        tree: The file.
        tensors: The tensor of each variable that is a row.
        index: The variable that counts the rows, where they are named by it.
    """

    tree: Tree
    tensors: dict[str, str]
    index: str = ""

    def text(self, node: cst.BaseExpression) -> str:
        """The same of all rows."""
        found = self._inner(node)
        return f"({found})" if node.lpar else found

    def _inner(self, node: cst.BaseExpression) -> str:
        if isinstance(node, cst.Name) and node.value in self.tensors:
            return self.tensors[node.value]
        if self.index and isinstance(node, cst.Subscript) and isinstance(node.value, cst.Name):
            if _row(node) == self.index:
                return node.value.value
        elif isinstance(node, cst.BinaryOperation) and not isinstance(node.operator, cst.MatrixMultiply):
            left, right = self._operand(node.left), self._operand(node.right)
            sign = self.tree.text[self.tree.span(node.operator)[0] : self.tree.span(node.operator)[1]]
            return f"{left} {sign.strip()} {right}"
        elif isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
            return f"-{self.text(node.expression)}"
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            return self._call(node, node.func)
        raise UnfitError("what it computes of a row is not known of all")

    def _operand(self, node: cst.BaseExpression) -> str:
        return self.tree.source(node) if isinstance(node, (cst.Integer, cst.Float)) else self.text(node)

    def _call(self, node: cst.Call, func: cst.Attribute) -> str:
        name = func.attr.value
        numbers = all(isinstance(arg.value, (cst.Integer, cst.Float)) for arg in node.args)
        if name in _ELEMENTWISE and numbers:
            given = ", ".join(self.tree.source(arg.value) for arg in node.args)
            if all(arg.keyword is None for arg in node.args):
                return f"{self.text(func.value)}.{name}({given})"
        if name in _REDUCTIONS and not node.args:
            return f"{self.text(func.value)}.flatten(1).{name}(1)"
        if name in _ALONG and isinstance(func.value, cst.Name) and func.value.value not in self.tensors:
            return f"{self.tree.source(func)}({', '.join(self._argument(arg) for arg in _with_dim(node.args))})"
        raise UnfitError("what it computes of a row is not known of all")

    def _argument(self, arg: cst.Arg) -> str:
        if arg.keyword is None:
            return self.text(arg.value)
        if arg.keyword.value == "dim" and isinstance(arg.value, cst.Integer):
            return f"dim={int(arg.value.value) + 1}"
        if arg.keyword.value == "dim" and isinstance(arg.value, cst.UnaryOperation):  # counted from the last
            return f"dim={self.tree.source(arg.value)}"
        raise UnfitError("what it computes of a row is not known of all")


# Methods that compute element by element, or of all elements; functions along the dimension that is named.
_ELEMENTWISE = ("abs", "exp", "log", "relu", "sigmoid", "tanh", "sqrt", "square", "clamp", "pow", "neg", "float")
_REDUCTIONS = ("mean", "sum")
_ALONG = ("cosine_similarity", "softmax", "log_softmax", "normalize", "logsumexp", "cumsum")


def _with_dim(args: Sequence[cst.Arg]) -> Sequence[cst.Arg]:
    if not any(arg.keyword is not None and arg.keyword.value == "dim" for arg in args) or any(arg.star for arg in args):
        raise UnfitError("along which dimension is not said")
    return args


def _row(node: cst.Subscript) -> str:
    """The variable that is the only index."""
    index = node.slice[0].slice
    plain = len(node.slice) == 1 and isinstance(index, cst.Index) and isinstance(index.value, cst.Name)
    return index.value.value if plain and isinstance(index, cst.Index) and isinstance(index.value, cst.Name) else ""


def _summed(tree: Tree, loop: cst.For) -> list[Text]:
    """A loop that only adds something of each row."""
    body = smalls(loop.body.body)
    if len(body) != 1 or loop.orelse is not None:
        raise UnfitError("it does more than adding")
    total, term = _added(body)
    start, end = tree.span(loop)
    tree.uncommented(start, end)
    if any(each.value == total for each in names_in(tree, term)):
        raise UnfitError("it does more than adding")
    _need_unused(tree, loop)
    text = _lifted(tree, loop.target, loop.iter, term)
    text = text if isinstance(term, cst.Call) or term.lpar else f"({text})"
    return [in_place_of(tree, loop, [f"{total} = {total} + {text}.sum(0)"])]


def _added(body: Sequence[cst.BaseSmallStatement]) -> tuple[str, cst.BaseExpression]:
    """What a statement adds to, and what."""
    if isinstance(body[0], cst.AugAssign):
        if isinstance(body[0].operator, cst.AddAssign) and isinstance(body[0].target, cst.Name):
            return body[0].target.value, body[0].value
        raise UnfitError("it does more than adding")
    name, value = assigned(body[0])
    plain = isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add) and not value.lpar
    if not plain or not isinstance(value, cst.BinaryOperation) or last_name(value.left) != name.value:
        raise UnfitError("it does more than adding")
    return name.value, value.right


def _need_unused(tree: Tree, loop: cst.For) -> None:
    """Look whether the variables of a loop are used only in it.

    Raises:
        UnfitError: When they are used elsewhere.
    """
    own = {each.value for each in names_in(tree, loop.target)}
    start, end = tree.span(loop)
    for each in names_in(tree, tree.around(loop, cst.FunctionDef)):
        if each.value in own and not start <= tree.span(each)[0] < end:
            raise UnfitError("the loop leaves its variable")
