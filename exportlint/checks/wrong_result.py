"""The line to blame for a program whose result for its own example is wrong."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from exportlint.checks import divergence
from exportlint.checks.context import call, fresh, unchanged
from exportlint.parity.compare import is_fake
from exportlint.parity.parting import line_of, parting

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.export import ExportedProgram

    from exportlint.checks.case import Inputs
    from exportlint.checks.context import Context
    from exportlint.parity.parting import Parting
    from exportlint.places import Place

    Placed = Callable[[torch.nn.Module, Inputs], contextlib.AbstractContextManager[Inputs]]


def place_of(ctx: Context, program: ExportedProgram) -> tuple[Place | None, str]:
    """The line to blame, and where values part in words.

    The line makes a tensor without data, or is the last before the eager call and the captured one go different ways,
    else that of the first node whose value differs.
    """
    place = without_data(ctx, program)
    if place is not None:
        return place, ""
    found = values_part(ctx, program, ctx.example())
    place = captured_otherwise(ctx) or (found.place if found is not None else None)
    return place, "" if found is None else str(found)


def values_part(
    ctx: Context,
    program: ExportedProgram,
    inputs: Inputs,
    *,
    model: torch.nn.Module | None = None,
    own: Inputs | None = None,
    called: Callable[[Any, Inputs], Any] = call,
) -> Parting | None:
    """Where the values of the program part from those of the eager model in a call with these inputs.

    Args:
        ctx: The model case.
        program: The program, in the state that earlier calls left; it keeps that.
        inputs: The arguments, which are copied.
        model: The eager model in that state; a fresh one without it.
        own: The program's arguments, where they are others.
        called: Calls either of them.
    """
    eager = ctx.build() if model is None else model
    flat = pytree.tree_leaves(fresh(inputs if own is None else own))
    with unchanged(program):
        return parting(
            eager, lambda: called(eager, fresh(inputs)), program, flat, lambda run, args: called(run, (tuple(args), {}))
        )


def told(evidence: str, found: Parting | None, place: Place | None) -> tuple[str, Place | None]:
    """The evidence with where values part, and that line, or the given one where it is not known."""
    if found is None:
        return evidence, place
    return f"{evidence}; {found}", found.place or place


def unexplained(ctx: Context) -> Place | None:
    """The line to blame where no node's value parts: where the capture went another way, else the model's head."""
    return captured_otherwise(ctx) or ctx.head()


def without_data(ctx: Context, program: ExportedProgram) -> Place | None:
    """The line of the first node of the program that returns a tensor without data when it is run."""
    found: list[Place] = []

    class Interpreter(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            value = super().run_node(n)
            if n.op == "call_function" and any(
                isinstance(v, torch.Tensor) and is_fake(v) for v in pytree.tree_leaves(value)
            ):
                place = line_of(n)
                found.extend([place] if place is not None else [])
            return value

    try:
        with torch.no_grad():
            Interpreter(program.module(check_guards=False)).run(*pytree.tree_leaves(ctx.example()))
    except Exception:
        return found[0] if found else None
    return found[0] if found else None


def captured_otherwise(ctx: Context, placed: Placed = lambda _, inputs: contextlib.nullcontext(inputs)) -> Place | None:
    """The last line before the eager call and the call under capture went different ways.

    Args:
        ctx: The model case.
        placed: A context in which a model, moved in place, and the arguments that it yields are on another device.
    """
    eager, captured = ctx.build(), ctx.build()
    with placed(eager, ctx.example()) as inputs:
        lines = divergence.lines_of(lambda: call(eager, inputs))

    def capture() -> None:
        with placed(captured, ctx.example()) as (args, kwargs), torch.no_grad():
            torch.export.export(captured, args, kwargs, dynamic_shapes=ctx.dynamic_shapes, strict=False)

    for i, (one, other) in enumerate(zip(lines, divergence.lines_of(capture), strict=False)):
        if one != other:
            return divergence.decision(lines, i)
    return None
