"""Small forms of the configs of ``transformers``: plain data in, plain data out, nothing of torch or transformers.

A config is shrunk by what its keys are called: widths, layers, heads, vocabularies and images get small sizes, and
relations between them (heads divide widths, lists keep one entry a layer, special tokens lie in the vocabulary) hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

VOCABULARY = 160
LAYERS = 2
MOST_LAYERS = 4

LAYER_COUNT = re.compile(r"^((\w+_)?(num|n)_\w*layers?|\w*_layers|layers|n_layer|(\w+_)?depth|num_blocks|num_block)$")
NO_LAYER_COUNT = re.compile(
    r"adapter|feat_extract|nextn|dense|window_layers|kv_shared|vision_layer|feature_layer|head_depth|max_depth|"
    r"min_depth|postnet|predictor|add_layers|positional|input_layers|output_layers|recurrent_layers"
)
TOKEN = re.compile(r"(token_id|token_index|tokens_id|_index|_token|_id|token_ids|_idx)$")
HEADS = re.compile(r"(^|_)(heads|n_head|num_heads|head_num)$")
KEY_HEADS = re.compile(r"(key_value|kv)_heads|kv_n_heads")
HEAD_WIDTH = re.compile(r"(^|_)(head_dim|d_kv|d_head|dim_head|head_size|kv_channels|attention_key_size)$")
NO_WIDTH = re.compile(
    r"image|img|patch|kernel|window|vocab|codebook_size|block_size|chunk|sample|crop|merge|grid|roi|fft|pad|batch|"
    r"cache|buffer|queue|step|stride|state_size|bbox|num_mel|seq|context_size|group|input_channels|in_channels$|"
    r"num_channels|audio_channels|mel_dim|frame|posemb|position_embedding_size|_per_|type_|^stage_|^stem_|feature_size$|divis|"
    r"parallel|ngram|^tpu|conv_kernel_dim|max_"
)
WIDTH = re.compile(
    r"hidden_size|hidden_dim|d_model|n_embd|embed_dim|emb_dim|embedding_size|embedding_dim|intermediate|ffn|d_ff|"
    r"(^|_)dims?$|(^|_)dim_|channels?$|proj|n_inner|d_inner|dff|width|lora_rank|_size$|lru_width|units$|feedforward|"
    r"^dim$|hidden_sizes|filters|shared_expert|d_latents"
)
POSITIONS = re.compile(
    r"position_embeddings$|^n_positions$|^n_ctx$|max_source_positions|max_target_positions|max_seq|context_length|"
    r"max_text_len|max_sequence_length|model_max_length|sequence_length|max_length$|seq_len$"
)
EXPERTS = re.compile(r"(^|_)(num_experts|num_local_experts|n_routed_experts|experts_num|moe_num_experts|num_expert)$")
CHOSEN_EXPERTS = re.compile(r"experts_per_tok|top_?k(_experts)?$|moe_k$|moe_top")
LAYER_INDICES = re.compile(r"_layers$|_ind(ex|ic)es$|_idxs$|_layer_ids|attention_blocks$|_layers_ids$")
PER_STAGE = re.compile(r"dilation|kernel|stride|padding|ratio|pool|factor|size|groups|scales|rates|levels|windows")
DEPTHS = re.compile(r"^(depths?|layer_depths|stage_num_blocks|num_block_repeats|blocks_per_stage)$")
PER_LAYER = re.compile(r"layer|types|block|rope|pattern|per_layer|sparsity")
MAMBA = (("mamba_n_heads", "mamba_d_head", "mamba_expand"), ("num_heads", "head_dim", "expand"))
RECOMPUTED = ("out_features", "out_indices", "stage_names", "_out_features", "_out_indices")


@dataclass
class _Level:
    """One level of a nested config: its own keys, and the sizes that decide for others."""

    config: Mapping[str, Any]
    width: int
    image: int
    tokens: dict[int, int] = field(default_factory=dict)

    @property
    def heads(self) -> list[int]:
        """The heads by stage, where they are a list."""
        for key, value in self.config.items():
            if HEADS.search(key) and _is_ints(value) and len(value) > 1:
                return list(value)
        return []

    @property
    def depth(self) -> int:
        """How many layers the full config has, 0 where that is no number."""
        for key in ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "depth", "encoder_layers"):
            value = self.config.get(key)
            if type(value) is int:
                return value
        return 0

    @property
    def kept(self) -> list[int]:
        """Which layers stay: one of each kind, at least two."""
        lists = [v for k, v in self.config.items() if self.per_layer(k, v)]
        kinds: dict[str, int] = {}
        for i in range(self.depth):
            kinds.setdefault(repr([values[i] for values in lists]), i)
        kept = sorted(kinds.values())[:MOST_LAYERS]
        kept += [i for i in range(self.depth) if i not in kept][: max(0, LAYERS - len(kept))]
        return sorted(kept)

    def per_layer(self, key: str, value: Any) -> bool:
        """Whether a value holds one entry a layer."""
        long = isinstance(value, (list, tuple)) and self.depth > LAYERS and len(value) == self.depth
        return long and bool(PER_LAYER.search(key)) and not _is_indices(key, value, self.depth)


def shrunk(config: Mapping[str, Any], width: int = 64, image: int = 64) -> dict[str, Any]:
    """A small form of a config.

    Args:
        config: The config as nested plain data, with its defaults.
        width: Size of hidden states; heads are a quarter as wide.
        image: Height and width of images, in pixels.

    Returns:
        The same keys, without those that follow from others.
    """
    return _shrink(config, _Level(config, width, image))


def _shrink(config: Mapping[str, Any], level: _Level) -> dict[str, Any]:
    small: dict[str, Any] = {}
    for key, value in config.items():
        if (key in RECOMPUTED and level.depth > LAYERS) or (key == "hidden_size" and "depths" in config):
            continue
        if key == "per_layer_config" and isinstance(value, Mapping):
            small[key] = _by_layer(value, level)
        elif isinstance(value, Mapping):
            inner = _Level(value, level.width, level.image, level.tokens)
            small[key] = dict(value) if key in ("id2label", "label2id") else _shrink(value, inner)
        else:
            small[key] = _value(key, value, level)
    if small.get("use_cache"):
        small["use_cache"] = False
    return {**small, **_mamba_heads(small), **_coefficients(config, level)}


def _mamba_heads(small: Mapping[str, Any]) -> dict[str, int]:
    """The heads of a state space layer, which share its inner width."""
    for heads, width, expand in MAMBA:
        if all(type(small.get(key)) is int for key in (heads, width, expand, "hidden_size")):
            return {heads: max(1, small[expand] * small["hidden_size"] // small[width])}
    return {}


def _coefficients(config: Mapping[str, Any], level: _Level) -> dict[str, float]:
    """What widths and depths are multiplied by: the last width, which is so too, stays the one that follows."""
    last, factor = config.get("hidden_dim"), config.get("width_coefficient")
    if type(last) is not int or not isinstance(factor, (int, float)) or last <= level.width:
        return {}
    return {"width_coefficient": factor * level.width / last, "depth_coefficient": 1.0}


def _by_layer(configs: Mapping[Any, Any], level: _Level) -> dict[Any, Any]:
    """What differs in single layers, for the layers that stay."""
    kept = {old: new for new, old in enumerate(level.kept)}
    inner = {layer: _Level(c, level.width, level.image, level.tokens) for layer, c in configs.items()}
    return {type(k)(kept[int(k)]): _shrink(c, inner[k]) for k, c in configs.items() if int(k) in kept}


def _value(key: str, value: Any, level: _Level) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return _number(key, value, level)
    return _list(key, value, level) if isinstance(value, (list, tuple)) and value else value


def _list(key: str, values: Any, level: _Level) -> Any:
    """A list with one entry a layer, or of layers' indices, or of numbers, in its small form; others as they are."""
    if level.per_layer(key, values):
        return [_value(key, values[i], level) for i in level.kept]
    if _is_indices(key, values, level.depth):
        return sorted({min(i, len(level.kept) - 1) for i in values})
    return _numbers(key, list(values), level) if _is_ints(values) else values


