"""The line to blame for a program whose result for its own example is wrong."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from exportlint import places
from exportlint.checks import divergence
from exportlint.checks.context import call
from exportlint.parity.compare import is_fake

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from exportlint.checks.context import Context
    from exportlint.places import Place

FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def place_of(ctx: Context, program: ExportedProgram) -> Place | None:
    """The line that makes a tensor without data, else the one at which the eager call and the captured one part."""
    return without_data(ctx, program) or captured_otherwise(ctx)


def without_data(ctx: Context, program: ExportedProgram) -> Place | None:
    """The line of the first node of the program that returns a tensor without data when it is run."""
    found: list[Place] = []

    class Interpreter(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            value = super().run_node(n)
            if n.op == "call_function" and any(
                isinstance(v, torch.Tensor) and is_fake(v) for v in pytree.tree_leaves(value)
            ):
                frames = [(file, int(line)) for file, line in FRAME.findall(n.stack_trace or "")]
                place = places.of_frames(reversed(frames))
                found.extend([place] if place is not None else [])
            return value

    try:
        with torch.no_grad():
            Interpreter(program.module(check_guards=False)).run(*pytree.tree_leaves(ctx.example()))
    except Exception:
        return found[0] if found else None
    return found[0] if found else None


def captured_otherwise(ctx: Context) -> Place | None:
    """The last line before the eager call and the call under capture went different ways."""
    eager, captured = ctx.build(), ctx.build()
    inputs, (args, kwargs) = ctx.example(), ctx.example()
    lines = divergence.lines_of(lambda: call(eager, inputs))

    def capture() -> None:
        with torch.no_grad():
            torch.export.export(captured, args, kwargs, dynamic_shapes=ctx.dynamic_shapes, strict=False)

    for i, (one, other) in enumerate(zip(lines, divergence.lines_of(capture), strict=False)):
        if one != other:
            return divergence.decision(lines, i)
    return None
