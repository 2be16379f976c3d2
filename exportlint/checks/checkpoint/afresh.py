"""A model of the case's factory that was made with other random numbers, as it is made where a checkpoint is loaded."""

from __future__ import annotations

import contextlib
import random
import sys
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from torch import nn

from exportlint.checks.context import SEED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from exportlint.checks.context import Context

OTHER = SEED + 1_000_003


def model(ctx: Context) -> nn.Module:
    """A fresh model; where nothing but its constructor decides what it holds, that is the same.

    Raises:
        ModelError: When the factory fails.
    """
    with _other_seeds():
        return ctx.build(OTHER)


@contextlib.contextmanager
def _other_seeds() -> Iterator[None]:
    """Seeds that a factory sets are others; those that a module's constructor sets are its own, and stay."""
    seeders: list[tuple[Any, str]] = [(torch, "manual_seed"), (torch.random, "manual_seed"), (random, "seed")]
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        seeders.append((numpy.random, "seed"))
    with contextlib.ExitStack() as stack:
        for owner, name in seeders:
            stack.enter_context(mock.patch.object(owner, name, _shifted(getattr(owner, name))))
        yield


def _shifted(seed: Callable[..., Any]) -> Callable[..., Any]:
    def other(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], int) and not _in_constructor():
            args = ((args[0] + OTHER) % 2**32, *args[1:])
        return seed(*args, **kwargs)

    return other


def _in_constructor() -> bool:
    """Whether the constructor of a module is being run."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "__init__" and isinstance(frame.f_locals.get("self"), nn.Module):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
