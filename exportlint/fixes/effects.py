"""What an expression does beside giving a value, which must not be done where Python would not have come there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from exportlint.fixes.tree import Tree, UnfitError, is_attribute, last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

# Layers that change their own state in training, or draw random numbers.
_LAYERS = (
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm", "LazyBatchNorm1d", "LazyBatchNorm2d",
    "LazyBatchNorm3d", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout",
    "RReLU", "DropPath",
)  # fmt: skip
# Functions that draw random numbers: what is drawn later would be another number.
_DRAWING = (
    "rand", "randn", "randint", "rand_like", "randn_like", "randint_like", "randperm", "normal", "bernoulli",
    "multinomial", "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "rrelu",
    "gumbel_softmax", "random", "uniform", "choice", "shuffle", "sample", "batch_norm",
)  # fmt: skip
_TELLING = ("print", "append", "extend", "insert", "pop", "remove", "clear", "update", "setdefault", "write", "next")
_STEPS = 3  # methods and classes in one another


def need_pure(tree: Tree, value: cst.BaseExpression) -> None:
    """Look whether an expression does nothing but give a value, as far as the file tells.

    Raises:
        UnfitError: When it does more.
    """
    cls = next((outer for outer in tree.outwards(value) if isinstance(outer, cst.ClassDef)), None)
    if _acts(tree, value, cls, _STEPS):
        raise UnfitError("both ways would be computed, and one does more than that")


def _acts(tree: Tree, node: cst.CSTNode, cls: cst.ClassDef | None, steps: int) -> bool:
    """Whether something is changed, told or drawn in a part of the file."""
    parts = [node, *tree.inside(node, cst.CSTNode)]  # type: ignore[type-abstract]
    if any(isinstance(part, (cst.NamedExpr, cst.Await, cst.Yield)) for part in parts):
        return True
    return any(_call_acts(tree, part, cls, steps) for part in parts if isinstance(part, cst.Call))


def _call_acts(tree: Tree, call: cst.Call, cls: cst.ClassDef | None, steps: int) -> bool:
    name = last_name(call.func)
    if isinstance(call.func, cst.Attribute) and name.endswith("_") and not name.endswith("__"):
        return True
    if name in _DRAWING or name in _TELLING:
        return not _is_off(call)
    if cls is None or not steps or not is_attribute(call.func, name):
        return False
    method = next((m for m in cls.body.body if isinstance(m, cst.FunctionDef) and m.name.value == name), None)
    if method is not None:
        return _changes(tree, method) or _acts(tree, method.body, cls, steps - 1)
    return any(_layer_acts(tree, made, steps - 1) for made in _made(tree, cls, name))


def _is_off(call: cst.Call) -> bool:
    """Whether a function is told not to do what it does in training."""
    given = [arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value == "training"]
    return any(last_name(value) == "False" for value in given)


def _changes(tree: Tree, method: cst.FunctionDef) -> bool:
    """Whether a method binds something on an object, or changes a variable in place."""
    if any(tree.inside(method.body, cst.AugAssign)):
        return True
    targets = [t.target for assign in tree.inside(method.body, cst.Assign) for t in assign.targets]
    return any(isinstance(target, (cst.Attribute, cst.Subscript)) for target in targets)


def _made(tree: Tree, cls: cst.ClassDef, name: str) -> Iterator[cst.Call]:
    """The calls in what a class binds to ``self.NAME``, which make the layers that it calls there."""
    for assign in tree.inside(cls, cst.Assign):
        if any(is_attribute(target.target, name) for target in assign.targets):
            yield from [assign.value] if isinstance(assign.value, cst.Call) else ()
            yield from tree.inside(assign.value, cst.Call)


def _layer_acts(tree: Tree, made: cst.Call, steps: int) -> bool:
    """Whether a layer changes itself, or draws: it, or what a class of the file makes for it."""
    name = last_name(made.func)
    if name in _LAYERS:
        return True
    classes = [cls for cls in tree.inside(tree.module, cst.ClassDef) if cls.name.value == name] if steps else []
    return any(_layer_acts(tree, call, steps - 1) for cls in classes for call in tree.inside(cls, cst.Call))
