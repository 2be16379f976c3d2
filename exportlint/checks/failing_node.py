"""The line to blame for a program that fails when it is run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from exportlint import places

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

    from exportlint.checks.case import Inputs
    from exportlint.places import Place


def place(program: ExportedProgram, inputs: Inputs) -> Place | None:
    """The line recorded for the node of the program that fails with these inputs."""
    import torch
    from torch.utils import _pytree as pytree

    class Interpreter(torch.fx.Interpreter):
        last: torch.fx.Node | None = None

        def run_node(self, n: torch.fx.Node) -> Any:
            self.last = n
            return super().run_node(n)

    interpreter = Interpreter(program.module(check_guards=False))
    try:
        with torch.no_grad():
            interpreter.run(*pytree.tree_leaves(inputs))
    except Exception:
        trace = (interpreter.last.stack_trace if interpreter.last is not None else None) or ""
        frames = [(file, int(line)) for file, line in re.findall(r'File "([^"]+)", line (\d+)', trace)]
        return places.of_frames(reversed(frames))
    return None
