"""Modules that a call moves or casts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.source.dtypes import CASTS, DTYPES
from exportlint.source.events import Moved
from exportlint.source.facts import facts
from exportlint.source.values import Const, External, Instance, Method, Tensor, TorchModule, Value, options

if TYPE_CHECKING:
    import ast

    from exportlint.source.interpreter import Interpreter
    from exportlint.source.parameters import Arguments
    from exportlint.source.state import State

_REAL = frozenset({"half", "float", "double", "bfloat16"})  # a module has no cast to complex numbers
_DTYPES = frozenset(CASTS[name] for name in _REAL)
_MOVING = frozenset({"to", "cpu", "type", "_apply", *_REAL})
RETURNS_ITSELF = frozenset({"eval", "train", "to", "requires_grad_", "cuda", "cpu", *_REAL})
"""The methods of a module that return the module."""
_AFFINE = ("affine", "elementwise_affine")
_SETTINGS = 3  # of a normalisation: so many positional arguments may say that it has no parameters
_DEEPEST = 6


def note(it: Interpreter, node: ast.Call, callee: Method, given: Arguments, state: State) -> None:
    """Report a method that moves or casts a module with parameters, where nothing asks first whether it has to."""
    if callee.name not in _MOVING or state.frame.guards or state.frame.guarded or it.optional:
        return
    if has_parameters(it, callee.receiver):
        dtype = CASTS.get(callee.name, "") or _dtype(given)
        it.emit(Moved(it.site(node, state), callee.name, dtype.removeprefix("torch.")))


def _dtype(given: Arguments) -> str:
    """The dtype of real numbers among the arguments."""
    found = (DTYPES.get(v.name, "") for v in given.all if isinstance(v, External))
    return next((name for name in found if name in _DTYPES), "")


def has_parameters(it: Interpreter, value: Value, depth: int = 0) -> bool:
    """Whether the value is a module that surely has parameters."""
    if depth > _DEEPEST:
        return False
    if isinstance(value, TorchModule):
        own = value.name in facts().modules_with_parameters and not value.bare
        return own or any(has_parameters(it, part, depth + 1) for part in value.parts)
    if not isinstance(value, Instance) or not value.module:
        return isinstance(value, Tensor) and value.kept == "parameter" and depth > 0
    _, outside = it.project.lineage(value.cls)
    held = it.attributes.get(value.key, {}).values()
    return any(name in facts().modules_with_parameters and "Norm" not in name for name in outside) or any(
        has_parameters(it, part, depth + 1) for part in held if len(options(part)) == 1
    )


def is_bare(name: str, given: Arguments) -> bool:
    """Whether a normalisation may be made without parameters."""
    if "Norm" not in name:
        return False
    said = [given.keywords[key] for key in _AFFINE if key in given.keywords]
    if said:
        return said[0] != Const(value=True)
    return given.open or "InstanceNorm" in name or len(given.positional) >= _SETTINGS
