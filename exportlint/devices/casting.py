"""Programs and models in bfloat16: what a cast program does, and how far bfloat16's own rounding may take its result.

``ep.module().to(torch.bfloat16)`` casts parameters and buffers. The dtypes that the graph names stay, and so do the
tensors that were made constants. Before each cast torch's graph checks for the dtype of the export, so that a program
with as little as ``x.float()`` in its source raises when it is cast.
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from exportlint.devices.program import graph_modules, place_of

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from exportlint.places import Place

LOW = torch.bfloat16
EPSILON = torch.finfo(LOW).eps
Inputs = tuple[tuple[Any, ...], dict[str, Any]]


def cast_inputs(inputs: Inputs, dtype: torch.dtype = LOW) -> Inputs:
    """The arguments with their float32 and bfloat16 tensors in this dtype."""

    def cast(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(dtype) if tensor.dtype in (torch.float32, LOW) else tensor

    found: Inputs = pytree.tree_map_only(torch.Tensor, cast, inputs)
    return found


def _own(program: ExportedProgram) -> Any:
    """The program as a module with parameters and buffers of its own, since a cast writes into parameters.

    A copy of the whole module would not do: it makes buffers of constant tensors, which are then cast as well.
    """
    module = program.module(check_guards=False)
    memo: dict[int, Any] = {}
    for part in module.modules():
        tables: tuple[dict[str, Any], ...] = (part._parameters, part._buffers)
        for table in tables:
            table.update({name: copy.deepcopy(value, memo) for name, value in table.items()})
    return module


class _Stepwise(torch.fx.Interpreter):
    """Runs a program node by node and keeps the node that it is at."""

    at: torch.fx.Node | None = None

    def run_node(self, n: torch.fx.Node) -> Any:
        self.at = n
        return super().run_node(n)


class CastProgramError(Exception):
    """A program that was cast raises; the cause is its exception, and `place` the line of the node that raised."""

    def __init__(self, place: Place | None) -> None:
        super().__init__("the cast program raises")
        self.place = place


def run_cast(program: ExportedProgram, inputs: Inputs) -> list[Any]:
    """The outputs, in order, of a copy of the program that was cast as a user does it.

    Args:
        program: A program that was exported in float32; it stays as it is.
        inputs: The arguments, in float32.

    Raises:
        CastProgramError: When the program raises.
    """
    steps = _Stepwise(_own(program).to(LOW))
    try:
        with torch.no_grad():
            return pytree.tree_leaves(steps.run(*pytree.tree_leaves(cast_inputs(inputs))))
    except Exception as error:
        raise CastProgramError(place_of(steps.at) if steps.at is not None else None) from error


class _Rounding(torch.fx.Interpreter):
    """Runs a float32 program with the precision of bfloat16: each result is rounded, in place, so that views hold."""

    def __init__(self, module: torch.fx.GraphModule, noise: torch.Generator | None) -> None:
        super().__init__(module)
        self.noise = noise

    def run_node(self, n: torch.fx.Node) -> Any:
        value = super().run_node(n)
        schema = getattr(n.target, "_schema", None) if n.op == "call_function" else None
        if schema is not None and all(result.alias_info is None for result in schema.returns):
            pytree.tree_map_only(torch.Tensor, self._round, value)
        return value

    def _round(self, tensor: torch.Tensor) -> None:
        if tensor.dtype != torch.float32 or not tensor.numel() or 0 in tensor.stride():
            return
        if self.noise is not None:
            tensor.mul_(1 + EPSILON * (torch.rand(tensor.shape, generator=self.noise) - 0.5))
        tensor.copy_(tensor.to(LOW))


def run_rounded(program: ExportedProgram, inputs: Inputs, draws: int) -> tuple[list[Any], list[list[Any]]]:
    """Outputs of a float32 program for weights and inputs that bfloat16 can hold, exact and with rounded steps.

    Args:
        program: A program that was exported in float32; it stays as it is.
        inputs: The arguments, in float32.
        draws: How often to run it with rounding that is also disturbed at random, which shows where a result jumps.

    Returns:
        The outputs in float32 arithmetic, and those of each run that rounds every step.
    """
    leaves = pytree.tree_leaves(cast_inputs(cast_inputs(inputs), torch.float32))
    noises = [None, *(torch.Generator().manual_seed(seed) for seed in range(draws))]

    def fresh() -> Any:
        return _own(program).to(LOW).to(torch.float32)

    def copies() -> list[Any]:
        return [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]

    with torch.no_grad():
        exact = pytree.tree_leaves(torch.fx.Interpreter(fresh()).run(*copies()))
        return exact, [pytree.tree_leaves(_Rounding(fresh(), noise).run(*copies())) for noise in noises]


def draws_random_numbers(program: ExportedProgram) -> bool:
    """Whether the program holds an operator that draws random numbers, which depend on the dtype."""
    return any(
        torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        for module in graph_modules(program)
        for node in module.graph.nodes
    )


def distance(reference: list[Any], other: list[Any]) -> float:
    """The largest difference of two lists of outputs, relative to the largest magnitude in each tensor.

    Only floating-point tensors count: what is chosen by comparing numbers, as argmax does, may differ. Infinite where
    shapes differ, or where one has a value that is not finite and the other has not.
    """
    worst = 0.0
    for a, b in zip(reference, other, strict=False):
        if not (isinstance(a, torch.Tensor) and a.is_floating_point() and isinstance(b, torch.Tensor)):
            continue
        if a.shape != b.shape:
            return math.inf
        x, y = a.detach().double(), b.detach().double()
        if not torch.equal(x.isfinite(), y.isfinite()):
            return math.inf
        x, y = x[x.isfinite()], y[y.isfinite()]
        if x.numel():
            worst = max(worst, float((x - y).abs().max()) / (float(x.abs().max()) or 1.0))
    return worst
