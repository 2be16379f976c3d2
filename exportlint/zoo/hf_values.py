"""Values for the arguments of models of ``transformers``, by the argument's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exportlint.zoo.hf_inputs import BATCH, image_size, setting, tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from exportlint.zoo.hf_inputs import Draft


def make(name: str, draft: Draft) -> Any:
    """A value for an argument, or None where no way to make one is known."""
    maker = MAKERS.get(name)
    return maker(draft) if maker is not None else None


def _input_ids(draft: Draft) -> Any:
    """Two sequences of different tokens, with the placeholders that images and sounds need at their front."""
    import torch

    vocabulary = setting(draft.config, "vocab_size", "text_vocab_size") or 32
    special = {i for i in _special(draft.config) if i is not None}
    plain = [i for i in range(3, int(vocabulary)) if i not in special] or [0]
    rows = []
    for row in range(BATCH):
        front = [i for kind, n in draft.tokens.items() for i in [_placeholder(draft.config, kind)] * n]
        rest = draft.length - len(front)
        rows.append(front + [plain[(3 * i + 7 * row) % len(plain)] for i in range(rest)])
    return torch.tensor(rows)


def _special(config: Any) -> list[Any]:
    parts = [config, *(v for v in vars(config).values() if hasattr(v, "to_dict"))]
    return [
        v
        for part in parts
        for k, v in vars(part).items()
        if (k.endswith(("_token_id", "_token_index")) and isinstance(v, int))
    ]


def _placeholder(config: Any, kind: str) -> int:
    return int(setting(config, f"{kind}_token_id", f"{kind}_token_index", f"{kind}_placeholder_token_id") or 0)


def _mask(draft: Draft) -> Any:
    """Ones, but for the last two tokens of the second sequence, so that masking counts."""
    import torch

    first = next((n for n in ("input_ids", "input_features", "input_values") if n in draft.names), "input_ids")
    length = draft.length
    if first == "input_values":
        length = _input_values(draft).shape[-1]
    elif first == "input_features":
        length = _input_features(draft).shape[1]
    mask = torch.ones(BATCH, length, dtype=torch.int64)
    if first == "input_ids":
        mask[1, -2:] = 0
    return mask


def _pixel_values(draft: Draft) -> Any:
    if "image_grid_thw" in draft.parameters or "grid_thw" in draft.parameters:
        return _patches(draft)
    height, width = image_size(draft.config)
    channels = setting(draft.config, "num_channels", "in_channels", "num_input_channels") or 3
    channels = channels if isinstance(channels, int) else 3
    frames = setting(draft.config, "num_frames")
    if isinstance(frames, int) and "pixel_values_videos" not in draft.parameters:
        return tensor(BATCH, frames, channels, height, width)
    images = {1: (1,), 2: (2,)}.get(draft.layout, ())  # some models take several images, or tiles, a sequence
    return tensor(BATCH, *images, channels, height, width)


def _grid(draft: Draft) -> tuple[int, int]:
    """Patches from top to bottom and from left to right, where the model takes flattened patches."""
    merge = setting(draft.config, "spatial_merge_size", "merge_size") or 2
    return 2 * merge, 2 * merge


def _patches(draft: Draft) -> Any:
    rows, columns = _grid(draft)
    patch, channels = setting(draft.config, "patch_size"), setting(draft.config, "in_channels", "in_chans") or 3
    return tensor(BATCH * rows * columns, channels * (setting(draft.config, "temporal_patch_size") or 1) * patch**2)


def _image_sizes(draft: Draft) -> Any:
    import torch

    return torch.tensor([image_size(draft.config)] * BATCH)


def _grid_thw(draft: Draft) -> Any:
    import torch

    return torch.tensor([[1, *_grid(draft)]] * BATCH)


def _video(draft: Draft) -> Any:
    height, width = image_size(draft.config)
    return tensor(BATCH, setting(draft.config, "frames_per_clip", "num_frames") or 2, 3, height, width)


def _bands(draft: Draft) -> int:
    bands = setting(draft.config, "num_mel_bins", "input_feat_per_channel", "feature_size", "n_mels", "mel_bins")
    return int(bands or 80)


def _input_features(draft: Draft) -> Any:
    bands = _bands(draft)
    positions = setting(draft.config, "max_source_positions") or 64
    layouts = ((BATCH, bands, 2 * positions), (BATCH, 64, bands), (BATCH, bands, 64), (BATCH, 1, 64, bands))
    return tensor(*layouts[draft.layout])


def _input_values(draft: Draft) -> Any:
    bands = setting(draft.config, "num_mel_bins") or 80
    layouts = (
        (BATCH, 2000),
        (BATCH, 1, 2000),
        (BATCH, setting(draft.config, "max_length") or 64, bands),
        (BATCH, 16000),
    )
    return tensor(*layouts[draft.layout])


def _decoder_input_ids(draft: Draft) -> Any:
    import torch

    vocabulary = setting(draft.config, "decoder_vocab_size", "vocab_size") or 32
    tokens = (torch.arange(3, 3 + BATCH * 4) % int(vocabulary)).view(BATCH, 4)
    channels = getattr(getattr(draft.config, "decoder_config", None), "num_channels", None)
    return tokens if channels is None else tokens[..., None].repeat(1, 1, channels)


def _boxes(draft: Draft) -> Any:
    import torch

    corner = torch.arange(BATCH * draft.length).view(BATCH, draft.length, 1) % 50
    boxes = torch.cat([corner, corner + 1, corner + 20, corner + 30], dim=-1)
    return boxes / 100 if draft.layout else boxes  # in pixels, or in parts of the page


def _series(draft: Draft, past: bool, features: int = 0) -> Any:
    """Values, or features, of a time series before or after the present."""
    config = draft.config
    past_length = (setting(config, "context_length") or 8) + max(setting(config, "lags_sequence") or (0,))
    length = past_length if past else setting(config, "prediction_length")
    if features:
        return tensor(BATCH, length, features)
    size = setting(config, "input_size", "num_input_channels") or 1
    return tensor(BATCH, length) if size == 1 else tensor(BATCH, length, size)


def _past_values(draft: Draft) -> Any:
    if "past_time_features" in draft.parameters:
        return _series(draft, past=True)
    channels = setting(draft.config, "num_input_channels")
    length = setting(draft.config, "context_length") or 32
    return tensor(BATCH, length, channels) if channels else tensor(BATCH, length)


def _observed(draft: Draft) -> Any:
    import torch

    return torch.ones_like(_past_values(draft))


def _episode(draft: Draft, width: int) -> Any:
    return tensor(BATCH, draft.length, width)


def _timesteps(draft: Draft) -> Any:
    return _positions(draft)


def _visual(draft: Draft, width: int) -> Any:
    return tensor(BATCH, 4, width)


def _zeros(draft: Draft) -> Any:
    import torch

    return torch.zeros(BATCH, draft.length, dtype=torch.int64)


def _positions(draft: Draft) -> Any:
    import torch

    return torch.arange(draft.length).expand(BATCH, draft.length).clone()


MAKERS: dict[str, Callable[[Draft], Any]] = {
    "input_ids": _input_ids,
    "attention_mask": _mask,
    "pixel_values": _pixel_values,
    "pixel_values_videos": _video,
    "input_features": _input_features,
    "input_values": _input_values,
    "decoder_input_ids": _decoder_input_ids,
    "image_grid_thw": _grid_thw,
    "grid_thw": _grid_thw,
    "image_sizes": _image_sizes,
    "bbox": _boxes,
    "token_type_ids": _zeros,
    "mm_token_type_ids": _zeros,
    "position_ids": _positions,
    "inputs": lambda draft: tensor(BATCH, draft.length, draft.config.d_model),
    "timesteps": _timesteps,
    "states": lambda draft: _episode(draft, draft.config.state_dim),
    "actions": lambda draft: _episode(draft, draft.config.act_dim),
    "rewards": lambda draft: _episode(draft, 1),
    "returns_to_go": lambda draft: _episode(draft, 1),
    "past_values": _past_values,
    "past_time_features": lambda draft: _series(draft, past=True, features=draft.config.num_time_features),
    "past_observed_mask": _observed,
    "future_values": lambda draft: _series(draft, past=False),
    "future_time_features": lambda draft: _series(draft, past=False, features=draft.config.num_time_features),
    "visual_feats": lambda draft: _visual(draft, draft.config.visual_feat_dim),
    "visual_pos": lambda draft: _visual(draft, draft.config.visual_pos_dim),
    "visual_embeds": lambda draft: _visual(draft, draft.config.visual_embedding_dim),
}
