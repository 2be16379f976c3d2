"""A second call of a model whose first was inferred: one row more and one token more, tried out in eager mode."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch

    from exportlint.checks.case import Inputs


class SecondCall:
    """A call with other sizes, found when it is first asked for.

    Args:
        model: Makes the model.
        first: Makes the arguments of the first call, which the model accepts.
    """

    def __init__(self, model: Callable[[], Any], first: Callable[[], Inputs]) -> None:
        self._model, self._first = model, first

    @property
    def inputs(self) -> Inputs | None:
        """Its arguments; ``None`` where the model accepts none that was tried."""
        return self._found[0]

    @property
    def words(self) -> str:
        """What differs in it, or what was tried in vain."""
        return self._found[1]

    @functools.cached_property
    def _found(self) -> tuple[Inputs | None, str]:
        from exportlint.checks.context import call, fresh

        tried: list[str] = []
        for what, inputs in others(self._first()):
            try:
                call(self._model(), fresh(inputs))
            except Exception as error:
                tried.append(f"{what} ({type(error).__name__})")
                continue
            return inputs, f"and once more with {what}"
        return None, f"no other size is checked: {'; '.join(tried) or 'no tensor to make larger'}"


def others(inputs: Inputs) -> Iterator[tuple[str, Inputs]]:
    """Calls that a model may accept, too: what differs, and the arguments, those that differ most first."""
    import torch
    from torch.utils import _pytree as pytree

    leaves, structure = pytree.tree_flatten(inputs)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.dim()]
    if not tensors or not min(tensor.numel() for tensor in tensors):
        return
    batch = tensors[0].shape[0]
    length = next((t.shape[1] for t in tensors if _are_tokens(t)), None)

    def made(*, longer: bool) -> Inputs:
        changed = [_larger(leaf, batch, length if longer else None) for leaf in leaves]
        remade: Inputs = pytree.tree_unflatten(changed, structure)
        return remade

    if length is not None:
        yield f"{batch + 1} rows of length {length + 1}", made(longer=True)
    yield f"{batch + 1} rows", made(longer=False)


def _are_tokens(tensor: torch.Tensor) -> bool:
    """Whether it looks like ids, or a mask of them: integers of shape (batch, length)."""
    return tensor.dim() == 2 and not tensor.dtype.is_floating_point and not tensor.dtype.is_complex


def _larger(leaf: Any, batch: int, length: int | None) -> Any:
    """The tensor with one row more, and one token more, where it has as many as the others."""
    import torch

    if not isinstance(leaf, torch.Tensor) or not leaf.dim() or leaf.shape[0] != batch:
        return leaf
    larger = torch.cat([leaf, leaf[:1]])
    if length is not None and _are_tokens(leaf) and leaf.shape[1] == length:
        larger = torch.cat([larger, larger[:, -1:]], dim=1)
    return larger
