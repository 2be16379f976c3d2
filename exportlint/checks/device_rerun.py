"""Part of the check ``device``: programs that are run on the second device, and kept for a process that loads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint import blame
from exportlint.checks import device_saved, failing_node, uncaptured
from exportlint.checks.context import call, unchanged
from exportlint.checks.device_twin import difference, tensors
from exportlint.places import display_path

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

    from exportlint.checks.context import Context
    from exportlint.checks.device_report import Report

EXPORTED, MOVED = "exported on the second device", "moved to the second device"


def rerun(ctx: Context, report: Report, expected: list[torch.Tensor], twin: ExportedProgram | None) -> None:
    """Run the program that was exported on the second device there, then the CPU's program, moved there.

    Those that run there as the eager model does are saved, to be loaded in another process. The CPU's program is moved
    in place, so nothing may need it afterwards.

    Args:
        ctx: The model case.
        report: Where findings go.
        expected: What the eager model returns on the second device, as tensors of the CPU.
        twin: The program that was exported there, if there is one.
    """
    program = uncaptured.program(ctx)
    if program is None:
        return
    ctx.stage("run of the program on the CPU")
    try:
        with unchanged(program):
            own = tensors(call(program.module(), ctx.example()))
    except Exception:
        return  # for the check ``capture`` to say
    if difference(ctx, expected, own) is not None:
        report.notes.append("the program's result differs from the eager model's on the CPU already: not run elsewhere")
        return
    if twin is not None:
        ctx.stage(f"run of the program that was {EXPORTED}")
        trouble = _trouble(ctx, expected, twin)
        if trouble is not None:
            report.notes.append(f"the program, {EXPORTED}, {trouble}")
        else:
            device_saved.keep(ctx, report, twin, EXPORTED, expected)
    _move(ctx, report, expected, program)


def _move(ctx: Context, report: Report, expected: list[torch.Tensor], program: ExportedProgram) -> None:
    from exportlint.devices import rerun as moving

    ctx.stage("move of the program to the second device")
    try:
        moved = moving.move(program)
    except Exception as error:
        if blame.is_out_of_memory(error):
            raise MemoryError from error
        report.notes.append(f"move_to_device_pass cannot move the program: {blame.words(error)}")
        return
    ctx.stage("run of the moved program")
    trouble = _trouble(ctx, expected, moved)
    if trouble is None:
        device_saved.keep(ctx, report, moved, MOVED, expected)
        return
    left = list(moving.left_behind(moved))
    for what, place in left:
        message = f"{what} follows the inputs here and stays on the CPU when move_to_device_pass moves the program"
        rewrite = "Export on the target device: move_to_device_pass does not mend this line."
        evidence = f"the moved program {trouble}"
        report.add(blame.finding("EXP205", message, place, outcome="fine", rewrite=rewrite, evidence=evidence))
    if not left:
        report.notes.append(f"the program, {MOVED}, {trouble}")


def _trouble(ctx: Context, expected: list[torch.Tensor], program: ExportedProgram) -> str | None:
    """Why a program does not do on the second device what the eager model does there, in words; ``None`` if it does."""
    from exportlint.devices import second

    inputs = second.to_second(ctx.example())
    with second.policy("raise"):
        try:
            with unchanged(program):
                actual = second.to_cpu(tensors(call(program.module(), inputs)))
        except Exception as error:
            if blame.is_out_of_memory(error):
                raise MemoryError from error
            place = failing_node.place(program, second.to_second(ctx.example()))
            at = "" if place is None else f" (at {display_path(place.file)}:{place.line})"
            return f"does not run there: {blame.words(error)}{at}"
    found = difference(ctx, expected, actual)
    return None if found is None else f"returns something else there: {found}"
