"""Part of the check ``device``: a model's programs on a real accelerator, compared with the eager model there.

The program that is exported there must run there, with the eager model's numbers, and again after it was saved and
loaded in another process: what fails is a finding. The program of the CPU is moved there by `move_to_device_pass`; what
that breaks, of a model whose own program is right, is advice to export on the target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exportlint import blame
from exportlint.checks import failing_node, wrong_result
from exportlint.checks.context import call, result_of, unchanged
from exportlint.checks.device import saved as device_saved
from exportlint.checks.device.places import of_the_device, placed
from exportlint.checks.device.report import blame_origin
from exportlint.checks.device.twin import difference, is_mixed, place_under_capture, tensors

if TYPE_CHECKING:
    from collections.abc import Iterable

    import torch
    from torch.export import ExportedProgram

    from exportlint.checks.context import Context
    from exportlint.checks.device.places import Elsewhere
    from exportlint.checks.device.report import Report
    from exportlint.places import Place

EXPORT_THERE = "Export on the target device: move_to_device_pass does not mend this line."


@dataclass(frozen=True, slots=True)
class Trouble:
    """What a program does that the eager model does not.

    Attributes:
        what: In words that follow "the program".
        evidence: The exception, or the first difference.
        place: The line of the node that raised.
        certain: Whether it is no fault of the device or of torch.
    """

    what: str
    evidence: str
    place: Place | None = None
    certain: bool = True


def run_programs(
    ctx: Context, report: Report, where: Elsewhere, expected: list[torch.Tensor], eager: list[torch.Tensor]
) -> None:
    """Run the program that is exported there, and the CPU's, moved there.

    Args:
        ctx: The model case.
        report: Where findings go.
        where: The device.
        expected: What the eager model returns there, as tensors of the CPU.
        eager: What it returns on the CPU. It is not called any more, since an export may leave something behind.
    """
    own = _right_on_the_cpu(ctx, report, eager)
    if own is None:
        return
    good = _exported(ctx, report, where, expected)
    _moved(ctx, report, where, expected, own, good=good)


def _right_on_the_cpu(ctx: Context, report: Report, eager: list[torch.Tensor]) -> ExportedProgram | None:
    """The program of the CPU, unless it is wrong there already, which other checks name."""
    from exportlint.devices import hooks

    ctx.stage("run of the program on the CPU")
    try:
        with hooks.hidden():
            own = ctx.export(ctx.dynamic_shapes)
            actual = tensors(result_of(own, ctx.example()))
    except Exception:
        return None
    if difference(ctx, eager, actual) is None:
        return own
    note = "the program's result differs from the eager model's on the CPU already: not run elsewhere"
    report.notes += [] if note in report.notes else [note]
    return None


def _exported(ctx: Context, report: Report, where: Elsewhere, expected: list[torch.Tensor]) -> bool:
    """Whether the program that is exported there does there what the eager model does."""
    how = f"exported on {where.name}"
    ctx.stage(f"export on {where.name}")
    program = _export(ctx, report, where)
    if program is None:
        return False
    ctx.stage(f"run of the program that was {how}")
    trouble = _ran(ctx, where, expected, program)
    if not isinstance(trouble, Trouble):
        message = f"the program that was {how} fails there once it is saved and loaded in another process"
        suspect = blame.finding("EXP701", message, ctx.head(), outcome="unportable")
        device_saved.keep(ctx, report, program, how, trouble, where.device_type, suspect)
        return True
    message = f"the program that was {how} {trouble.what}"
    if not trouble.certain:
        report.notes.append(f"{message}: {trouble.evidence}")
        return False
    place = trouble.place or wrong_result.captured_otherwise(ctx, lambda m, inputs: placed(m, inputs, where))
    report.add(blame.finding("EXP004", message, place or ctx.head(), outcome="unportable", evidence=trouble.evidence))
    return False


def _export(ctx: Context, report: Report, where: Elsewhere) -> ExportedProgram | None:
    """Export there; a model that cannot be exported there, and can on the CPU, is a finding."""
    import torch

    from exportlint.devices.kept import find_kept
    from exportlint.devices.provenance import Provenance

    model = ctx.build()
    with placed(model, ctx.example(), where) as (args, kwargs):
        provenance = Provenance(where.device_type, find_kept(model), births=False)
        try:
            with provenance, torch.no_grad():
                return torch.export.export(model, args, kwargs, dynamic_shapes=ctx.dynamic_shapes, strict=False)
        except Exception as error:
            blame.pass_on_memory_error(error)
            words, place = blame.words(error), place_under_capture(error)
            if provenance.blamed is not None or is_mixed(error):
                rule, message, place = blame_origin(provenance.blamed, place)
            elif place is None or of_the_device(error):
                report.notes.append(f"the export on {where.name} fails: {words}")
                return None
            else:
                rule, message = blame.classify(error)
                message = f"{message}, on {where.name} and not on the CPU"
            report.add(blame.finding(rule, message, place, outcome="unportable", evidence=words))
            return None


def _moved(
    ctx: Context,
    report: Report,
    where: Elsewhere,
    expected: list[torch.Tensor],
    program: ExportedProgram,
    *,
    good: bool,
) -> None:
    """Move the CPU's program there, in place, and run it; `good` says that it is torch's pass that is to blame."""
    import torch
    from torch.export.passes import move_to_device_pass

    from exportlint.devices.rerun import left_behind

    ctx.stage(f"move of the program to {where.name}")
    how = f"the program, moved to {where.name} by move_to_device_pass,"
    try:
        with torch.no_grad():
            moved = move_to_device_pass(program, where.device_type)
    except Exception as error:
        message = f"move_to_device_pass cannot move the program to {where.name}"
        advise(ctx, report, message, [unmovable(program, where.device_type)], blame.words(error), good=good)
        return
    trouble = _ran(ctx, where, expected, moved)
    if not isinstance(trouble, Trouble):
        message = f"{how} fails there once it is saved and loaded in another process"
        suspect = blame.finding("EXP205", message, ctx.head(), outcome="fine", rewrite=EXPORT_THERE)
        device_saved.keep(ctx, report, moved, f"moved to {where.name}", trouble, where.device_type, suspect)
        return
    places: list[Place | None] = [place for _, place in left_behind(moved)]
    advise(ctx, report, f"{how} {trouble.what}", places or [trouble.place], trouble.evidence, good=good)


def advise(
    ctx: Context, report: Report, message: str, places: Iterable[Place | None], evidence: str, *, good: bool
) -> None:
    """Advice to export there, at the lines, else at the head of the model; a note where that does not help either."""
    if not good:
        report.notes.append(f"{message}: {evidence}")
        return
    found: list[Place | None] = [place for place in places if place is not None]
    for place in found or [ctx.head()]:
        report.add(blame.finding("EXP205", message, place, outcome="fine", rewrite=EXPORT_THERE, evidence=evidence))


def unmovable(program: ExportedProgram, device_type: str) -> Place | None:
    """The line of the first node whose recorded tensor cannot be moved, as the pass does."""
    import torch
    from torch.utils import _pytree as pytree

    from exportlint.devices.program import graph_modules, place_of

    def move(value: Any) -> Any:
        return value.to(device_type)

    for module in graph_modules(program):
        for node in module.graph.nodes:
            try:
                pytree.tree_map_only(torch.Tensor, move, node.meta.get("val"))
            except Exception:
                return place_of(node)
    return None


def _ran(
    ctx: Context, where: Elsewhere, expected: list[torch.Tensor], program: ExportedProgram
) -> list[torch.Tensor] | Trouble:
    """Run a program there: the tensors of its result, on the CPU, or what it does that eager there does not."""
    with placed(ctx.build(), ctx.example(), where) as inputs:
        try:
            with unchanged(program):
                result = call(program.module(), inputs)
                actual, kept = ([t.cpu() for t in of(result)] for of in (tensors, device_saved.leaves))
        except Exception as error:
            blame.pass_on_memory_error(error)
            with placed(ctx.build(), ctx.example(), where) as again:
                place = failing_node.place(program, again)
            return Trouble("does not run there", blame.words(error), place, certain=not of_the_device(error))
    found = difference(ctx, expected, actual)
    return kept if found is None else Trouble("returns something else than the eager model there", str(found))
