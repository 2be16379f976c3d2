"""The check ``device``: does the model follow its inputs to another device, and what of that does the program bake?

1. The model runs on the CPU, watched: what writes down a device that is not there, or makes a tensor without one?
2. It runs on the second device, where tensors that stayed on the CPU meet those that moved. Such a meeting is repaired,
   so that one run lists all of them, and is blamed on the line that made the tensor. The numbers must be the CPU's.
3. It is exported there: some code runs under capture only.
4. Devices that follow the inputs in the source and are constants in the program are named, as information.

A tensor that stayed on the CPU and may, since it is 0-dim or an index, is portable and no finding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from exportlint import blame
from exportlint.checks.context import ModelError, call
from exportlint.findings import SEVERITIES, CheckResult
from exportlint.parity.compare import compare
from exportlint.places import display_path

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch.export import ExportedProgram

    from exportlint.checks.context import Context
    from exportlint.devices.provenance import Origin, Provenance
    from exportlint.devices.second import Mismatch
    from exportlint.findings import Finding
    from exportlint.places import Place

NAME = "device"
MOST_BAKED = 20
_BACKWARD = "device_ready_queues_"  # torch's autograd engine starts no thread for a device that Python registers
_BRANCHES = (".type", "is_cuda", "is_cpu", "is_mps", "is_xpu", "==", "!=")


@dataclass
class _Report:
    """What the steps found so far; one finding for each rule and place."""

    findings: dict[tuple[str, Any, Any], Finding] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    unchecked: str | None = None

    def add(self, finding: Finding) -> None:
        place = (finding.file, finding.line) if finding.line is not None else (finding.message, None)
        self.findings.setdefault((finding.rule, *place), finding)

    def alarmed(self) -> bool:
        return any(finding.severity != "info" for finding in self.findings.values())

    def result(self) -> CheckResult:
        findings = sorted(self.findings.values(), key=lambda finding: SEVERITIES.index(finding.severity))
        notes = tuple(self.notes)
        if self.alarmed():
            reason = f"{findings[0].place}: {findings[0].message}"
            return CheckResult(name=NAME, outcome="failed", reason=reason, findings=tuple(findings), notes=notes)
        outcome: Any = "passed" if self.unchecked is None else "not_checked"
        return CheckResult(name=NAME, outcome=outcome, reason=self.unchecked, findings=tuple(findings), notes=notes)


def run(ctx: Context, _: Callable[[CheckResult], None] | None = None) -> CheckResult:
    """Run the check. The process must be one of its own: the second device stays registered in it."""
    report = _Report()
    watched = _on_the_cpu(ctx, report)
    if watched is None:
        return report.result()
    twin = None
    if _on_the_second_device(ctx, report, watched[1]):
        twin = _export_there(ctx, report)
    _what_is_baked(ctx, report, watched[0], twin)
    return report.result()


def _on_the_cpu(ctx: Context, report: _Report) -> tuple[Provenance, Any] | None:
    """The watched run and its result; `None`, and a reason in the report, when the model does not run."""
    from exportlint.devices.kept import find_kept
    from exportlint.devices.provenance import Provenance

    try:
        model, inputs = ctx.build(), ctx.example()
        provenance = Provenance("cpu", find_kept(model))
        ctx.stage("eager run on the CPU")
        with provenance:
            result = _tensors(call(model, inputs))
    except Exception as error:
        cause = error.__cause__ or error if isinstance(error, ModelError) else error
        if blame.is_out_of_memory(cause):
            raise MemoryError from error
        report.unchecked = f"the model does not run on the CPU: {blame.words(cause)}"
        return None
    for made in provenance.foreign:
        what = f"`{made.call}` writes down the device {made.device}"
        report.add(blame.finding("EXP201", f"{what}, wherever the model and its inputs are", made.place))
    for kept, place in provenance.writes:
        if kept.attribute:
            report.add(_written_outside_state(kept.where, kept.place or place, place))
    _autocasts(report, provenance)
    return provenance, result


def _tensors(result: Any) -> list[torch.Tensor]:
    """The tensors of a result, caches and other objects included."""
    from exportlint.devices.kept import tensors_in

    return list(tensors_in(result))


def _written_outside_state(where: str, place: Place | None, written: Place | None) -> Finding:
    evidence = None if written is None else f"written in place at {display_path(written.file)}:{written.line}"
    message = f"{where} is a tensor outside the state dict that forward writes to: the program does not keep it"
    return blame.finding("EXP203", message, place, evidence=evidence)


def _autocasts(report: _Report, provenance: Provenance) -> None:
    for device_type, place in provenance.autocasts:
        message = f"autocast is switched on for {device_type}, wherever the inputs are"
        report.add(blame.finding("EXP206", message, place))


def _on_the_second_device(ctx: Context, report: _Report, expected: Any) -> bool:
    """Whether an export there is worth while: the device is there and no fault was found."""
    from exportlint.devices import second
    from exportlint.devices.hooks import NAME as HOME
    from exportlint.devices.kept import find_kept
    from exportlint.devices.provenance import Provenance

    ctx.stage("second device")
    try:
        second.second_device()
    except second.SecondDeviceUnavailableError as error:
        report.unchecked = str(error)
        return False
    model = second.move_module(ctx.build())
    inputs = second.to_second(ctx.example())
    provenance = Provenance(HOME, find_kept(model))
    ctx.stage("eager run on the second device")
    with second.policy("record", provenance.origin) as mismatches:
        try:
            with provenance:
                actual = second.to_cpu(_tensors(call(model, inputs)))
        except Exception as error:
            actual = error
    for mismatch in mismatches:
        report.add(_stayed(mismatch))
    _autocasts(report, provenance)
    if isinstance(actual, Exception):
        _did_not_run(report, actual)
    elif not report.alarmed():
        _compare(ctx, report, provenance, expected, actual)
    return not report.alarmed()


def _stayed(mismatch: Mismatch) -> Finding:
    """The finding for a tensor that stayed on the CPU, at the line that made or keeps it."""
    rule, message, place = _blame_origin(mismatch.origin, mismatch.place)  # type: ignore[arg-type]
    used = mismatch.place
    evidence = f"{mismatch.operator} met a CPU tensor of shape {list(mismatch.shape)} on the second device"
    if used is not None and used != place:
        evidence += f" at {display_path(used.file)}:{used.line}"
    return blame.finding(rule, message, place, severity="warning", evidence=evidence)


def _blame_origin(origin: Origin | None, used: Place | None) -> tuple[str, str, Place | None]:
    """The rule, the message and the place for a tensor of this origin."""
    from exportlint.devices.kept import Kept

    if isinstance(origin, Kept):
        message = f"{origin.where} is a tensor outside the state dict: it stays on the CPU when the model moves"
        return "EXP203", message, origin.place or used
    if origin is None or origin.label == "followed":
        return "EXP202", "a tensor that stayed on the CPU meets one that followed the inputs", used
    if origin.label == "literal":
        return "EXP201", f"`{origin.call}` puts the tensor on {origin.device}, wherever the inputs are", origin.place
    what = f"`{origin.call}`" if "." in origin.call else origin.call
    return "EXP202", f"{what} makes the tensor on the default device, wherever the inputs are", origin.place


def _did_not_run(report: _Report, error: Exception) -> None:
    """The model ran on the CPU and raises on the second device: its own fault only where that is certain."""
    if blame.is_out_of_memory(error):
        raise MemoryError from error
    if isinstance(error, TypeError) and "to numpy" in str(error):
        message = "a tensor that is not on the CPU is handed to numpy"
        report.add(blame.finding("EXP401", message, blame.place_of(error), evidence=blame.words(error)))
        return
    why = "it has no backward pass" if _BACKWARD in str(error) else blame.words(error)
    report.unchecked = f"the second device cannot run the model: {why}"


def _compare(ctx: Context, report: _Report, provenance: Provenance, expected: Any, actual: Any) -> None:
    """The numbers must be the CPU's, unless the CPU's differ from run to run."""
    rtol, atol = (ctx.tolerance.rtol, ctx.tolerance.atol) if ctx.tolerance else (None, None)
    difference = compare(expected, actual, rtol=rtol, atol=atol)
    if difference is None:
        return
    again = _tensors(call(ctx.build(), ctx.example()))
    if compare(expected, again, rtol=rtol, atol=atol) is not None:
        report.notes.append("the result differs from run to run on the CPU, so the devices were not compared")
        return
    branches = [place for place in provenance.reads if any(word in place.source for word in _BRANCHES)]
    if branches:
        message = "the result on the second device is another one: something is decided by the device here"
        report.add(blame.finding("EXP204", message, branches[0], evidence=str(difference)))
    else:
        report.unchecked = f"the result on the second device differs from the CPU's ({difference}), for no known reason"


def _export_there(ctx: Context, report: _Report) -> ExportedProgram | None:
    """Export on the second device; a meeting of devices that only tracing sees is a finding."""
    from exportlint.devices.hooks import NAME as HOME
    from exportlint.devices.kept import find_kept
    from exportlint.devices.provenance import Provenance
    from exportlint.devices.twin import export_on_second

    try:
        ctx.program()
    except Exception:
        report.notes.append("not exported on the second device, since the export on the CPU fails")
        return None
    model, (args, kwargs) = ctx.build(), ctx.example()
    provenance = Provenance(HOME, find_kept(model), births=False)
    ctx.stage("export on the second device")
    try:
        with provenance:
            return export_on_second(model, args, kwargs)
    except Exception as error:
        if blame.is_out_of_memory(error):
            raise MemoryError from error
        if provenance.blamed is None and not _mixed(error):
            if report.unchecked is None:
                report.notes.append(f"the export on the second device fails: {blame.words(error)}")
            return None
        rule, message, place = _blame_origin(provenance.blamed, blame.place_of(error))
        report.add(blame.finding(rule, message, place, severity="warning", evidence=blame.words(error)))
    return None


def _mixed(error: Exception) -> bool:
    return "evice" in type(error).__name__ or "two different devices" in str(error) or "at least two dev" in str(error)


def _what_is_baked(ctx: Context, report: _Report, provenance: Provenance, twin: ExportedProgram | None) -> None:
    """Lines whose device follows the inputs and is a constant in the program that was captured on the CPU."""
    from exportlint.devices.twin import baked_places

    try:
        program = ctx.program()
    except Exception:
        return
    baked = baked_places(program, provenance.calls, twin)
    message = "the device follows the inputs here, and the program exported on the CPU makes it a constant"
    for place in baked[:MOST_BAKED]:
        report.add(blame.finding("EXP205", message, place, severity="info"))
    if len(baked) > MOST_BAKED:
        report.notes.append(f"{len(baked) - MOST_BAKED} more lines have a device that is baked in the program")
