from __future__ import annotations

import pytest

from exportlint.zoo.shrink import VOCABULARY, shrunk


def test_widths_heads_and_layers_become_small_and_heads_divide_the_width():
    small = shrunk({"hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 12, "intermediate_size": 3072})
    assert small == {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 64}


def test_one_layer_of_each_kind_stays():
    types = ["sliding", "sliding", "full"] * 4
    small = shrunk({"num_hidden_layers": 12, "layer_types": types, "layer_rope_theta": [1.0, 1.0, 2.0] * 4})
    assert small["layer_types"] == ["sliding", "full"]
    assert small["layer_rope_theta"] == [1.0, 2.0]
    assert small["num_hidden_layers"] == 2


def test_indices_of_layers_stay_within_the_layers():
    small = shrunk({"num_hidden_layers": 24, "global_attn_indexes": [5, 11, 17, 23]})
    assert small["num_hidden_layers"] == 2
    assert small["global_attn_indexes"] == [1]


def test_settings_of_single_layers_follow_the_layers_that_stay():
    types = ["a", "a", "b", "a"]
    config = {"num_hidden_layers": 4, "layer_types": types, "per_layer_config": {"2": {"head_dim": 512}, "3": {}}}
    small = shrunk(config)
    assert small["layer_types"] == ["a", "b"]
    assert small["per_layer_config"] == {"1": {"head_dim": 16}}


def test_a_token_keeps_one_number_in_all_parts_of_a_config_and_lies_in_the_vocabulary():
    config = {"image_token_id": 32000, "text_config": {"vocab_size": 32064, "image_token_id": 32000, "eos_token_id": 2}}
    small = shrunk(config)
    assert small["text_config"]["vocab_size"] == VOCABULARY
    assert small["image_token_id"] == small["text_config"]["image_token_id"] < VOCABULARY
    assert small["text_config"]["eos_token_id"] == 2


def test_different_tokens_stay_different():
    small = shrunk({"vocab_size": 32064, "image_token_id": 32000, "video_token_id": 32001})
    assert small["image_token_id"] != small["video_token_id"]


def test_widths_by_stage_keep_their_order_and_heads_divide_them():
    small = shrunk({"hidden_sizes": [32, 64, 160, 256], "num_attention_heads": [1, 2, 5, 8], "depths": [3, 4, 6, 3]})
    assert small["depths"] == [2, 2, 2, 2]
    assert all(width % heads == 0 for width, heads in zip(small["hidden_sizes"], [1, 2, 5, 8], strict=True))


@pytest.mark.parametrize(
    ("full", "small"),
    [
        ({"image_size": 224, "patch_size": 16}, {"image_size": 64, "patch_size": 8}),
        ({"num_experts": 128, "num_experts_per_tok": 8}, {"num_experts": 4, "num_experts_per_tok": 2}),
        ({"use_cache": True}, {"use_cache": False}),
        (
            {"hidden_size": 4096, "mamba_n_heads": 128, "mamba_d_head": 64, "mamba_expand": 2},
            {"hidden_size": 64, "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_expand": 2},
        ),
        ({"pooler_output_size": 768}, {"pooler_output_size": 64}),
    ],
)
def test_relations_hold(full, small):
    assert shrunk(full) == small


@pytest.mark.parametrize(
    "kept",
    [
        {"hidden_act": "gelu", "dropout": 0.1, "is_decoder": False, "bos_token_id": None},
        {"num_channels": 3, "conv_kernel": [10, 3, 3], "conv_stride": [5, 2, 2], "sampling_rate": 16000},
        {"type_vocab_size": 2, "num_mel_bins": 80, "vision_feature_layer": -2},
    ],
)
def test_other_settings_stay(kept):
    assert shrunk(kept) == kept


def test_widths_that_are_multiplied_keep_the_last_one_that_follows_from_them():
    small = shrunk({"width_coefficient": 2.0, "depth_coefficient": 3.1, "hidden_dim": 2560, "num_channels": 3})
    assert small["hidden_dim"] == 64
    assert small["width_coefficient"] * 1280 == small["hidden_dim"]
    assert small["depth_coefficient"] == 1.0
    kept = {"width_coefficient": 0.05, "depth_coefficient": 1.0, "hidden_dim": 64}
    assert shrunk(kept) == kept
