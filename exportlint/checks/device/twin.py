"""Part of the check ``device``: the program's twin, and both programs run on the second device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exportlint import blame, places
from exportlint.checks import uncaptured
from exportlint.checks.context import call
from exportlint.checks.device.report import blame_origin, stayed
from exportlint.parity.compare import Difference, compare
from exportlint.text import said

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch.export import ExportedProgram

    from exportlint.checks.context import Context
    from exportlint.checks.device.report import Report
    from exportlint.devices.provenance import Provenance
    from exportlint.parity.reference import Reference
    from exportlint.places import Place

_BRANCHES = (".type", "is_cuda", "is_cpu", "is_mps", "is_xpu", "==", "!=", "is_available", "accelerator", "count")


def tensors(result: Any) -> list[torch.Tensor]:
    """The tensors of a result, caches and other objects included."""
    from exportlint.devices.kept import tensors_in

    return list(tensors_in(result))


def difference(ctx: Context, expected: Any, actual: Any) -> Difference | None:
    """The first difference of two results beyond the case's tolerance, or beyond what rounding explains."""
    return compare(expected, actual, reference=_in_double(ctx), **ctx.tolerance)


def _in_double(ctx: Context) -> Reference:
    from exportlint.parity.reference import Reference

    whole = ctx.reference(ctx.example())

    def prepare() -> Callable[[], list[torch.Tensor]]:
        run = whole.prepare()
        return lambda: tensors(run())

    return Reference(prepare)


def materialised(ctx: Context) -> torch.nn.Module:
    """A fresh model, called once where it has parameters that take their sizes from the first call."""
    from torch.nn.parameter import is_lazy

    model = ctx.build()
    if any(is_lazy(tensor) for tensor in (*model.parameters(), *model.buffers())):
        call(model, ctx.example())
    return model


def export_there(ctx: Context, report: Report) -> ExportedProgram | None:
    """Export on the second device; a meeting of devices that only tracing sees is a finding."""
    from exportlint.devices import hooks
    from exportlint.devices.kept import find_kept
    from exportlint.devices.provenance import Provenance
    from exportlint.devices.twin import export_on_second

    with hooks.hidden():
        program = uncaptured.program(ctx)
    if program is None:
        report.notes.append("not exported on the second device, since the export on the CPU fails")
        return None
    model, (args, kwargs) = materialised(ctx), ctx.example()
    provenance = Provenance(hooks.NAME, find_kept(model), births=False)
    ctx.stage("export on the second device")
    try:
        with provenance:
            twin = export_on_second(model, args, kwargs, ctx.dynamic_shapes)
    except Exception as error:
        blame.pass_on_memory_error(error)
        if provenance.blamed is None and not is_mixed(error):
            if report.unchecked is None:
                report.notes.append(f"the export on the second device fails: {blame.words(error)}")
            return None
        if provenance.blamed is None and _met_under_capture(ctx, report):
            return None
        rule, message, place = blame_origin(provenance.blamed, place_under_capture(error))
        report.add(blame.finding(rule, message, place, outcome="unportable", evidence=blame.words(error)))
        return None
    _compare_programs(ctx, report, twin, provenance)
    return twin


def _met_under_capture(ctx: Context, report: Report) -> bool:
    """Whether an eager run on the paths of an export meets tensors of the CPU; each is a finding.

    The compiler that traces the branches of ``cond`` during an export tells of no single call.
    """
    from exportlint.devices import hooks, second
    from exportlint.devices.kept import find_kept
    from exportlint.devices.provenance import Provenance

    model, inputs = second.move_module(materialised(ctx)), second.to_second(ctx.example())
    provenance = Provenance(hooks.NAME, find_kept(model))
    ctx.stage("eager run on the second device, as if it were exported")
    with second.policy("record", provenance.origin) as mismatches:
        try:
            with hooks.exporting(), provenance:
                call(model, inputs)
        except Exception as error:
            blame.pass_on_memory_error(error)
    for mismatch in mismatches:
        report.add(stayed(mismatch))
    return bool(mismatches)


def is_mixed(error: Exception) -> bool:
    """Whether two devices met, in any of torch's words."""
    from exportlint.devices.provenance import MISMATCH

    return "evice" in type(error).__name__ or MISMATCH.search(said(error)) is not None


def place_under_capture(error: Exception) -> Place | None:
    """The innermost line that is the user's; inside ``cond`` and its like the compiler keeps a stack of its own."""
    stack = getattr(error, "real_stack", None) or ()
    frames = [(frame.filename, frame.lineno) for frame in reversed(list(stack)) if frame.lineno is not None]
    return places.of_frames(frames) or blame.place_of(error)


def _compare_programs(ctx: Context, report: Report, twin: ExportedProgram, provenance: Provenance) -> None:
    """Another structure is a branch on the device, where a line of the user's asks for it."""
    from exportlint.devices import hooks
    from exportlint.devices.program import canonical, unlike

    ours = canonical(ctx.program())
    parting = unlike(ours, canonical(twin))
    if parting is None or report.has("EXP204"):
        return
    with hooks.hidden():
        again = ctx.export(ctx.dynamic_shapes)
    if unlike(ours, canonical(again)) is not None:
        return  # it differs from export to export on the CPU
    evidence = f"{parting.words}, where it was exported on the second device"
    branches = [place for place in provenance.reads if any(word in place.source for word in _BRANCHES)]
    if branches:
        message = "branch on device: the device decides which program is captured"
        report.add(blame.finding("EXP204", message, branches[-1], outcome="fine", evidence=evidence))
    else:
        report.notes.append(f"torch captures another program on the second device: {evidence}")
