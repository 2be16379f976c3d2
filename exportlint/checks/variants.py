"""Variants of a model case: the same calls in a smaller dtype, or under autocast.

Importing this module imports no torch.
"""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exportlint.findings import VARIANTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from exportlint.checks.case import ModelCase


def of_case(case: ModelCase, variant: str) -> ModelCase:
    """The case in this variant, named ``case[variant]``; its methods are in the variant too.

    Args:
        case: A case that was not split into its methods.
        variant: One of `VARIANTS`.
    """
    name = f"{case.name}[{variant}]"
    if variant == "autocast":
        model = _UnderAutocast(case.model, tuple(case.methods) or ("forward",))
        return dataclasses.replace(case, model=model, name=name, variants=(), plain=case)
    steps = case.steps.items()
    return dataclasses.replace(
        case,
        model=_InDtype(case.model, variant),
        args=_Cast(case.args, variant),
        kwargs=_Cast(case.kwargs, variant),
        inputs2=None if case.inputs2 is None else _Cast(case.inputs2, variant),
        more_inputs=_Cast(case.more_inputs, variant),
        methods={key: _method(method, variant) for key, method in case.methods.items()},
        steps={key: step and dataclasses.replace(step, inputs=_Cast(step.inputs, variant)) for key, step in steps},
        name=name,
        variants=(),
        plain=case,
    )


def of_name(name: str) -> str:
    """The variant that the name of a case ends with, or its name before that of its method; empty for none."""
    return next((variant for variant in VARIANTS if f"[{variant}]" in name), "")


def _method(method: Any, variant: str) -> Any:
    """A method, or the arguments that stand for one, with the arguments cast."""
    if not dataclasses.is_dataclass(method) or isinstance(method, type):
        return _Cast(method, variant)()
    given: Any = method
    changed: Any = dataclasses.replace(
        given,
        args=_Cast(given.args, variant)(),
        kwargs=_Cast(given.kwargs, variant)(),
        inputs2=None if given.inputs2 is None else _Cast(given.inputs2, variant),
        more_inputs=_Cast(given.more_inputs, variant),
    )
    return changed


def added(case: ModelCase, names: tuple[str, ...]) -> ModelCase:
    """The case with these variants beside its own."""
    return dataclasses.replace(case, variants=tuple(dict.fromkeys((*case.variants, *names))))


def without(name: str, names: tuple[str, ...]) -> str:
    """The name of the case that a variant of it was made from; another name stays as it is."""
    for variant in names:
        name = name.replace(f"[{variant}]", "", 1)
    return name


@dataclass(frozen=True, slots=True)
class _InDtype:
    """A factory of the model in a smaller dtype."""

    model: Any
    dtype: str

    def __call__(self) -> Any:
        import torch

        return _made(self.model).to(getattr(torch, self.dtype))


@dataclass(frozen=True, slots=True)
class _Cast:
    """A function that makes arguments with their float32 tensors in a smaller dtype."""

    inputs: Any
    dtype: str

    def __call__(self, *moment: Any) -> Any:
        import torch
        from torch.utils import _pytree as pytree

        dtype = getattr(torch, self.dtype)
        made = self.inputs(*moment) if callable(self.inputs) else self.inputs
        return pytree.tree_map_only(torch.Tensor, lambda t: t.to(dtype) if t.dtype == torch.float32 else t, made)


@dataclass(frozen=True, slots=True)
class _UnderAutocast:
    """A factory of the model with its methods under autocast to bfloat16 on the device of the inputs."""

    model: Any
    methods: tuple[str, ...]

    def __call__(self) -> Any:
        model = _made(self.model)
        kind = type(model)
        # A class of its own, and not functions on the object: those would call the model that it was copied from.
        changed = {name: _autocast(getattr(kind, name)) for name in self.methods if hasattr(kind, name)}
        names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
        model.__class__ = type(kind.__name__, (kind,), {**names, **changed})
        return model


def _autocast(method: Callable[..., Any]) -> Callable[..., Any]:
    import functools

    import torch
    from torch.utils import _pytree as pytree

    @functools.wraps(method)
    def under_autocast(*args: Any, **kwargs: Any) -> Any:
        leaves = pytree.tree_leaves((args[1:], kwargs))
        device = next((leaf.device for leaf in leaves if isinstance(leaf, torch.Tensor)), None)
        with torch.autocast(device.type if device is not None else "cpu", dtype=torch.bfloat16):
            return method(*args, **kwargs)

    return under_autocast


def _made(model: Any) -> Any:
    """The model, never an object that somebody else may hold: a factory may return the same one each time."""
    from torch import nn

    made = model if isinstance(model, nn.Module) else model()
    if not isinstance(made, nn.Module):
        return made
    try:
        return copy.deepcopy(made)
    except Exception:  # such as a tensor with a history: then the module is hopefully new each time
        if made is model:
            raise
        return made
