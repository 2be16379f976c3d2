"""Part of the check ``device``: programs that are saved, to be loaded and run on their device by another process.

The first half runs inside the check. The second half is `loader.job_elsewhere`, in a process that lacks the model's
source. What it says becomes a part of the result of the check.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exportlint import blame
from exportlint.checks.loader import ELSEWHERE, SECOND

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

    from exportlint.checks.context import Context
    from exportlint.checks.device_report import Report
    from exportlint.findings import CheckResult


def keep(
    ctx: Context,
    report: Report,
    program: ExportedProgram,
    how: str,
    expected: list[torch.Tensor],
    device: str = SECOND,
) -> None:
    """Save a program of another device; where torch cannot, the report says so.

    Args:
        ctx: The model case.
        report: Where a note goes, and what was saved.
        program: The program.
        how: How it came to the device, in words.
        expected: What the eager model returns there, as tensors of the CPU.
        device: The device.
    """
    import torch

    if not ctx.settings.workdir:
        return
    ctx.stage(f"save of the program that was {how}")
    file = f"elsewhere{len(report.saved)}.pt2"
    try:
        torch.export.save(program, ctx.path(file))
    except Exception as error:
        if blame.is_out_of_memory(error):
            raise MemoryError from error
        report.notes.append(f"the program, {how}, cannot be saved: {blame.words(error)}")
        return
    report.saved.append({"file": file, "how": how, "device": device, "expected": expected})


def record(ctx: Context, report: Report) -> None:
    """Write down what the other process shall call and find."""
    import torch
    from torch.utils import _pytree as pytree

    from exportlint.checks.reload import described_classes, plain

    if report.saved:
        inputs = [plain(leaf) for leaf in pytree.tree_leaves(ctx.example())]
        common = {"inputs": inputs, "tolerance": ctx.tolerance, "classes": described_classes(ctx)}
        torch.save({**common, "programs": report.saved}, ctx.path(ELSEWHERE))


def pending(workdir: str) -> bool:
    """Whether there are programs to load."""
    return (Path(workdir) / ELSEWHERE).is_file()


def not_loaded(first: CheckResult) -> CheckResult:
    """The result where the check ``reload`` has found that the program cannot be loaded."""
    note = "the programs of the other devices were not loaded in another process, since the check reload fails"
    return dataclasses.replace(first, notes=(*first.notes, note))


def conclude(first: CheckResult, loaded: dict[str, Any] | None, ending: str) -> CheckResult:
    """The result of both halves: what went wrong is a note, as for the run inside the check.

    Args:
        first: The result of the first half.
        loaded: What `loader.job_elsewhere` said of each program; ``None`` when its process died.
        ending: How that process ended, in words.
    """
    if loaded is None:
        return dataclasses.replace(first, notes=(*first.notes, f"the process that loads the saved programs {ending}"))
    troubles = [
        f"the program, {how}, fails once it is saved and loaded in another process: {said['step']}: {said['error']}"
        for how, said in loaded.items()
        if said["error"] is not None
    ]
    reason, right = first.reason, len(loaded) - len(troubles)
    if first.outcome == "passed" and reason is None and right:
        reason = f"{right} program{'s' * (right > 1)} rerun"
    return dataclasses.replace(first, reason=reason, notes=(*first.notes, *troubles))
