"""Fake tensors: shapes, dtypes and devices without numbers, so that a model of any size takes no memory."""

from __future__ import annotations

from typing import Any


def why_not() -> str | None:
    """Why there are none with this torch, or ``None``: a factory under the mode must allocate nothing."""
    try:
        import torch

        with mode():
            made = torch.ones(2, 3)
        return None if type(made) is not torch.Tensor and tuple(made.shape) == (2, 3) else "this torch makes no fakes"
    except Exception as error:
        return f"this torch makes no fake tensors: {type(error).__name__}"


def mode() -> Any:
    """A mode under which factories make fake tensors; the same mode must be used for all of a model.

    It has no symbols, so that a factory which asks for a number raises, and does not go on with a symbol in its place.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode(allow_non_fake_inputs=True)


def faked(tensor: Any, under: Any) -> Any:
    """A fake tensor in place of a real one, with static sizes."""
    return under.from_tensor(tensor)
