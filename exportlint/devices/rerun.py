"""The program that was captured on the CPU, moved to the second device by torch's own pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from exportlint.devices.program import CHECKS, base_name, graph_modules, place_of
from exportlint.devices.second import second_device

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch.export import ExportedProgram

    from exportlint.places import Place


def move(program: ExportedProgram) -> ExportedProgram:
    """Move the program, in place, to the second device.

    Raises:
        Exception: What `torch.export.passes.move_to_device_pass` raises: it fails on some programs.
    """
    from torch.export.passes import move_to_device_pass

    with torch.no_grad():
        return move_to_device_pass(program, second_device())


def left_behind(moved: ExportedProgram) -> Iterator[tuple[str, Place | None]]:
    """What still says ``cpu`` in a program after the pass, in words, with its line."""
    for module in graph_modules(moved):
        for node in module.graph.nodes:
            if node.op != "call_function" or base_name(node) in CHECKS:
                continue
            if str(node.target) == "wrap_with_autocast" and node.args[0] == "cpu":
                yield "the autocast region", _place_within(module, node)
            elif any(isinstance(arg, torch.device) and arg.type == "cpu" for arg in node.args):
                yield f"the device of {node.target}", place_of(node)


def _place_within(module: torch.fx.GraphModule, node: torch.fx.Node) -> Place | None:
    """The line of the first call in the region, since the region itself has none."""
    inner = next((arg for arg in node.all_input_nodes if arg.op == "get_attr"), None)
    region = getattr(module, str(inner.target), None) if inner is not None else None
    nodes = region.graph.nodes if isinstance(region, torch.fx.GraphModule) else ()
    return next((place for place in map(place_of, nodes) if place is not None), place_of(node))
