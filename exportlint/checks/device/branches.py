"""Part of the check ``device``: lines at which the device decides what is computed, found by posing."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any, cast

from exportlint import blame
from exportlint.checks import importing
from exportlint.checks.context import Context, call
from exportlint.checks.device.twin import difference, tensors
from exportlint.checks.isolation import apart
from exportlint.parity.compare import Bounds, compare

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from exportlint.checks.case import ModelCase
    from exportlint.checks.device.report import Report
    from exportlint.devices.posing import Branch
    from exportlint.findings import Finding

LONG = 5.0  # seconds; the modules are imported for each run
# What torch says where the model uses a device that was posed as.
_LACKS_DEVICE = re.compile(r"CUDA|MPS|XPU|not compiled with|no accelerator|accelerator device")
LOOSE: Bounds = {"rtol": 0.05, "atol": 1e-3}  # where no float64 run says how far rounding goes


def look_for_branches(ctx: Context, report: Report) -> None:
    """Run the model on the CPU while its tensors say that they are on another type of device.

    That is done apart: a cache by device would keep tensors of the CPU for a device that a later run is on.
    """
    from exportlint.devices import posing

    asked = () if apart.possible() else ctx.settings.devices
    types = [kind for kind in posing.TYPES if kind not in asked]
    ctx.stage(f"eager runs posing as {' and '.join(types)}")
    report.run_apart(lambda found: _pose(ctx, found, types), "branches on the device were not looked for")


def _pose(ctx: Context, report: Report, types: Sequence[str]) -> None:
    from exportlint.devices import posing

    again = importing.asked and ctx.load is not None and apart.possible()
    anew = _import_anew(ctx, report) if again else None

    def fresh() -> Callable[[], Any]:
        case = ctx if anew is None else anew()
        model = case.build()
        return lambda: call(model, case.example())

    found, stopped = posing.branches(fresh, types)
    for branch in found:
        report.add(_decided(ctx, branch))
    for run in stopped:
        if _LACKS_DEVICE.search(blame.words(run.error)):
            continue  # torch, which this machine has without the device: what was to differ may be told by no run
        where = f"where it takes its tensors to be on {run.device_type}"
        report.leave_out(f"branches on the device: {where}, the model raises {blame.words(run.error)}")


def _import_anew(ctx: Context, report: Report) -> Callable[[], Context] | None:
    """What imports the user's modules anew, some of which asked; `None`, and a note, where that fails or takes long."""

    def anew() -> Context:
        importing.forget()
        return Context(load(), ctx.settings, ctx.announce)

    load = cast("Callable[[], ModelCase]", ctx.load)
    began, why = time.process_time(), None
    try:
        anew()
    except Exception as error:
        why = blame.words(error)
    if time.process_time() - began > LONG:
        why = why or "they take long to import"
    if why is not None:
        report.notes.append(f"other answers to what modules asked when they were imported were not tried: {why}")
        return None
    return anew


def _decided(ctx: Context, branch: Branch) -> Finding:
    """A branch that changes the numbers, or computes what the device cannot, bites; another path alone does not.

    Nor does one that the CPU cannot follow to its end: an operator that only the device has is a reason for a branch.
    """
    where = f"where {branch.device_type} is available" if branch.asks_the_machine else f"on {branch.device_type}"
    message = f"branch on device: {where} something else is computed here"
    bites = branch.lacking is not None
    if branch.lacking is not None:
        dtype = str(branch.lacking).removeprefix("torch.")
        message += f", since {branch.device_type} has no {dtype}"
    elif branch.run.error is None:
        bites = difference(ctx, tensors(branch.plain.result), tensors(branch.run.result)) is not None
        bites = bites or _differs_aside(ctx, branch)
    return blame.finding(
        "EXP204", message, branch.place, outcome="unportable" if bites else "fine", evidence=branch.what
    )


def _differs_aside(ctx: Context, branch: Branch) -> bool:
    """Whether branches of ``cond`` that the example does not take compute something else, beyond any rounding."""
    pairs = zip(branch.plain.aside, branch.run.aside, strict=False)
    return any(
        compare(tensors(plain.result), tensors(run.result), **(ctx.tolerance or LOOSE)) is not None
        for plain, run in pairs
        if plain.error is None and run.error is None
    )
