"""What the checks that need the program say where there is none, for the check ``capture`` tells why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint import blame
from exportlint.checks.context import ModelError, NotCapturedError
from exportlint.findings import CheckResult

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from exportlint.checks.context import Context


def result(name: str, error: Exception) -> CheckResult:
    """The result of a check for what asking for the model, its inputs or its program raised.

    Raises:
        MemoryError: When there was not enough memory.
    """
    if isinstance(error, ModelError):
        reason = f"the model does not run: the {error.stage} fails"
        return CheckResult(name=name, outcome="not_checked", reason=reason)
    blame.pass_on_memory_error(error)
    notes = () if isinstance(error, NotCapturedError) else (blame.words(error),)
    return CheckResult(name=name, outcome="not_checked", reason="the model is not captured", notes=notes)


def program(ctx: Context) -> ExportedProgram | None:
    """The program that was captured on the CPU, or ``None``.

    Raises:
        MemoryError: When there was not enough memory.
    """
    try:
        return ctx.program()
    except Exception as error:
        result("", error)
        return None
