"""Part of the check ``device``: programs that are saved, to be loaded and run on their device by another process.

The first half runs inside the check. The second half is `loader.job_elsewhere`, in a process that lacks the model's
source. What it says becomes a part of the result of the check.
"""

from __future__ import annotations

import dataclasses
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from exportlint import blame
from exportlint.checks.device.report import PASSED
from exportlint.checks.loader import ELSEWHERE, SECOND
from exportlint.findings import Finding
from exportlint.torch_hooks import flat, serialisation

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

    from exportlint.checks.context import Context
    from exportlint.checks.device.report import Report
    from exportlint.findings import CheckResult

UNLOADABLE = (
    "the saved programs cannot be loaded in a process without the model's source, which is for the check reload"
)


UNSAVED = "torch cannot save a program of this model, which is for the check reload"


def leaves(result: Any) -> list[torch.Tensor]:
    """The tensors of a program's result in the order in which a flat program returns them."""
    import torch
    from torch.utils import _pytree as pytree

    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def keep(
    ctx: Context,
    report: Report,
    program: ExportedProgram,
    how: str,
    expected: list[torch.Tensor],
    device: str = SECOND,
    suspect: Finding | None = None,
) -> None:
    """Save a program of another device; where torch cannot, the report says so once.

    It is saved flat: that the classes of its arguments and results must be at hand is not the device's matter.

    Args:
        ctx: The model case.
        report: Where a note goes, and what was saved.
        program: The program.
        how: How it came to the device, in words.
        expected: The leaves of what it returns there, as tensors of the CPU.
        device: The device.
        suspect: The finding if the program fails in the other process; a note where there is none.
    """
    import torch

    if not ctx.settings.workdir:
        return
    ctx.stage(f"save of the program that was {how}")
    file = f"{how.replace(' ', '_')}.pt2"
    try:
        with serialisation.quick():
            torch.export.save(flat.flattened(program), ctx.path(file))
    except Exception as error:
        blame.pass_on_memory_error(error)
        if not any(note.startswith(UNSAVED) for note in report.notes):
            report.notes.append(f"{UNSAVED}: {textwrap.shorten(blame.words(error), 100)}")
        return
    found = None if suspect is None else msgspec.to_builtins(suspect)
    report.saved.append({"file": file, "how": how, "device": device, "expected": expected, "suspect": found})


def record(ctx: Context, report: Report) -> None:
    """Write down what the other process shall call and find."""
    import torch
    from torch.utils import _pytree as pytree

    from exportlint.checks.reload import plain

    if report.saved:
        inputs = [plain(leaf) for leaf in pytree.tree_leaves(ctx.example())]
        torch.save({"inputs": inputs, "tolerance": ctx.tolerance, "programs": report.saved}, ctx.path(ELSEWHERE))


def pending(workdir: str) -> bool:
    """Whether there are programs to load."""
    return (Path(workdir) / ELSEWHERE).is_file()


def not_loaded(first: CheckResult) -> CheckResult:
    """The result where the check ``reload`` has found that the program cannot be loaded."""
    note = "the programs of the other devices were not loaded in another process, since the check reload fails"
    return dataclasses.replace(first, notes=(*first.notes, note))


def conclude(first: CheckResult, loaded: dict[str, Any] | None, ending: str) -> CheckResult:
    """The result of both halves: what went wrong is the finding that was kept for it, else a note.

    Args:
        first: The result of the first half.
        loaded: What `loader.job_elsewhere` said of each program; ``None`` when its process died.
        ending: How that process ended, in words.
    """
    if loaded is None:
        return dataclasses.replace(first, notes=(*first.notes, f"the process that loads the saved programs {ending}"))
    wrong = {how: said for how, said in loaded.items() if said["error"] is not None}
    if all(said["step"] == "load" and said["error"] is not None for said in loaded.values()):
        told: dict[str, dict[str, Any]] = {}  # it is the same for all devices
    else:
        told = {how: said for how, said in wrong.items() if said.get("suspect") is not None}
    findings = tuple(map(_found, told.values()))
    troubles = _troubles({how: said for how, said in wrong.items() if how not in told})
    first = _with(first, findings)
    reason, right = first.reason, len(loaded) - len(wrong)
    rerun = f"{right} program{'s' * (right > 1)} rerun"
    if first.outcome == "passed" and reason is None and right:
        reason = rerun
    elif first.outcome == "not_checked" and reason is not None and right:
        reason = reason.replace(PASSED, PASSED.replace("passed", rerun), 1)
    return dataclasses.replace(first, reason=reason, notes=(*first.notes, *troubles))


def _troubles(wrong: dict[str, dict[str, Any]]) -> list[str]:
    """What to note of programs that failed; that they cannot be loaded is the same for all, and for the CPU's."""
    unloadable = [said["error"] for said in wrong.values() if said["step"] == "load"]
    return [
        *[f"{UNLOADABLE}: {error}" for error in unloadable[:1]],
        *[
            f"the program, {how}, fails once it is saved and loaded in another process: {said['step']}: {said['error']}"
            for how, said in wrong.items()
            if said["step"] != "load"
        ],
    ]


def _found(said: dict[str, Any]) -> Finding:
    """The finding for a program that failed: it cannot be loaded, or it does something else than before."""
    suspect = msgspec.convert(said["suspect"], Finding)
    rule = "EXP004" if suspect.rule == "EXP701" and said["step"] != "load" else suspect.rule
    return dataclasses.replace(suspect, rule=rule, evidence=f"{said['step']}: {said['error']}")


def _with(first: CheckResult, findings: tuple[Finding, ...]) -> CheckResult:
    """The result with further findings; one above advice makes it failed."""
    all_of_them = (*first.findings, *findings)
    alarm = next((finding for finding in findings if finding.severity != "info"), None)
    if alarm is None or first.outcome == "failed":
        return dataclasses.replace(first, findings=all_of_them)
    reason = f"{alarm.place}: {alarm.message}"
    return dataclasses.replace(first, outcome="failed", reason=reason, findings=all_of_them)
