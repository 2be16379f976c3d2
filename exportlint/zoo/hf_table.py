"""What single model types of ``transformers`` need beyond the general rules. One row a type; no row is the rule."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Row:
    """What a model type needs.

    Attributes:
        config: Settings laid over the small config; a dict goes into the config of that name.
        take: Arguments to begin with, instead of those that the signature tells.
        tokens: Placeholders for each sequence, by kind, where no message of the model tells how many.
    """

    config: Mapping[str, Any] = field(default_factory=dict)
    take: tuple[str, ...] = ()
    tokens: Mapping[str, int] = field(default_factory=dict)


SERIES = ("past_values", "past_time_features", "past_observed_mask", "future_values", "future_time_features")
SERIES_CONFIG = {"prediction_length": 4, "context_length": 8, "num_time_features": 2, "feature_size": 11}
# The sections of a rotary embedding in three dimensions share half of a head, which is 16 wide.
SECTIONS = {"text_config": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}}}

TABLE: dict[str, Row] = {
    "align": Row({"projection_dim": 16}),  # the width of the images' last stage
    "cvt": Row({"depth": [1, 2, 3]}),  # stage i reads a rate of its layer i
    "blip-2": Row({"image_token_index": 150}, tokens={"image": 4}),
    "bros": Row({"dim_bbox_projection": 16}),
    "decision_transformer": Row(take=("states", "actions", "rewards", "returns_to_go", "timesteps", "attention_mask")),
    "informer": Row(SERIES_CONFIG, SERIES),
    "time_series_transformer": Row(SERIES_CONFIG, SERIES),
    "autoformer": Row(SERIES_CONFIG, SERIES),
    "falcon_h1": Row({"mamba_d_ssm": 128, "mamba_n_heads": 8, "mamba_d_head": 16}),
    "qwen2_vl": Row(SECTIONS),
    "qwen2_5_vl": Row(SECTIONS),
    "qwen3_vl": Row(SECTIONS),
    "glm46v": Row(SECTIONS),
    "levit": Row({"hidden_sizes": [128, 256, 384], "key_dim": [16, 16, 16], "patch_size": 16}),
    "florence2": Row({"vision_config": {"projection_dim": 64}}),
    "llava_next": Row(
        {"image_grid_pinpoints": [[64, 64]]}, ("input_ids", "attention_mask", "pixel_values", "image_sizes")
    ),
    "perceiver": Row(take=("inputs",)),
    "speech-encoder-decoder": Row(take=("input_values", "decoder_input_ids")),
    "sam": Row({"vision_config": {"num_pos_feats": 32}}),
    "textnet": Row({"stem_out_channels": 16}),
    "udop": Row(take=("input_ids", "attention_mask", "bbox", "pixel_values", "decoder_input_ids")),
    "layoutlmv3": Row({"coordinate_size": 12, "shape_size": 8, "input_size": 64, "patch_size": 16}),
    "qwen2_5_vl_text": Row(SECTIONS["text_config"]),
    "lxmert": Row(take=("input_ids", "attention_mask", "visual_feats", "visual_pos")),
    "visual_bert": Row(take=("input_ids", "attention_mask", "visual_embeds")),
}


def row(kind: str) -> Row:
    """The row of a model type; an empty one where it needs nothing."""
    return TABLE.get(kind, Row())


def laid_over(config: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A nested config with changes laid over it."""
    merged = dict(config)
    for key, value in changes.items():
        inner = merged.get(key)
        merged[key] = laid_over(inner, value) if isinstance(value, dict) and isinstance(inner, dict) else value
    return merged
