"""Variants of a model case: the same calls in a smaller dtype, or under autocast.

Importing this module imports no torch.
"""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from exportlint.checks.case import ModelCase

VARIANTS = ("bfloat16", "float16", "autocast")


def of_case(case: ModelCase, variant: str) -> ModelCase:
    """The case in this variant, named ``case[variant]``.

    Args:
        case: A case without methods of its own.
        variant: One of `VARIANTS`.
    """
    if variant == "autocast":
        return dataclasses.replace(
            case, model=_UnderAutocast(case.model), name=f"{case.name}[autocast]", variants=(), whole=None
        )
    steps = case.steps.items()
    return dataclasses.replace(
        case,
        model=_InDtype(case.model, variant),
        args=_Cast(case.args, variant),
        kwargs=_Cast(case.kwargs, variant),
        inputs2=None if case.inputs2 is None else _Cast(case.inputs2, variant),
        more_inputs=_Cast(case.more_inputs, variant),
        steps={name: step and dataclasses.replace(step, inputs=_Cast(step.inputs, variant)) for name, step in steps},
        name=f"{case.name}[{variant}]",
        variants=(),
        whole=None,
    )


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
    """A factory of the model with its ``forward`` under autocast to bfloat16 on the device of the inputs."""

    model: Any

    def __call__(self) -> Any:
        model = _made(self.model)
        forward: Callable[..., Any] = model.forward
        model.forward = _autocast(forward)
        return model


def _autocast(forward: Callable[..., Any]) -> Callable[..., Any]:
    import functools

    import torch
    from torch.utils import _pytree as pytree

    @functools.wraps(forward)
    def under_autocast(*args: Any, **kwargs: Any) -> Any:
        device = next(
            (leaf.device for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)), None
        )
        with torch.autocast(device.type if device is not None else "cpu", dtype=torch.bfloat16):
            return forward(*args, **kwargs)

    return under_autocast


def _made(model: Any) -> Any:
    from torch import nn

    return copy.deepcopy(model) if isinstance(model, nn.Module) else model()