def _number(key: str, value: int, level: _Level) -> int:
    if value <= 1:
        return value
    rule = next((rule for pattern, rule in RULES if pattern.search(key)), None)
    return value if rule is None else rule(key, value, level)


def _vocabulary(key: str, value: int, level: _Level) -> int:
    return value if "type_" in key else min(value, VOCABULARY)


def _token(key: str, value: int, level: _Level) -> int:
    """The same token keeps its number in all parts of the config."""
    if value < VOCABULARY // 2:
        return value
    return level.tokens.setdefault(value, VOCABULARY - 1 - len(level.tokens))


def _layer_count(key: str, value: int, level: _Level) -> int:
    if NO_LAYER_COUNT.search(key):
        return value
    return len(level.kept) if value == level.depth else min(value, LAYERS)


def _head_count(key: str, value: int, level: _Level) -> int:
    if KEY_HEADS.search(key):
        full = [v for k, v in level.config.items() if HEADS.search(k) and not KEY_HEADS.search(k) and type(v) is int]
        return 4 if value in full else min(value, 2)
    return min(value, 4)


def _width(key: str, value: int, level: _Level) -> int:
    if NO_WIDTH.search(key):
        return value
    heads = level.heads
    if heads and heads[0] > 1 and value % heads[0] == 0:
        return min(value, heads[0] * 8)
    return min(value, level.width)


