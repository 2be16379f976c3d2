"""Part of the check ``device``: devices other than the second one, as far as this machine and this torch have them.

A real accelerator runs the eager model; `device_programs` later runs its programs there. ``meta`` and ``fake-cuda``
hold no numbers: the eager model runs there without data, and what mixes devices is refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from exportlint import blame
from exportlint.checks.context import call
from exportlint.checks.device.places import Elsewhere, PlacementError, elsewhere, of_the_device, placed, present
from exportlint.checks.device.report import Report, blame_origin
from exportlint.checks.device.twin import difference, is_mixed, tensors
from exportlint.text import said
from exportlint.torch_hooks import forked

if TYPE_CHECKING:
    import torch

    from exportlint.checks.context import Context
    from exportlint.devices.provenance import Origin

_LOST = (
    "it was in use already in the process that was forked for this check, and does not survive that: "
    "use --isolation server, for a case that can be imported by its name"
)
TO_NUMPY = re.compile(r"can't convert .* to numpy")


def run_elsewhere(ctx: Context, report: Report, where: Elsewhere) -> list[torch.Tensor] | None:
    """Run the eager model on this device; where that cannot be done, the report says why.

    Returns:
        What the model returns there, as tensors of the CPU, if its programs are worth running there.
    """
    name = where.name
    if where.numbers and forked.lost(where.device_type):
        report.leave_out(f"{name}: {_LOST}")
    elif where.numbers and not present(where):
        report.leave_out(f"{name}: this machine, or this build of torch, has no such device")
    else:
        try:
            return _run_eager(ctx, report, where)
        except PlacementError as error:
            words = blame.words(error.__cause__ or error)
            report.leave_out(f"{name}: the model and its inputs cannot be moved there: {words}")
    return None


def run_without_numbers(ctx: Context, report: Report, where: Elsewhere) -> None:
    """The same on a device that holds no numbers, apart: a cache would keep the tensors without numbers."""
    report.run_apart(lambda found: run_elsewhere(ctx, found, where), where.name)


def follows_to_cuda(ctx: Context) -> bool:
    """Whether the eager model runs on fake tensors of cuda without a finding."""
    found = Report()
    run_without_numbers(ctx, found, elsewhere("fake-cuda"))
    return found.unchecked is None and not found.alarmed()


def _run_eager(ctx: Context, report: Report, where: Elsewhere) -> list[torch.Tensor] | None:
    ctx.stage(f"eager run on {where.name}")
    result, blamed = _watched(ctx, where)
    if isinstance(result, Exception):
        _refused(ctx, report, where, result, blamed)
        return None
    if not where.numbers:
        return None
    expected = [tensor.cpu() for tensor in result]
    again = [tensor.cpu() for tensor in _plainly(ctx, where)]
    if difference(ctx, expected, again) is None:
        return expected
    # a clock, a counter, random numbers: other checks name them
    report.notes.append(f"the eager model differs from call to call on {where.name}: its programs were not run there")
    return None


def _watched(ctx: Context, where: Elsewhere) -> tuple[list[torch.Tensor] | Exception, Origin | None]:
    """What the eager model returns there, or raises; and the origin of the tensor that torch refused, if it did."""
    from exportlint.devices.kept import find_kept
    from exportlint.devices.provenance import Provenance

    model = ctx.build()
    with placed(model, ctx.example(), where) as there:
        provenance = Provenance(where.device_type, find_kept(model), births=where.numbers)
        try:
            with provenance:
                return tensors(call(model, there)), None
        except Exception as error:
            blame.pass_on_memory_error(error)
            return error, provenance.blamed


def _plainly(ctx: Context, where: Elsewhere) -> list[torch.Tensor]:
    model = ctx.build()
    with placed(model, ctx.example(), where) as there:
        return tensors(call(model, there))


def _refused(ctx: Context, report: Report, where: Elsewhere, error: Exception, blamed: Origin | None) -> None:
    """The model ran on the CPU and raises there: its own fault only where that is certain."""
    place, words = blame.place_of(error), blame.words(error)
    if is_mixed(error):
        rule, message, place = blame_origin(blamed, place)
    elif TO_NUMPY.search(said(error)):
        rule, message = "EXP401", "a tensor that is not on the CPU is handed to numpy"
    elif where.numbers and place is not None and not of_the_device(error) and _only_there(ctx, where):
        rule, message = "EXP002", f"the model runs on the CPU, and this line raises on {where.name}"
        rewrite = "Write the line for tensors of any device; what has to be on the CPU is moved there with `.cpu()`."
        report.add(blame.finding(rule, message, place, outcome="unportable", rewrite=rewrite, evidence=words))
        return
    else:
        report.leave_out(f"{where.name} cannot run the model: {words}")
        return
    report.add(blame.finding(rule, message, place, outcome="unportable", evidence=words))


def _only_there(ctx: Context, where: Elsewhere) -> bool:
    """Whether the model raises there though nothing watches it, and does not raise on the CPU."""
    try:
        call(ctx.build(), ctx.example())
    except Exception:
        return False
    try:
        _plainly(ctx, where)
    except Exception:
        return True
    return False
