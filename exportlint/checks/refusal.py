"""What a case may ask for instead, where the export refuses its dynamic shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exportlint.shapes.corrected import corrected
from exportlint.torch_hooks.guards import GuardLog

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from exportlint.checks.context import Context
    from exportlint.shapes.contract import Contract


def what_exports(ctx: Context, contract: Contract) -> tuple[str, ...]:
    """A note with the dynamic shapes that the export accepts, which were tried; none where there are none."""
    log = GuardLog()

    def export(shapes: Any) -> ExportedProgram:
        log.guards.clear()
        with log:
            return ctx.export(shapes)

    ctx.stage("export with other dynamic shapes")
    found = corrected(ctx.build(), ctx.example(), contract, export, lambda: log.guards)
    return () if found is None else (f"dynamic_shapes that export (from torch.export import Dim): {found.code}",)
