"""The graph of a program's forward and backward pass together, which torch calls highly unstable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.export import ExportedProgram

PARAMETER, INPUT, LOSS = "GRADIENT_TO_PARAMETER", "GRADIENT_TO_USER_INPUT", "LOSS_OUTPUT"


def why_not() -> str | None:
    """Why there is no such graph with this torch; ``None`` where a small one gives the right gradient."""
    import torch
    from torch import nn

    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.tensor([2.0]))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (self.w * x).sum()

    try:
        found = gradients(joint(torch.export.export(Small(), (torch.tensor([3.0]),))), (torch.tensor([3.0]),))
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None if found.keys() == {"w"} and float(found["w"]) == 3.0 else "its gradient of a product is wrong"


def joint(program: ExportedProgram) -> ExportedProgram:
    """The joint graph of a program whose only output is the loss.

    Raises:
        Exception: What torch raises where an operator has no backward pass that can be captured.
    """
    from torch.export.experimental import _export_forward_backward

    made: ExportedProgram = _export_forward_backward(program, 0)
    return made


def gradients(
    program: ExportedProgram, flat: Any, state: Callable[[Any], Any] = lambda values: values
) -> dict[str, Any]:
    """Run a joint graph; the gradients by the names of the parameters.

    Args:
        program: What `joint` returned.
        flat: The flattened arguments.
        state: Makes the parameters, buffers and constants to run it with from its own, by name.
    """
    import torch

    signature = program.graph_signature
    values = state({**program.state_dict, **program.constants})
    arguments = iter(flat)
    inputs = [
        next(arguments) if spec.target is None or spec.target not in values else values[spec.target]
        for spec in signature.input_specs
    ]
    with torch.no_grad():
        results = torch.fx.Interpreter(program.graph_module).run(*inputs)
    return {
        str(spec.target): result
        for spec, result in zip(signature.output_specs, results, strict=True)
        if spec.kind.name == PARAMETER
    }
