"""Part of the check ``device``: programs that are run on the second device, and kept for a process that loads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint import blame
from exportlint.checks import failing_node, uncaptured
from exportlint.checks.context import call, result_of, unchanged
from exportlint.checks.device import saved as device_saved
from exportlint.checks.device.programs import EXPORT_THERE, Trouble, advise, unmovable
from exportlint.checks.device.twin import difference, tensors

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

    from exportlint.checks.context import Context
    from exportlint.checks.device.report import Report

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
        own = tensors(result_of(program, ctx.example()))
    except Exception:
        return  # for the check ``capture`` to say
    if difference(ctx, expected, own) is not None:
        report.notes.append("the program's result differs from the eager model's on the CPU already: not run elsewhere")
        return
    good = False
    if twin is not None:
        ctx.stage(f"run of the program that was {EXPORTED}")
        trouble = _ran(ctx, expected, twin)
        if isinstance(trouble, Trouble):
            report.notes.append(f"the program, {EXPORTED}, {trouble.what}: {trouble.evidence}")
        else:
            good = True
            device_saved.keep(ctx, report, twin, EXPORTED, trouble)
    _move(ctx, report, expected, program, good=good)


def _move(ctx: Context, report: Report, expected: list[torch.Tensor], program: ExportedProgram, *, good: bool) -> None:
    """Move the CPU's program, in place, and run it; `good` says that it is torch's pass that is to blame."""
    from exportlint.devices import rerun as moving
    from exportlint.devices.hooks import NAME

    ctx.stage("move of the program to the second device")
    try:
        moved = moving.move(program)
    except Exception as error:
        blame.pass_on_memory_error(error)
        message = "move_to_device_pass cannot move the program to the second device"
        advise(ctx, report, message, [unmovable(program, NAME)], blame.words(error), good=good)
        return
    ctx.stage("run of the moved program")
    trouble = _ran(ctx, expected, moved)
    if not isinstance(trouble, Trouble):
        device_saved.keep(ctx, report, moved, MOVED, trouble)
        return
    left = list(moving.left_behind(moved))
    for what, place in left:
        message = f"{what} follows the inputs here and stays on the CPU when move_to_device_pass moves the program"
        evidence = f"the moved program {trouble.what}: {trouble.evidence}"
        report.add(blame.finding("EXP205", message, place, outcome="fine", rewrite=EXPORT_THERE, evidence=evidence))
    if not left:
        message = f"the program, moved to the second device by move_to_device_pass, {trouble.what}"
        advise(ctx, report, message, [trouble.place], trouble.evidence, good=good)


def _ran(ctx: Context, expected: list[torch.Tensor], program: ExportedProgram) -> list[torch.Tensor] | Trouble:
    """Run a program on the second device: the tensors of its result, or what it does that eager there does not."""
    from exportlint.devices import second

    inputs = second.to_second(ctx.example())
    with second.policy("raise"):
        try:
            with unchanged(program):
                result = call(program.module(), inputs)
                actual, kept = (second.to_cpu(of(result)) for of in (tensors, device_saved.leaves))
        except Exception as error:
            blame.pass_on_memory_error(error)
            place = failing_node.place(program, second.to_second(ctx.example()))
            return Trouble("does not run there", blame.words(error), place)
    found = difference(ctx, expected, actual)
    return kept if found is None else Trouble("returns something else there", str(found))
