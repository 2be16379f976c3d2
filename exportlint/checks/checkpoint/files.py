"""Files of weights: written as a machine with a GPU writes them, and read back."""

from __future__ import annotations

import contextlib
import functools
import re
from typing import TYPE_CHECKING, Any

import torch

from exportlint import blame
from exportlint.text import said

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ELSEWHERE = "cuda:0"
FIRST = 1  # before torch's own words for the place of a tensor, which begin at 10
_REFUSED = re.compile(r"WeightsUnpickler error: ([^\n]+)")

_pretending: list[bool] = []


def _place_of(_: Any) -> str | None:
    return ELSEWHERE if _pretending else None


def _no_tensor(_: Any, __: str) -> None:
    return None


@functools.cache
def _register() -> None:
    torch.serialization.register_package(FIRST, _place_of, _no_tensor)


@contextlib.contextmanager
def as_of_a_gpu() -> Iterator[None]:
    """What is saved meanwhile says of its tensors that they were on a GPU."""
    _register()
    _pretending.append(True)
    try:
        yield
    finally:
        _pretending.pop()


def save(state: Any, file: Path) -> None:
    """Save it as a machine with a GPU would."""
    with as_of_a_gpu():
        torch.save(state, file)


def load(file: Path) -> Any:
    """Load it on the CPU, without running what is in the file.

    Raises:
        Exception: What `torch.load` raises.
    """
    return torch.load(file, map_location="cpu", weights_only=True)


def words(error: Exception) -> str:
    """Why a file was refused, in one line: torch's own words behind its advice."""
    refused = _REFUSED.search(said(error))
    return f"{type(error).__name__}: {refused[1].strip()}" if refused else blame.words(error)
