"""The twin of a program: the same model exported on the second device, and what the two say about devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from exportlint.devices import hooks
from exportlint.devices.moving import moving_modules
from exportlint.devices.program import CHECKS, base_name, graph_modules, place_of
from exportlint.devices.second import second_device, to_second

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torch.export import ExportedProgram

    from exportlint.devices.provenance import Made
    from exportlint.places import Place


def export_on_second(
    model: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    strict: bool = False,
) -> ExportedProgram:
    """Export a model on the second device.

    While tracing, parameters, buffers and inputs are fake tensors of that device, so that nothing is computed; the
    program is then given their numbers and can be run there. The model is changed.

    Args:
        model: The model, on the CPU.
        args: Positional arguments of the example call, on the CPU.
        kwargs: Its keyword arguments.
        dynamic_shapes: As for `torch.export.export`.
        strict: As for `torch.export.export`.

    Raises:
        SecondDeviceUnavailableError: See `exportlint.devices.second_device`.
        Exception: What `torch.export.export` raises.
    """
    device = second_device()
    numbers = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))
    own: list[tuple[torch.Tensor, torch.Tensor]] = []
    (fake_args, fake_kwargs), _ = fake_module(model, (args, kwargs or {}), device, own)
    with torch.no_grad():
        program = torch.export.export(model, fake_args, fake_kwargs, dynamic_shapes=dynamic_shapes, strict=strict)
    moved = {id(fake): tensor for tensor, fake in own}
    numbers |= {name: moved[id(value)] for name, value in program.constants.items() if id(value) in moved}
    _give_numbers(program, numbers)
    program._example_inputs = to_second((args, kwargs or {}))
    return program


def fake_module(
    model: torch.nn.Module,
    inputs: tuple[tuple[Any, ...], dict[str, Any]],
    device: torch.device,
    own: list[tuple[torch.Tensor, torch.Tensor]] | None = None,
) -> tuple[tuple[tuple[Any, ...], dict[str, Any]], Any]:
    """Put fake tensors of a device in place of the model's parameters and buffers.

    None of them requires a gradient: fake tensors of a device that this build lacks would end the process.

    Args:
        model: The model.
        inputs: The arguments of a call.
        device: The device.
        own: Is given what else the model moves itself, each tensor with its fake one.

    Returns:
        The arguments as fake tensors, and the fake mode of all of them.
    """
    leaves, spec = pytree.tree_flatten(inputs)
    tensors: dict[int, torch.Tensor] = {id(leaf): leaf for leaf in leaves if isinstance(leaf, torch.Tensor)}
    tensors |= {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    fakes, mode = hooks.fake_copies(tensors, device)
    parameters = {id(p): torch.nn.Parameter(fakes[id(p)], requires_grad=False) for p in model.parameters()}

    def move(tensor: torch.Tensor) -> torch.Tensor:
        known = parameters.get(id(tensor), fakes.get(id(tensor)))
        if known is not None:
            return known
        fake = tensor.to(device)
        if own is not None:
            own.append((tensor, fake))
        return fake

    with mode, moving_modules(move):
        model.to(device)
    return pytree.tree_unflatten([fakes.get(id(leaf), leaf) for leaf in leaves], spec), mode


def _give_numbers(program: ExportedProgram, numbers: dict[str, torch.Tensor]) -> None:
    """Put real tensors of the second device in place of the fake ones; tied ones stay tied."""
    parameters: dict[int, torch.nn.Parameter] = {}

    def given(name: str, fake: Any) -> Any:
        if name not in numbers:
            return fake
        if not isinstance(fake, torch.nn.Parameter):
            return real[name]
        key = id(real[name])
        return parameters.setdefault(key, torch.nn.Parameter(real[name], requires_grad=False))

    real = to_second(numbers)
    for kept in (program._state_dict, program._constants):
        kept.update({name: given(name, fake) for name, fake in kept.items()})


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
    for module in graph_modules(program):
        for node in module.graph.nodes:
            place = place_of(node) if node.op == "call_function" else None
            if place is not None:
                yield node, place


def _names_device(node: torch.fx.Node, device_type: str) -> bool:
    """Whether an argument of the node is a device of this type; 0-dim results, which are portable, do not count."""
    if base_name(node) in CHECKS:
        return False
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor) and value.dim() == 0:
        return False
    leaves = pytree.arg_tree_leaves(*node.args, **node.kwargs)
    return any(isinstance(leaf, torch.device) and leaf.type == device_type for leaf in leaves)
