"""Arguments that are no tensors and that nobody can ask to be dynamic: a program holds those of its example."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exportlint.shapes.contract import names_of_leaves

if TYPE_CHECKING:
    import torch

    from exportlint.checks.case import Inputs
    from exportlint.shapes.contract import Contract


def held_apart(
    model: torch.nn.Module, contract: Contract, example: Inputs, inputs: Inputs
) -> tuple[list[str], Inputs] | None:
    """What a program holds and a call has otherwise, such as ``flag = True``, and the call with what it holds.

    Args:
        model: Its ``forward`` gives the names of the arguments.
        contract: What may vary is not held.
        example: What the program was captured from.
        inputs: A call of the same structure.

    Returns:
        ``None`` where the call has all that the program holds.
    """
    import torch
    from torch.utils import _pytree as pytree

    dynamic = {leaf.index for leaf in contract.leaves}
    held, structure = pytree.tree_flatten(example)
    flat: list[Any] = pytree.tree_leaves(inputs)
    if len(held) != len(flat):
        return None
    words, names = names_of_leaves(model, example), []
    for i, (kept, value) in enumerate(zip(held, flat, strict=True)):
        if i not in dynamic and not isinstance(kept, torch.Tensor) and kept != value:
            names.append(f"{words[i]} = {kept!r}")
            flat[i] = kept
    return (names, pytree.tree_unflatten(flat, structure)) if names else None
