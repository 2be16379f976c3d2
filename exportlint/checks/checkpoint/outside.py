"""What a model holds beside its state dict, and which of it decides what the model returns."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from exportlint import blame, places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from exportlint.places import Place

MAX_DEPTH = 3
MOST_TRIED = 40
_OWN = frozenset(vars(nn.Module()))  # what torch keeps in every module


@dataclass(frozen=True, slots=True)
class Held:
    """A name of a module that is not in the state dict, and of which two models hold another value.

    Attributes:
        path: The module.
        name: The attribute or buffer.
        kind: What it holds, in words.
        place: Where it is assigned.
    """

    path: str
    name: str
    kind: str
    place: Place | None

    @property
    def words(self) -> str:
        """How messages call it."""
        return f"`self.{self.name}`" + (f" of {self.path}" if self.path else "")

    @property
    def rewrite(self) -> str:
        """What puts it into the state dict."""
        if self.kind == "buffer":
            return f"Register {self.name} with persistent=True, or let the constructor make it without random numbers."
        if self.kind == "modules":
            return f"Keep the modules of {self.name} in an nn.ModuleList or nn.ModuleDict."
        if self.kind == "parameter":
            return f"Keep the parameters of {self.name} in an nn.ParameterList or nn.ParameterDict."
        if self.kind == "tensor":
            return f'Register it: self.register_buffer("{self.name}", ...).'
        return f"Keep {self.name} in a buffer, or return it from get_extra_state and take it in set_extra_state."

    def hand_over(self, giver: nn.Module, taker: nn.Module) -> bool:
        """Give one model what the other holds there; whether that went well."""
        source, target = giver.get_submodule(self.path), taker.get_submodule(self.path)
        table = "_buffers" if self.kind == "buffer" else "__dict__"
        try:
            getattr(target, table)[self.name] = copy.deepcopy(getattr(source, table)[self.name])
        except Exception:  # what cannot be copied
            return False
        return True


def differing(one: nn.Module, other: nn.Module) -> list[Held]:
    """What the two hold otherwise, beside their state dicts."""
    modules = dict(other.named_modules())
    return [
        held
        for path, module in one.named_modules()
        if path in modules and type(module) is type(modules[path])
        for held in _of_module(path, module, modules[path])
    ]


def not_saved(model: nn.Module) -> list[str]:
    """The names of buffers that are not in the state dict."""
    return [
        f"{path}.{name}" if path else name
        for path, module in model.named_modules()
        for name in module._buffers
        if name in module._non_persistent_buffers_set and module._buffers[name] is not None
    ]


def deciding(
    found: list[Held], giver: nn.Module, make: Callable[[], nn.Module], same: Callable[[nn.Module], bool]
) -> list[Held]:
    """Those of them that decide: with what the giver holds there, a model does what the giver did.

    Args:
        found: What may decide.
        giver: The model that they are taken from.
        make: Makes a model that does something else.
        same: Whether a model does what the giver did.
    """
    for held in found[:MOST_TRIED]:
        model = make()
        if held.hand_over(giver, model) and same(model):
            return [held]
    model = make()
    given = [held for held in found if held.hand_over(giver, model)]
    return given if len(given) > 1 and same(model) else []


def _of_module(path: str, one: nn.Module, other: nn.Module) -> Iterator[Held]:
    for name in one._non_persistent_buffers_set:
        if not alike(one._buffers.get(name), other._buffers.get(name)):
            yield Held(path, name, "buffer", _place(one, name))
    for name, value in list(vars(one).items()):
        if name not in _OWN and not alike(value, vars(other).get(name)):
            yield Held(path, name, _kind(value), _place(one, name))


def _place(module: nn.Module, name: str) -> Place | None:
    place = blame.assignment_of(type(module), name)
    return place if place is not None and places.is_users(place.file) else None


def _kind(value: Any) -> str:
    leaves = list(_leaves(value))
    for kind, cls in (("modules", nn.Module), ("parameter", nn.Parameter), ("tensor", torch.Tensor)):
        if any(isinstance(leaf, cls) for leaf in leaves):
            return kind
    return "value"


def _leaves(value: Any, depth: int = 0) -> Iterator[Any]:
    if isinstance(value, dict) and depth < MAX_DEPTH:
        for inner in value.values():
            yield from _leaves(inner, depth + 1)
    elif isinstance(value, (list, tuple)) and depth < MAX_DEPTH:
        for inner in value:
            yield from _leaves(inner, depth + 1)
    else:
        yield value


def alike(one: Any, other: Any) -> bool:
    """Whether two values are equal, as far as they are data."""
    left, right = list(_leaves(one)), list(_leaves(other))
    return len(left) == len(right) and all(_same(a, b) for a, b in zip(left, right, strict=True))


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, nn.Module) and isinstance(b, nn.Module):
        return alike(dict(a.state_dict()), dict(b.state_dict()))
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return _same_tensors(a, b)
    if isinstance(a, (int, float, complex, str, bytes, type(None))):
        return type(a) is type(b) and bool(a == b or a != a)  # noqa: PLR0124 - NaN
    if type(a).__module__ == "numpy":
        try:
            return bool((a == b).all())
        except (AttributeError, ValueError, TypeError):
            return False
    return True  # code, and objects that say nothing of what they hold


def _same_tensors(a: Any, b: Any) -> bool:
    from exportlint.parity.compare import equal_bits

    if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):
        return False
    if is_lazy(a) or is_lazy(b) or a.shape != b.shape or a.dtype != b.dtype:
        return False
    return equal_bits(a.detach(), b.detach())