def _image(key: str, value: int, level: _Level) -> int:
    return min(value, level.image)


RULES: tuple[tuple[re.Pattern[str], Callable[[str, int, _Level], int]], ...] = (
    (re.compile(r"vocab_size|vocab_size_per"), _vocabulary),
    (EXPERTS, lambda _, value, __: min(value, 4)),
    (CHOSEN_EXPERTS, lambda _, value, __: min(value, 2)),
    (re.compile(r"^(n_group|topk_group|num_expert_group)$"), lambda *_: 1),
    (LAYER_COUNT, _layer_count),
    (HEADS, _head_count),
    (re.compile(r"_head_dim$|^head_dim$"), lambda _, value, level: min(value, level.width // 4)),
    (HEAD_WIDTH, lambda _, value, level: min(value, level.width // 4)),
    (re.compile(r"^rotary_dim$"), lambda *_: 8),
    (POSITIONS, lambda _, value, __: min(value, 128)),
    (re.compile(r"^(image_size|img_size|pretrain_image_size|max_image_size|crop_size|max_img_size)$"), _image),
    (re.compile(r"^patch_size$"), lambda _, value, __: min(value, 8)),
    (re.compile(r"^(mm_tokens_per_image|num_image_tokens|image_seq_length)$"), lambda _, value, __: min(value, 16)),
    (re.compile(r"^window_size$"), lambda _, value, __: 2 if value <= 16 else value),
    (
        re.compile(r"^(num_latents|num_queries|num_query_tokens|two_stage_num_proposals)$"),
        lambda _, value, __: min(value, 4),
    ),
    (re.compile(r"^image_embedding_size$"), lambda _, value, level: min(value, level.image // 8)),
    (re.compile(r"^(num_groups|num_conv_pos_embedding_groups)$"), lambda _, value, __: min(value, 4)),
    (re.compile(r"^upsample_groups$"), _image),
    (TOKEN, _token),
    (re.compile(r"attention_window$|block_size$"), lambda _, value, __: min(value, 8)),
    (WIDTH, _width),
)


def _numbers(key: str, values: list[int], level: _Level) -> list[int]:
    """A list of numbers: sizes by stage keep their ratios, depths become small, the rest stays."""
    if key in ("image_size", "img_size"):
        return [min(v, level.image) for v in values]
    if DEPTHS.search(key):
        return [min(v, LAYERS) for v in values]
    if key == "mrope_section":  # they share the half of a head that is rotated
        part = level.width // 32
        return [level.width // 8 - part * (len(values) - 1), *[part] * (len(values) - 1)]
    if TOKEN.search(key) and max(values) >= VOCABULARY // 2:
        return [_token(key, v, level) for v in values]
    return _widths(key, values, level)


def _widths(key: str, values: list[int], level: _Level) -> list[int]:
    """Widths by stage, a quarter as wide where heads divide them."""
    other = PER_STAGE.search(key) and "hidden_sizes" not in key
    if other or not WIDTH.search(key) or NO_WIDTH.search(key) or min(values) < 16:
        return values
    return [v // 4 for v in values] if level.heads else [(v * 16 // min(values) + 4) // 8 * 8 for v in values]


def _is_ints(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(type(item) is int for item in value)


def _is_indices(key: str, value: Any, depth: int) -> bool:
    """Whether a list names layers by their index."""
    ascending = _is_ints(value) and list(value) == sorted(set(value)) and value[0] >= 0 and value[-1] < depth
    return bool(depth and LAYER_INDICES.search(key) and ascending)
