"""Example calls of models of ``transformers``, inferred from signature and config and tried out in eager mode.

An example begins with the arguments that the model cannot do without. Where the call fails, what the failure says is
missing is added, and other layouts are tried. The numbers are fixed: nothing here is random.
"""

from __future__ import annotations

import inspect
import itertools
import re
from typing import TYPE_CHECKING, Any

from exportlint.checks.case import NoExampleError
from exportlint.zoo import hf_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

BATCH = 2
LENGTH = 8
TRIES = 12
MOST_TOKENS = 600
MISMATCH = re.compile(
    r"(image|video|audio|visual|multimodal)\w* .*tokens?.*not match.*tokens: (\d+),?.*features:? (\d+)",
    re.IGNORECASE | re.DOTALL,
)
PLACEHOLDERS = {"visual": "image", "multimodal": "image"}
# What a model is called with in the first place, when its forward takes it; the first of each row is enough.
FIRST = (
    ("input_ids", "input_features", "input_values", "pixel_values", "past_values", "pixel_values_videos", "inputs"),
)
IMAGES = ("pixel_values", "pixel_values_images", "images", "sample")
# What goes together.
WITH = {
    "input_ids": ("attention_mask",),
    "pixel_values": ("image_grid_thw", "image_position_ids", "pixel_position_ids"),
}


def example(model: Any) -> dict[str, Any]:
    """Keyword arguments with which the model runs.

    Raises:
        NoExampleError: When none was found; its cause is how far the first draft came.
    """
    import torch

    furthest: Exception | None = None
    with torch.no_grad():
        for draft in itertools.islice(_drafts(model), TRIES):
            for _ in range(TRIES):
                try:
                    model(**draft.arguments())
                    return draft.arguments()
                except Exception as error:
                    if draft.layout == 0:
                        furthest = error
                    if not draft.mend(error):
                        break
    words = f"{type(furthest).__name__}: {furthest}".strip().splitlines()[0][:200]
    name = type(model).__name__
    raise NoExampleError(f"no example call was found for {name}: {words}. Write a ModelCase with kwargs") from furthest


def _drafts(model: Any) -> Iterator[Draft]:
    """Examples to try, the likeliest first."""
    for layout in range(4):
        yield Draft(model, layout)


class Draft:
    """An example call in the making."""

    def __init__(self, model: Any, layout: int) -> None:
        self.model = model
        self.config = model.config
        self.layout = layout
        self.parameters = {
            name: parameter
            for name, parameter in inspect.signature(model.forward).parameters.items()
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        }
        self.names: list[str] = []
        self.values: dict[str, Any] = {}
        self.row = hf_table.row(self.config.model_type)
        self.tokens: dict[str, int] = dict(self.row.tokens)
        self.counted: set[tuple[str, int]] = set()
        self.length = LENGTH + sum(self.tokens.values())
        for name in self._needed():
            self.add(name)

    def arguments(self) -> dict[str, Any]:
        """The arguments, made anew."""
        return {name: self.values.get(name, None) if name in self.values else self.make(name) for name in self.names}

    def add(self, name: str) -> bool:
        """Take one more argument; False where it is there already or no value for it is known."""
        if name in self.names or name not in self.parameters or self.make(name) is None:
            return False
        self.names.append(name)
        for other in WITH.get(name, ()):
            self.add(other)
        return True

    def mend(self, error: Exception) -> bool:
        """Change the example by what its failure says; False where that says nothing new."""
        words = str(error)
        return self._count_tokens(words) or self._add_named(words)

    def make(self, name: str) -> Any:
        """A value for an argument, or None where no way to make one is known."""
        from exportlint.zoo import hf_values

        return hf_values.make(name, self)

    def _needed(self) -> list[str]:
        if self.row.take:
            return list(self.row.take)
        needed = [n for n, p in self.parameters.items() if p.default is p.empty]
        main = getattr(self.model, "main_input_name", None)
        if isinstance(main, str) and main in self.parameters and main not in needed:
            needed.insert(0, main)
        if not needed:
            needed = [next((n for n in FIRST[0] if n in self.parameters), next(iter(self.parameters), ""))]
        if self.config.is_encoder_decoder and "decoder_input_ids" in self.parameters:
            needed.append("decoder_input_ids")
        blind = getattr(self.config, "vision_config", self) is None
        needed += [n for n in ("pixel_values", "input_ids") if n in self.parameters and n not in needed]
        return [n for n in needed if not (blind and n == "pixel_values")]

    def _add_named(self, words: str) -> bool:
        """Add an argument that the message names and that is not there yet."""
        for name in sorted(re.findall(r"[a-z_0-9]{4,}", words), key=len, reverse=True):
            if name not in ("inputs_embeds", "decoder_inputs_embeds", "labels") and self.add(name):
                return True
        return False

    def _count_tokens(self, words: str) -> bool:
        """Put as many placeholders into the text as there are features of an image or a sound."""
        found = MISMATCH.search(words)
        if found is None:
            return False
        kind = PLACEHOLDERS.get(found[1].lower(), found[1].lower())
        features = int(found[3])
        width = setting(self.config, "hidden_size", "d_model") or 1
        for count in (features // BATCH, features // BATCH // width):  # the message counts vectors or their numbers
            if 0 < count <= MOST_TOKENS and (kind, count) not in self.counted:
                self.counted.add((kind, count))
                self.tokens[kind] = count
                self.length = LENGTH + sum(self.tokens.values())
                return True
        return False


def image_size(config: Any) -> tuple[int, int]:
    """Height and width of the images that a config asks for."""
    size = setting(config, "image_size", "img_size", "crop_size")
    if isinstance(size, dict):
        size = [size.get("height", 64), size.get("width", 64)]
    if isinstance(size, (list, tuple)):
        return (int(size[0]), int(size[-1]))
    return (size, size) if isinstance(size, int) and 8 <= size <= 512 else (64, 64)


def setting(config: Any, *names: str, inner: tuple[str, ...] = ()) -> Any:
    """The first of these settings that the config, or a config within it, has."""
    parts = [config, *(v for v in vars(config).values() if hasattr(v, "to_dict"))]
    for name in names:
        for part in parts:
            value = getattr(part, name, None)
            if value is not None:
                return value
    return None


def tensor(*shape: int) -> torch.Tensor:
    """Numbers between -1 and 1."""
    import math

    import torch

    count = math.prod(shape)
    return torch.sin(torch.arange(count, dtype=torch.float32)).view(shape)
