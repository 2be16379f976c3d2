"""``hf:NAME``: models of ``transformers`` from small configs, with random weights.

A name is a model type, such as ``bert``, or a class, such as ``BertForMaskedLM``.
"""

from __future__ import annotations

import functools
import importlib
import re
from typing import Any

from exportlint.zoo import hf_inputs, hf_table
from exportlint.zoo.shrink import shrunk

EXAMPLE = "kwargs"
# The auto mappings in which a model type is looked up; the first that knows it decides on the class.
MAPPINGS = (
    "MODEL_MAPPING_NAMES",
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "MODEL_FOR_BACKBONE_MAPPING_NAMES",
)
# Model types that join two others, with those that are taken where none are named: ``encoder-decoder/bert+gpt2``.
COMPOSED = {
    "encoder-decoder": "bert+bert",
    "speech-encoder-decoder": "wav2vec2+bart",
    "vision-encoder-decoder": "vit+gpt2",
    "vision-text-dual-encoder": "vit+bert",
}


@functools.cache
def names() -> tuple[str, ...]:
    """All model types that have a model."""
    return tuple(_classes())


def known(name: str) -> bool:
    """Whether the name is a model type, a class of models, or a type with the two types that it joins."""
    kind, slash, parts = name.partition("/")
    if slash:
        return kind in COMPOSED and parts.count("+") == 1 and all(known(part) for part in parts.split("+"))
    return name in _classes() or _config_of_class(name) is not None


def model(name: str) -> Any:
    """The small model in evaluation mode.

    Raises:
        Exception: What config or model raise where no small form of them works.
    """
    import torch
    import transformers

    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    config = small_config(name)
    torch.manual_seed(0)
    return _class(name)(config).eval()


def example(name: str) -> dict[str, Any]:
    """Keyword arguments of an example call, which is tried out."""
    return hf_inputs.example(model(name))


def about(name: str) -> str:
    """How model and example were made."""
    cls = _class(name)
    arguments = example(name)
    shapes = ", ".join(f"{k} {tuple(v.shape) if hasattr(v, 'shape') else v}" for k, v in arguments.items())
    return f"{cls.__name__} from a small config with random weights; inputs inferred and tried out: {shapes}"


def small_config(name: str) -> Any:
    """A small config for a model type or class."""
    cls = _class(name)
    kind, _, parts = name.partition("/")
    if kind in COMPOSED:
        first, _, second = (parts or COMPOSED[kind]).partition("+")
        compose = (
            getattr(cls.config_class, "from_encoder_decoder_configs", None) or cls.config_class.from_vision_text_configs
        )
        return compose(small_config(first), small_config(second))
    full = cls.config_class()
    small = hf_table.laid_over(_without_timm(shrunk(full.to_dict())), hf_table.row(full.model_type).config)
    if name.endswith("ForSequenceClassification") and small.get("pad_token_id") is None:
        small["pad_token_id"] = 0  # it tells them where a sequence ends
    return type(full).from_dict(small)


def _without_timm(config: dict[str, Any]) -> dict[str, Any]:
    """The config with a ResNet of transformers where the full one takes timm's."""
    for key, inner in config.items():
        if isinstance(inner, dict) and inner.get("model_type") == "timm_backbone":
            stages = [f"stage{i}" for i in inner.get("out_indices") or (4,)]
            sizes = {"embedding_size": 16, "hidden_sizes": [32, 32, 64, 64], "depths": [1, 1, 1, 1]}
            config[key] = {"model_type": "resnet", "layer_type": "basic", "out_features": stages, **sizes}
    return config


@functools.cache
def _classes() -> dict[str, str]:
    """The name of the model class by model type."""
    auto = importlib.import_module("transformers.models.auto.modeling_auto")
    found: dict[str, str] = {}
    for mapping in (*MAPPINGS, *(name for name in vars(auto) if name.startswith("MODEL_") and name.endswith("_NAMES"))):
        for kind, cls in getattr(auto, mapping, {}).items():
            found.setdefault(kind, cls if isinstance(cls, str) else cls[0])
    return found


def _config_of_class(name: str) -> Any:
    import transformers

    if not re.fullmatch(r"[A-Z]\w+", name):
        return None
    return getattr(getattr(transformers, name, None), "config_class", None)


def _class(name: str) -> Any:
    import transformers

    kind = name.partition("/")[0]
    return getattr(transformers, _classes().get(kind, kind))
