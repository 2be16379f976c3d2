"""Part of the check ``device``: devices other than the second one, as far as this machine and this torch have them.

A real accelerator runs the eager model, the program that is exported on it, and the CPU's program, moved to it; each is
compared with the eager model on the same device. ``meta`` and ``fake-cuda`` hold no numbers: the eager model runs there
without data, and what mixes devices is refused.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exportlint import blame
from exportlint.checks import device_saved
from exportlint.checks.context import call
from exportlint.checks.device_report import blame_origin
from exportlint.checks.device_twin import difference, tensors

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from exportlint.checks.case import Inputs
    from exportlint.checks.context import Context
    from exportlint.checks.device_report import Report

MIXED = re.compile(r"two different devices|at least two devices|not on the expected device|on the same device")


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A device to run on.

    Attributes:
        name: What the user calls it.
        device_type: torch's name for its type.
        numbers: Whether results can be compared.
    """

    name: str
    device_type: str
    numbers: bool


KNOWN = {
    "meta": Elsewhere("meta", "meta", numbers=False),
    "fake-cuda": Elsewhere("fake-cuda", "cuda", numbers=False),
    "cuda": Elsewhere("cuda", "cuda", numbers=True),
    "mps": Elsewhere("mps", "mps", numbers=True),
    "xpu": Elsewhere("xpu", "xpu", numbers=True),
}


def run_elsewhere(ctx: Context, report: Report, name: str) -> None:
    """Run on this device; where that cannot be done, the report says why."""
    where = KNOWN[name]
    if where.numbers and not _present(where.device_type):
        report.leave_out(f"{name}: this machine, or this build of torch, has no such device")
        return
    run_on(ctx, report, where)


def _present(device_type: str) -> bool:
    import torch

    module = getattr(torch, device_type, None)
    return module is not None and bool(module.is_available())


def run_on(ctx: Context, report: Report, where: Elsewhere) -> None:
    """The eager model there, and, where there are numbers, its programs."""
    from exportlint.devices.kept import find_kept
    from exportlint.devices.provenance import Provenance

    ctx.stage(f"eager run on {where.name}")
    model, inputs = ctx.build(), ctx.example()
    try:
        with _placed(model, inputs, where) as there:
            provenance = Provenance(where.device_type, find_kept(model), births=where.numbers)
            with provenance:
                result = tensors(call(model, there))
    except Exception as error:
        if blame.is_out_of_memory(error):
            raise MemoryError from error
        if not MIXED.search(str(error)):
            report.leave_out(f"{where.name} cannot run the model: {blame.words(error)}")
            return
        rule, message, place = blame_origin(provenance.blamed, blame.place_of(error))
        report.add(blame.finding(rule, message, place, outcome="unportable", evidence=blame.words(error)))
        return
    if where.numbers and not report.stuck():
        _programs(ctx, report, where, [tensor.cpu() for tensor in result])


@contextlib.contextmanager
def _placed(model: torch.nn.Module, inputs: Inputs, where: Elsewhere) -> Iterator[Inputs]:
    """Move the model, in place; yields the arguments moved."""
    import torch
    from torch.utils import _pytree as pytree

    if where.name != "fake-cuda":
        model.to(where.device_type)
        yield pytree.tree_map_only(torch.Tensor, lambda t: t.to(where.device_type), inputs)
        return
    from exportlint.devices.twin import fake_module

    fakes, mode = fake_module(model, inputs, torch.device(where.device_type, 0))
    with mode:
        yield fakes


def _programs(ctx: Context, report: Report, where: Elsewhere, expected: list[torch.Tensor]) -> None:
    """Run the program that is exported there, and the CPU's, moved there."""
    import torch
    from torch.export.passes import move_to_device_pass

    try:
        own = ctx.export(ctx.dynamic_shapes)
    except Exception:
        return  # for the check ``capture`` to say

    def exported() -> Any:
        model = ctx.build()
        with _placed(model, ctx.example(), where) as (args, kwargs), torch.no_grad():
            return torch.export.export(model, args, kwargs, dynamic_shapes=ctx.dynamic_shapes, strict=False)

    def moved() -> Any:
        return move_to_device_pass(own, where.device_type)

    for how, make in {f"exported on {where.name}": exported, f"moved to {where.name}": moved}.items():
        ctx.stage(f"run of the program, {how}")
        try:
            program = make()
            with _placed(ctx.build(), ctx.example(), where) as inputs:
                actual = [tensor.cpu() for tensor in tensors(call(program.module(), inputs))]
        except Exception as error:
            if blame.is_out_of_memory(error):
                raise MemoryError from error
            report.notes.append(f"the program, {how}, does not run there: {blame.words(error)}")
            continue
        found = difference(ctx, expected, actual)
        if found is not None:
            report.notes.append(f"the program, {how}, returns something else than the eager model there: {found}")
        else:
            device_saved.keep(ctx, report, program, how, expected, where.device_type)
