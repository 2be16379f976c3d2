"""What a call does beside returning values: what it writes into its arguments and buffers, and what shares memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from exportlint.parity.compare import compare as compared

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from exportlint.parity.compare import Difference


@dataclass(frozen=True, slots=True)
class Observed:
    """One call of the eager model or of the program.

    Attributes:
        result: What it returned.
        inputs: The arguments as the call left them, by place or name.
        returned: Names of those that are containers and part of the result.
        buffers: Copies of the buffers after the call, by name.
        written: Names of those that the call changed.
        shares: For each tensor that was returned: the names of what its memory also belongs to.
    """

    result: Any
    inputs: Mapping[str, Any]
    returned: frozenset[str]
    buffers: Mapping[str, torch.Tensor]
    written: frozenset[str]
    shares: Mapping[str, tuple[str, ...]]


def observe(module: nn.Module, inputs: Any, call: Callable[[Any, Any], Any]) -> Observed:
    """Call a module and see what changes and what shares memory.

    Args:
        module: The eager model, or a program as a module.
        inputs: Positional and keyword arguments, which the call may write into.
        call: Calls the module with them.
    """
    arguments = pytree.tree_leaves(inputs)
    before = copies(dict(module.named_buffers()))
    result = call(module, inputs)
    after = copies(dict(module.named_buffers()))
    return Observed(
        result=pytree.tree_map(kept, result),
        inputs=_named(inputs),
        returned=_returned(inputs, result),
        buffers=after,
        written=frozenset(name for name, buffer in after.items() if _is_changed(before.get(name), buffer)),
        shares=_shares(module, arguments, result),
    )


def kept(leaf: Any) -> Any:
    """A result that a later write into a buffer does not change."""
    plain = type(leaf) in (torch.Tensor, nn.Parameter) and leaf.layout is torch.strided and leaf.device.type != "meta"
    return leaf.detach().clone() if plain else leaf


def _returned(inputs: Any, result: Any) -> frozenset[str]:
    """Names of the arguments that are containers and part of the result."""
    ids = set()

    def see(node: Any) -> bool:
        ids.add(id(node))
        return False

    pytree.tree_leaves(result, is_leaf=see)
    named = _named(inputs).items()
    return frozenset(name for name, value in named if id(value) in ids and not isinstance(value, torch.Tensor))


def _named(inputs: Any) -> dict[str, Any]:
    args, kwargs = inputs
    return {**{str(i): value for i, value in enumerate(args)}, **kwargs}


def left_by(module: nn.Module, inputs: Any) -> dict[str, Any]:
    """What a call left in arguments and buffers, by the names that `inputs_differ` and `buffers_differ` use."""
    inside = {f"the buffer {name}": buffer for name, buffer in copies(dict(module.named_buffers())).items()}
    return {**{f"input {name}": value for name, value in _named(inputs).items()}, **inside}


def inputs_differ(
    eager: Observed, program: Observed, compare: Callable[[Any, Any, str], Difference | None]
) -> str | None:
    """The first argument that was changed otherwise, in words.

    Of a container that eager also returns, whoever calls the program takes what that returns.

    Args:
        eager: The eager model's call.
        program: The program's.
        compare: Compares two values, of which the third argument says what they are, as `left_by` does.
    """
    for name, value in eager.inputs.items():
        found = None if name in eager.returned else compare(value, program.inputs[name], f"input {name}")
        if found is not None:
            return f"input {name}{found.where.removeprefix('output')}: {found.what}"
    return None


def copies(buffers: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The buffers by name, as they are now."""
    return {name: buffer.detach().clone() for name, buffer in buffers.items()}


def _is_changed(before: torch.Tensor | None, after: torch.Tensor) -> bool:
    """Whether a buffer holds other numbers; of one without data that cannot be told."""
    return before is None or (not after.is_meta and compared(before, after, rtol=0.0, atol=0.0) is not None)


def written_differ(
    eager: Observed, program: Observed, compare: Callable[[Any, Any, str], Difference | None]
) -> str | None:
    """The first buffer that a call of either changed and that differs, in words.

    What neither changes is as it was built: a buffer that is never filled is another one in each model.
    """
    names = eager.written | program.written
    written = {name: buffer for name, buffer in eager.buffers.items() if name in names}
    return buffers_differ(written, program.buffers, compare)


def buffers_differ(
    eager: Mapping[str, torch.Tensor],
    program: Mapping[str, torch.Tensor],
    compare: Callable[[Any, Any, str], Difference | None],
) -> str | None:
    """The first buffer of both that differs, in words; a program has none of those that it does not use."""
    for name in (name for name in eager if name in program):
        found = compare(eager[name], program[name], f"the buffer {name}")
        if found is not None:
            return f"the buffer {name}: {found.what}"
    return None


def shares_differ(eager: Observed, program: Observed) -> str | None:
    """The first output whose memory belongs to something else in the program, in words."""
    for name, known in eager.shares.items():
        found = program.shares.get(name, ())
        if set(found) != set(known):
            left, right = (" and ".join(names) or "nothing else" for names in (known, found))
            return f"{name} shares its memory with {left} in eager, with {right} in the program"
    return None


def _shares(module: nn.Module, arguments: list[Any], result: Any) -> dict[str, tuple[str, ...]]:
    """Owners of the memory of each tensor among the results, by the name of the result."""
    owners: dict[int, list[str]] = {}

    def own(name: str, tensor: Any) -> int | None:
        memory = _memory(tensor)
        if memory is not None:
            owners.setdefault(memory, []).append(name)
        return memory

    for i, leaf in enumerate(arguments):
        own(f"argument {i}", leaf)
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        own(name, tensor)
    named = {
        f"output{pytree.keystr(path)}": leaf
        for path, leaf in pytree.tree_flatten_with_path(result)[0]
        if isinstance(leaf, torch.Tensor)
    }
    memories = {name: own(name, leaf) for name, leaf in named.items()}
    return {
        name: tuple(owner for owner in owners[memory] if owner != name)
        for name, memory in memories.items()
        if memory is not None
    }


def _memory(leaf: Any) -> int | None:
    """The address of a tensor's memory; ``None`` for what has none of its own."""
    if not isinstance(leaf, torch.Tensor) or leaf.layout is not torch.strided or leaf.device.type == "meta":
        return None
    try:
        storage = leaf.untyped_storage()
        return storage.data_ptr() if storage.nbytes() else None
    except Exception:  # a wrapper without storage
        return None
