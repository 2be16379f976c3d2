"""Part of the check ``device``: the devices other than the second one, and how a model gets there."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exportlint.text import said

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from exportlint.checks.case import Inputs

# What a driver, a missing kernel or torch itself says: nothing that the model does.
_NOT_THE_MODELS = re.compile(
    r"INTERNAL ASSERT|[Nn]ot implemented|not supported|only supported|Could not run|CUDA (error|driver)|[Ii]nitializ"
    r"|(CUBLAS|CUDNN|CUFFT|CUSOLVER|CUSPARSE|NCCL)_|(cuDNN|CUDNN|cuBLAS|CUBLAS|cuFFT) (e|E)rror|no kernel image"
)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A device to run on.

    Attributes:
        name: What the user calls it.
        device_type: torch's name for its type.
        numbers: Whether results can be compared.
    """

    name: str
    device_type: str
    numbers: bool


WITHOUT_NUMBERS = {
    "meta": Elsewhere("meta", "meta", numbers=False),
    "fake-cuda": Elsewhere("fake-cuda", "cuda", numbers=False),
}


def elsewhere(name: str) -> Elsewhere:
    """The device of this name: one without numbers, or a real one by its type."""
    return WITHOUT_NUMBERS.get(name, Elsewhere(name, name, numbers=True))


class PlacementError(Exception):
    """The model or its inputs cannot be moved to a device; the cause is torch's own exception."""


def present(where: Elsewhere) -> bool:
    """Whether this machine and this build of torch have the device."""
    import torch

    module = getattr(torch, where.device_type, None)
    available = getattr(module, "is_available", None)
    return available is not None and bool(available())


def of_the_device(error: Exception) -> bool:
    """Whether an exception tells of the device or of torch, and not of what the model does there."""
    if isinstance(error, NotImplementedError) or not isinstance(error, (RuntimeError, TypeError, ValueError)):
        return True
    return type(error).__name__ == "AcceleratorError" or _NOT_THE_MODELS.search(said(error)) is not None


@contextlib.contextmanager
def placed(model: torch.nn.Module, inputs: Inputs, where: Elsewhere) -> Iterator[Inputs]:
    """Move the model, in place; yields the arguments moved, of which equal objects stay equal.

    Raises:
        PlacementError: When they cannot be moved.
    """
    import torch
    from torch.utils import _pytree as pytree

    if where.name == "fake-cuda":
        from exportlint.devices import indexing
        from exportlint.devices.twin import fake_module

        device = torch.device(where.device_type, 0)
        try:
            fakes, mode = fake_module(model, inputs, device)
        except Exception as error:  # torch starts the device where there is one, which it cannot in every process
            raise PlacementError from error
        with indexing.on_any_build(mode, device), mode:
            yield fakes
        return
    moved: dict[int, torch.Tensor] = {}

    def move(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in moved:
            moved[id(tensor)] = tensor.to(where.device_type)
        return moved[id(tensor)]

    try:
        model.to(where.device_type)
        there: Inputs = pytree.tree_map_only(torch.Tensor, move, inputs)
    except Exception as error:
        raise PlacementError from error
    yield there
