"""Models of ``transformers`` built from small configs with random weights, without any download."""

from __future__ import annotations

import inspect
from typing import Any

SMALL: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embedding_size", "word_embed_proj_dim"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_decoder_layers", "block_sizes_", "depth"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"), 4),
    **dict.fromkeys(("decoder_attention_heads", "num_key_value_heads"), 4),
    **dict.fromkeys(("intermediate_size", "n_inner", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim", "ffn_dim"), 64),
    **dict.fromkeys(("hidden_dim", "inner_dim"), 64),
    **dict.fromkeys(("d_kv", "head_dim", "d_head"), 8),
    "vocab_size": 99,
    "image_size": 32,
    "patch_size": 8,
    "max_position_embeddings": 64,
    "n_positions": 64,
    "n_ctx": 64,
    "use_cache": False,
    "num_experts": 4,
    "num_local_experts": 4,
    "moe_intermediate_size": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "rotary_dim": 4,
    "attention_window": 8,
    "num_mel_bins": 16,
    "max_source_positions": 64,
    "max_target_positions": 64,
    "conv_dim": (32, 32),
    "conv_kernel": (3, 3),
    "conv_stride": (2, 2),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}

TYPES = (
    *("bert", "gpt2", "llama", "t5", "vit", "bart", "opt", "gpt_neox", "gptj", "mistral", "qwen2"),
    *("qwen3", "phi3", "gemma", "gemma2", "olmo2", "bloom", "mpt", "codegen", "biogpt", "deberta"),
    *("deberta-v2", "distilbert", "roberta", "electra", "albert", "mobilebert", "roformer", "mbart", "m2m_100"),
    *(
        "pegasus",
        "blenderbot",
        "marian",
        "umt5",
        "longt5",
        "convbert",
        "mpnet",
        "xlm",
        "flaubert",
        "ctrl",
        "openai-gpt",
    ),
    *("cohere", "glm", "persimmon", "stablelm", "starcoder2", "granite", "clip", "siglip", "beit", "deit"),
    *("dinov2", "whisper", "wav2vec2", "hubert", "fnet", "nystromformer", "roc_bert", "ernie"),
    *("modernbert", "rwkv", "big_bird", "layoutlm", "canine", "luke", "xglm", "plbart"),
)


def build(kind: str) -> Any:
    """A small model of this type in evaluation mode.

    Raises:
        Exception: What the config or the model raises where the small sizes do not fit.
    """
    import torch
    from transformers import AutoModel
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    plain = CONFIG_MAPPING[kind]()
    config = CONFIG_MAPPING[kind](**_shrunk(plain))
    for name in ("text_config", "vision_config"):
        inner = getattr(plain, name, None)
        if inner is not None:
            setattr(config, name, type(inner)(**_shrunk(inner)))
    torch.manual_seed(0)
    return AutoModel.from_config(config).eval()


def _shrunk(config: Any) -> dict[str, Any]:
    known = {name: value for name, value in SMALL.items() if getattr(config, name, None) is not None}
    if isinstance(getattr(config, "layer_types", None), list):
        known["layer_types"] = config.layer_types[: known.get("num_hidden_layers", 2)]
    return known


def inputs(model: Any) -> dict[str, Any]:
    """Keyword arguments of an example call: two sequences of eight tokens, or two images, or two seconds of sound."""
    import torch

    names = set(inspect.signature(model.forward).parameters)
    tokens = torch.arange(3, 19).view(2, 8)
    mask = torch.ones(2, 8, dtype=torch.int64)
    mask[1, 6:] = 0
    found: dict[str, Any] = {}
    if "input_features" in names:
        found["input_features"] = torch.linspace(-1, 1, 2 * 16 * 128).view(2, 16, 128)
    elif "input_values" in names:
        found["input_values"] = torch.linspace(-1, 1, 2 * 400).view(2, 400)
    elif "input_ids" in names:
        found["input_ids"] = tokens
        if "attention_mask" in names:
            found["attention_mask"] = mask
    if "pixel_values" in names:
        found["pixel_values"] = torch.linspace(-1, 1, 2 * 3 * 32 * 32).view(2, 3, 32, 32)
    if "decoder_input_ids" in names:
        found["decoder_input_ids"] = tokens[:, :4]
    return found
