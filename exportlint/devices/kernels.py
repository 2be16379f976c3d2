"""Operators whose path on a device other than the CPU has no CPU kernel, computed by operators that have one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def _lstm_cell(
    input_gates: torch.Tensor,
    hidden_gates: torch.Tensor,
    cell: torch.Tensor,
    input_bias: torch.Tensor | None = None,
    hidden_bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """``aten::_thnn_fused_lstm_cell``: new hidden state, new cell state, workspace."""
    gates = input_gates + hidden_gates
    if input_bias is not None and hidden_bias is not None:
        gates = gates + input_bias + hidden_bias
    into, forget, candidate, out = gates.chunk(4, 1)
    into, forget, candidate, out = into.sigmoid(), forget.sigmoid(), candidate.tanh(), out.sigmoid()
    new_cell = forget * cell + into * candidate
    return out * new_cell.tanh(), new_cell, torch.cat([into, forget, candidate, out], 1)


def _gru_cell(
    input_gates: torch.Tensor,
    hidden_gates: torch.Tensor,
    hidden: torch.Tensor,
    input_bias: torch.Tensor | None = None,
    hidden_bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """``aten::_thnn_fused_gru_cell``: new hidden state, workspace."""
    if input_bias is not None and hidden_bias is not None:
        input_gates, hidden_gates = input_gates + input_bias, hidden_gates + hidden_bias
    input_reset, input_update, input_new = input_gates.chunk(3, 1)
    hidden_reset, hidden_update, hidden_new = hidden_gates.chunk(3, 1)
    reset, update = (input_reset + hidden_reset).sigmoid(), (input_update + hidden_update).sigmoid()
    new = (input_new + reset * hidden_new).tanh()
    return new + update * (hidden - new), torch.cat([reset, update, new, hidden, hidden_new], 1)


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_bias: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """``aten::_scaled_dot_product_fused_attention_overrideable``; only the first result is used without a gradient."""
    attend = torch.nn.functional.scaled_dot_product_attention
    result = attend(query, key, value, attn_bias, dropout_p, is_causal, scale=scale)
    log_sum_exp = query.new_zeros(query.shape[:-1])
    zero = torch.zeros((), dtype=torch.int64)
    return result, log_sum_exp, zero, zero, query.shape[-2], key.shape[-2], zero, zero, query.new_zeros(0)


def _histc(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """``aten::histc``, of integers too, as on CUDA."""
    if tensor.is_floating_point():
        return torch.histc(tensor, *args, **kwargs)
    return torch.histc(tensor.float(), *args, **kwargs).to(tensor.dtype)


def _view_as_real(tensor: torch.Tensor) -> torch.Tensor:
    """``aten::view_as_real``, which the CPU's tensors are asked for only without pending signs."""
    return torch.view_as_real(tensor.resolve_conj().resolve_neg())


SUBSTITUTES: Mapping[str, Callable[..., Any]] = {
    "_thnn_fused_lstm_cell": _lstm_cell,
    "_thnn_fused_gru_cell": _gru_cell,
    "_scaled_dot_product_fused_attention_overrideable": _attention,
    "histc": _histc,
    "view_as_real": _view_as_real,
}

# The cells of recurrent nets have no kernel without data (torch then makes up real tensors); these compute one.
META_KERNELS: Mapping[str, Callable[..., Any]] = {
    "_thnn_fused_lstm_cell": _lstm_cell,
    "_thnn_fused_gru_cell": _gru_cell,
}
