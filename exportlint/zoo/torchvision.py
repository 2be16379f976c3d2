"""``torchvision:NAME``: models of ``torchvision`` with random weights."""

from __future__ import annotations

import functools
from typing import Any

EXAMPLE = "args"
# What a model takes, where that is not a batch of two images of the size given here.
SIZES = {"inception_v3": 299, "maxvit": 224, "vit_": 224, "swin": 64, "ssd300": 300, "raft": 128, "googlenet": 224}
SIZE = 64
# Videos of 16 images, by the size of an image; others than these are made for 112.
FILMS = {"mvit": 224, "swin": 224, "s3d": 224}
DETECTED = 128  # a detector brings images to this size, else to 800


@functools.cache
def names() -> tuple[str, ...]:
    """All models that torchvision's registry lists."""
    from torchvision import models

    return tuple(models.list_models())


def known(name: str) -> bool:
    """Whether there is such a model."""
    return name in names()


def model(name: str) -> Any:
    """The model with random weights, in evaluation mode."""
    import torch
    from torchvision import models

    torch.manual_seed(0)
    settings: dict[str, Any] = {"weights": None}
    if _kind(name) in ("detection", "segmentation"):
        settings["weights_backbone"] = None
    if _kind(name) == "detection" and not name.startswith("ssd"):
        settings |= {"min_size": DETECTED, "max_size": DETECTED}
    if name in ("googlenet", "inception_v3"):
        settings["init_weights"] = False
    return models.get_model(name, **settings).eval()


def example(name: str) -> tuple[Any, ...]:
    """Positional arguments of an example call."""
    kind = _kind(name)
    if kind == "video":
        size = next((size for start, size in FILMS.items() if name.startswith(start)), 112)
        return (_images(2, 3, 16, size, size),)
    size = next((size for start, size in SIZES.items() if name.startswith(start)), SIZE)
    if kind == "detection":
        size = size if name.startswith("ssd300") else DETECTED
        return ([_images(3, size, size), _images(3, size, size).flip(1)],)
    images = _images(2, 3, size, size)
    return (images, images.flip(2)) if kind == "optical_flow" else (images,)


def about(name: str) -> str:
    """How model and example were made."""
    shapes = ", ".join(
        f"a list of {len(x)} images {tuple(x[0].shape)}" if isinstance(x, list) else str(tuple(x.shape))
        for x in example(name)
    )
    return f"random weights; inputs inferred from the kind of the model: {shapes}"


def _kind(name: str) -> str:
    """The part of torchvision that a model is from, such as ``detection``; empty for classification."""
    from torchvision import models

    module = models.get_model_builder(name).__module__
    return module.split(".")[2] if module.count(".") > 2 else ""


def _images(*shape: int) -> Any:
    import math

    import torch

    return torch.sin(torch.arange(math.prod(shape), dtype=torch.float32)).view(shape)
