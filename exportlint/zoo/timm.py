"""``timm:NAME``: models of ``timm`` with random weights, at the smallest size that they are made for."""

from __future__ import annotations

import functools
from typing import Any

EXAMPLE = "args"
BATCH = 2
SIZE = 128


@functools.cache
def names() -> tuple[str, ...]:
    """All models that timm lists."""
    import timm

    return tuple(timm.list_models())


def known(name: str) -> bool:
    """Whether timm can make such a model; older names that timm still takes count."""
    import timm

    return name in names() or timm.is_model(name)


def model(name: str) -> Any:
    """The model with random weights, in evaluation mode."""
    import timm
    import torch

    torch.manual_seed(0)
    return timm.create_model(name, pretrained=False).eval()


def example(name: str) -> tuple[Any, ...]:
    """A batch of two images of the smallest size that the model takes."""
    import torch

    channels, height, width = size_of(model(name))
    return (torch.sin(torch.arange(float(BATCH * channels * height * width))).view(BATCH, channels, height, width),)


def size_of(network: Any) -> tuple[int, int, int]:
    """Channels, height and width: the native size, or 128 where the model takes any size."""
    config = network.default_cfg
    channels, height, width = config["input_size"]
    if config.get("fixed_input_size"):
        return channels, height, width
    smallest = config.get("min_input_size")
    if smallest:
        return tuple(smallest)
    return channels, min(height, SIZE), min(width, SIZE)


def about(name: str) -> str:
    """How model and example were made."""
    return f"random weights; inputs inferred from the model's default_cfg: {tuple(example(name)[0].shape)}"
