"""The twin of a program: the same model exported on the second device, and what the two say about devices."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from exportlint import places
from exportlint.devices import hooks
from exportlint.devices.second import second_device

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torch.export import ExportedProgram

    from exportlint.devices.provenance import Made
    from exportlint.places import Place

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_ASSERTS = frozenset({"_assert_tensor_metadata"})


def export_on_second(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExportedProgram:
    """Export a model on the second device, with the sizes of the example fixed.

    Parameters, buffers and inputs become fake tensors of that device, so that
    tracing computes nothing. The model is changed.

    Raises:
        Exception: What `torch.export.export` raises.
    """
    device = second_device()
    leaves, spec = pytree.tree_flatten((args, kwargs))
    tensors: dict[int, torch.Tensor] = {id(leaf): leaf for leaf in leaves if isinstance(leaf, torch.Tensor)}
    tensors |= {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    fakes = hooks.fake_copies(tensors, device)
    parameters = {id(p): torch.nn.Parameter(fakes[id(p)], requires_grad=False) for p in model.parameters()}
    for module in model.modules():
        module._parameters.update({n: p if p is None else parameters[id(p)] for n, p in module._parameters.items()})
        module._buffers.update({n: b if b is None else fakes[id(b)] for n, b in module._buffers.items()})
    args, kwargs = pytree.tree_unflatten([fakes.get(id(leaf), leaf) for leaf in leaves], spec)
    with torch.no_grad():
        return torch.export.export(model, args, kwargs, strict=False)


def baked_places(program: ExportedProgram, calls: Iterable[Made], twin: ExportedProgram | None) -> list[Place]:
    """Lines whose device follows a tensor in the source and is a constant in the program, in the program's order.

    Args:
        program: The program that was exported on the CPU.
        calls: The labelled calls of an eager run, by `Provenance`.
        twin: The program that was exported on the second device. It tells of lines that run under capture only.
    """
    nodes = list(_nodes(program))
    seen = {place for _, place in nodes}
    baking = dict.fromkeys(place for node, place in nodes if _names_device(node, "cpu"))
    there = set() if twin is None else {place for node, place in _nodes(twin) if _names_device(node, hooks.NAME)}
    lines: dict[Place, list[Made]] = {}
    for made in calls:
        # a node knows frames of ``forward`` only: the innermost line of the call that any node names
        place = next((place for place in made.chain if place in seen), None)
        if place is not None:
            lines.setdefault(place, []).append(made)
    found: dict[Place, None] = {}
    for place in baking:
        at_place = lines.get(place, [])
        if not at_place and place in there:
            found[place] = None
        other = {made.place for made in at_place if made.label != "followed"}
        found.update({made.place: None for made in at_place if made.place is not None and made.place not in other})
    return list(found)


def _nodes(program: ExportedProgram) -> Iterator[tuple[torch.fx.Node, Place]]:
    """The calls of the program and of its nested graphs, each with its innermost line that is the user's."""
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                place = _place(node) if node.op == "call_function" else None
                if place is not None:
                    yield node, place


def _names_device(node: torch.fx.Node, device_type: str) -> bool:
    """Whether an argument of the node is a device of this type; 0-dim results, which are portable, do not count."""
    if getattr(node.target, "__name__", "").partition(".")[0] in _ASSERTS:
        return False
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor) and value.dim() == 0:
        return False
    leaves = pytree.arg_tree_leaves(*node.args, **node.kwargs)
    return any(isinstance(leaf, torch.device) and leaf.type == device_type for leaf in leaves)


def _place(node: torch.fx.Node) -> Place | None:
    frames = [(m["file"], int(m["line"])) for m in _FRAME.finditer(node.meta.get("stack_trace") or "")]
    return places.of_frames(reversed(frames))
