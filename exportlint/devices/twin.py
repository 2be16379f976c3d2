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
    from collections.abc import Iterable

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
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                module._parameters[name] = torch.nn.Parameter(fakes[id(parameter)], requires_grad=False)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = fakes[id(buffer)]
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
    followed = [made for made in calls if made.label == "followed" and made.place is not None]
    other = {made.place for made in calls if made.label != "followed"}
    there = {} if twin is None else dict.fromkeys(place for place in _device_places(twin, hooks.NAME) if place)
    found: dict[Place, None] = {}
    for place in _device_places(program, "cpu"):
        if place is None:
            continue
        lines = [made.place for made in followed if made.place is not None and place in made.chain]
        if not lines and place in there:
            lines = [place]
        found.update(dict.fromkeys(line for line in lines if line not in other))
    return list(found)


def _device_places(program: ExportedProgram, device_type: str) -> list[Place | None]:
    """The innermost user line of each node that names a device of this type; 0-dim results do not count."""
    return [
        _place(node)
        for graph_module in program.graph_module.modules()
        if isinstance(graph_module, torch.fx.GraphModule)
        for node in graph_module.graph.nodes
        if node.op == "call_function" and _names_device(node, device_type)
    ]


def _names_device(node: torch.fx.Node, device_type: str) -> bool:
    if getattr(getattr(node.target, "_opname", None), "strip", str)() in _ASSERTS:
        return False
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor) and value.dim() == 0:
        return False
    leaves = pytree.arg_tree_leaves(*node.args, **node.kwargs)
    return any(isinstance(leaf, torch.device) and leaf.type == device_type for leaf in leaves)


def _place(node: torch.fx.Node) -> Place | None:
    frames = [(m["file"], int(m["line"])) for m in _FRAME.finditer(node.meta.get("stack_trace") or "")]
    return places.of_frames(reversed(frames))
