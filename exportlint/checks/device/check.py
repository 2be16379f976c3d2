"""The check ``device``: does the model follow its inputs to another device, and what of that does the program bake?

1. The model runs on the CPU, watched: what writes down a device that is not there, or makes a tensor without one?
2. It runs on the CPU while its tensors say that they are on cuda or mps: does the device decide what is computed?
3. It runs on the second device, where tensors that stayed on the CPU meet those that moved. Such a meeting is repaired,
   so that one run lists all of them, and is blamed on the line that made the tensor. The numbers must be the CPU's.
4. It is exported on the second device: some code runs under capture only, and the programs must have one structure.
5. That program runs there, and so does the CPU's, moved by `move_to_device_pass`, with the eager model's numbers. Both
   are saved for a process that lacks the model's source, which loads and runs them there.
6. A model that was called on the CPU is moved and called there: what the call kept must have moved, or is made anew.
7. Devices that follow the inputs in the source and are constants in the program are named, as information.

A tensor that stayed on the CPU and may, since it is 0-dim or an index, is portable and no finding; a literal that does
not bite is told as information. Without a second device the model runs on ``meta`` instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exportlint import blame
from exportlint.checks import importing, uncaptured
from exportlint.checks.context import ModelError, call
from exportlint.checks.device import saved as device_saved
from exportlint.checks.device.advice import advise_harmless, advise_returned, advise_untried
from exportlint.checks.device.branches import look_for_branches
from exportlint.checks.device.elsewhere import follows_to_cuda, run_elsewhere, run_without_numbers
from exportlint.checks.device.kept import look_for_caches
from exportlint.checks.device.patches import propose
from exportlint.checks.device.places import elsewhere
from exportlint.checks.device.programs import run_programs
from exportlint.checks.device.report import Report, refusal, stayed
from exportlint.checks.device.rerun import rerun
from exportlint.checks.device.twin import difference, export_there, materialised, tensors
from exportlint.places import display_path

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch.export import ExportedProgram

    from exportlint.checks.context import Context
    from exportlint.checks.device.places import Elsewhere
    from exportlint.devices.kept import KeptTensors
    from exportlint.devices.provenance import Origin, Provenance
    from exportlint.findings import CheckResult, Finding
    from exportlint.places import Place

MOST_BAKED = 20
# A line that may ask on which type of device a tensor is.
ASKS_FOR_TYPE = re.compile(r"is_cuda|is_cpu|get_device|\btype\b|cuda")


def run(ctx: Context) -> CheckResult:
    """Run the check. The process must be one of its own: the second device stays registered in it."""
    report = Report()
    watched = _on_the_cpu(ctx, report)
    if watched is None:
        return report.result()
    if (watched.provenance.reads or importing.asked) and not report.stuck():
        look_for_branches(ctx, report)
    others = [elsewhere(name) for name in ctx.settings.devices if name != "second"]
    ran = _on_others(ctx, watched, others)
    there, twin = None, None
    caches: list[Finding] = []
    if "second" in ctx.settings.devices:
        there = _on_the_second_device(ctx, report, watched)
    if there is not None:
        caches = look_for_caches(ctx, report, watched)  # before an export, which may empty them
        if watched.provenance.reads:
            _fill_caches(ctx)
        twin = export_there(ctx, report)
    if there is not None and report.unchecked is None:
        report.passed.append("second")
    _what_is_baked(ctx, report, watched.provenance, twin)
    ran.programs(ctx, report)
    if there and not report.stuck():
        rerun(ctx, report, there, twin)  # last, since it moves the program
        advise_harmless(report, watched.provenance)
    for finding in caches:
        report.add(finding)
    if "second" in ctx.settings.devices:
        propose(ctx, report)
    device_saved.record(ctx, report)
    return report.result()


@dataclass(frozen=True, slots=True)
class Watched:
    """A run on the CPU.

    Attributes:
        model: The model, after the run.
        kept: What it kept outside its state dict before.
        provenance: What watched the run.
        result: The tensors of the result.
    """

    model: torch.nn.Module
    kept: KeptTensors
    provenance: Provenance
    result: list[torch.Tensor]


def _on_the_cpu(ctx: Context, report: Report) -> Watched | None:
    """The watched run; `None`, and a reason in the report, when the model does not run."""
    ctx.stage("eager run on the CPU")
    marked = _watched(ctx, marked=True)
    if isinstance(marked, Exception) or marked.provenance.reads:
        plain = _watched(ctx, marked=False)
        if isinstance(plain, Exception):
            report.unchecked = f"the model does not run on the CPU: {blame.words(plain)}"
            return None
        if isinstance(marked, Exception) or difference(ctx, plain.result, marked.result) is not None:
            marked = plain  # it asks for the name of its device, or differs from run to run
    provenance = marked.provenance
    for made in provenance.foreign:
        what = f"hardcoded: `{made.call}` writes down the device {made.device}"
        report.add(
            blame.finding("EXP201", f"{what}, wherever the model and its inputs are", made.place, outcome="unportable")
        )
    for kept, place in provenance.writes:
        if kept.attribute:
            report.add(_written_outside_state(kept.words, kept.place or place, place))
    _autocasts(report, provenance)
    return marked


def _watched(ctx: Context, *, marked: bool) -> Watched | Exception:
    """A watched run of a fresh model on the CPU, or what it raised.

    Raises:
        MemoryError: When there is no memory for it.
    """
    from exportlint.devices import hooks, questions
    from exportlint.devices.kept import find_kept
    from exportlint.devices.provenance import Provenance

    asked: dict[Place, None] = {}

    def note(_: object, place: Place, ask: Callable[[], Any]) -> Any:
        asked[place] = None
        return ask()

    try:
        with hooks.hidden(), questions.watched(note):
            model = ctx.build()
        before, inputs = find_kept(model), ctx.example()
        provenance = Provenance("cpu", before, marked=marked)
        provenance.reads |= asked
        with hooks.hidden(), provenance:
            result = tensors(call(model, inputs))
    except Exception as error:
        cause = error.__cause__ or error if isinstance(error, ModelError) else error
        if blame.is_out_of_memory(cause):
            raise MemoryError from error
        return cause if isinstance(cause, Exception) else error
    return Watched(model, before, provenance, result)


@dataclass(frozen=True, slots=True)
class OtherRuns:
    """Eager runs on devices other than the second one.

    Attributes:
        report: What they found.
        results: What the model returned, as tensors of the CPU, where its programs are worth running.
        eager: What it returns on the CPU, as it was then.
    """

    report: Report
    results: list[tuple[Elsewhere, list[torch.Tensor]]]
    eager: list[torch.Tensor]

    def programs(self, ctx: Context, report: Report) -> None:
        """Report what was found, and run the programs of the devices on which nothing was."""
        report.merge(self.report)
        for where, expected in self.results:
            if not report.stuck():
                run_programs(ctx, report, where, expected, self.eager)


def _on_others(ctx: Context, watched: Watched, devices: list[Elsewhere]) -> OtherRuns:
    """Run the eager model there, first where there are no numbers, which is done apart.

    All that comes before the second device is registered, since torch's autograd engine then serves that alone, and
    before an export, which may leave fake tensors in caches.
    """
    runs = OtherRuns(Report(), [], [tensor.detach().clone() for tensor in watched.result] if devices else [])
    for where in sorted(devices, key=lambda where: where.numbers):
        if not where.numbers:
            run_without_numbers(ctx, runs.report, where)
            continue
        expected = run_elsewhere(ctx, runs.report, where)
        if expected is not None:
            runs.results.append((where, expected))
    return runs


def _written_outside_state(words: str, place: Place | None, written: Place | None) -> Finding:
    evidence = None if written is None else f"written in place at {display_path(written.file)}:{written.line}"
    message = f"{words} that forward writes to: the program does not keep it"
    return blame.finding("EXP203", message, place, outcome="unportable", evidence=evidence)


def _autocasts(report: Report, provenance: Provenance) -> None:
    for device_type, place in provenance.autocasts:
        message = f"autocast is switched on for {device_type}, wherever the inputs are"
        report.add(blame.finding("EXP206", message, place, outcome="unportable"))


def _on_the_second_device(ctx: Context, report: Report, watched: Watched) -> list[torch.Tensor] | None:
    """The result there, empty where it is of no use; `None` where an export there is not worth while either."""
    from exportlint.devices import second
    from exportlint.devices.hooks import NAME as HOME
    from exportlint.devices.kept import find_kept
    from exportlint.devices.provenance import Provenance

    ctx.stage("second device")
    try:
        second.second_device()
    except second.SecondDeviceUnavailableError as error:
        _without_second(ctx, report, watched, str(error))
        return None
    try:
        model, inputs = second.move_module(materialised(ctx)), second.to_second(ctx.example())
    except Exception as error:
        blame.pass_on_memory_error(error)
        report.unchecked = f"the model and its inputs cannot be moved to the second device: {blame.words(error)}"
        return None
    provenance = Provenance(HOME, find_kept(model), earlier=watched.provenance)
    ctx.stage("eager run on the second device")
    actual: list[torch.Tensor] | Exception
    with second.policy("record", provenance.origin) as mismatches:
        try:
            with provenance:
                result = tensors(call(model, inputs))
            advise_returned(report, provenance, result)
            actual = second.to_cpu(result)
        except Exception as error:
            actual = error
    stray = [stayed(mismatch) for mismatch in mismatches]
    for finding in stray:
        report.add(finding)
    if stray and any(ASKS_FOR_TYPE.search(place.source) for place in provenance.reads) and follows_to_cuda(ctx):
        why = "it cannot stand for a device to a model that knows cuda and the CPU alone"
        report.excuse(stray, "it follows the inputs to cuda, and to no other device", f"second device: {why}")
        return None
    for refused, origin in provenance.refused:
        found = refusal(refused, origin)
        if found is not None:
            report.add(found)
    _lost_indices(report, provenance)
    _autocasts(report, provenance)
    if isinstance(actual, Exception):
        _did_not_run(report, actual, provenance.blamed)
        return None if report.stuck() else []
    if report.stuck():
        return None
    return actual if _as_on_the_cpu(ctx, report, watched.result, actual) else []


def _without_second(ctx: Context, report: Report, watched: Watched, why: str) -> None:
    """Run on ``meta``, which every torch has and which refuses to mix devices; it stops at the first mixture."""
    name = "meta"
    if name in ctx.settings.devices:  # it ran already
        report.leave_out(why)
    else:
        report.leave_out(f"{why}; instead of the second device {name} was tried, which holds no numbers")
        run_without_numbers(ctx, report, elsewhere(name))
    advise_untried(report, watched.provenance)


def _fill_caches(ctx: Context) -> None:
    """Call the model on the CPU as it was called on the second device, so that both exports find alike what it keeps.

    The watched run does not do: it tells the model of a device with an index, which is another key.
    """
    from exportlint.devices import hooks

    ctx.stage("eager run on the CPU")
    try:
        with hooks.hidden():
            call(ctx.build(), ctx.example())
    except Exception as error:  # at a later call; other checks name that
        blame.pass_on_memory_error(error)


def _lost_indices(report: Report, provenance: Provenance) -> None:
    """Devices whose type follows the inputs and whose index does not: of several devices they name the current one."""
    message = "index lost: the type of the device follows the inputs here, and its index does not"
    rewrite = "Pass the device itself: device=x.device."
    lost = [made for made in provenance.calls if made.label == "followed" and ":" not in (made.device or "")]
    for made in lost[:MOST_BAKED]:
        evidence = f"`{made.call}` was given a device without an index"
        report.add(blame.finding("EXP205", message, made.place, outcome=None, rewrite=rewrite, evidence=evidence))


def _did_not_run(report: Report, error: Exception, origin: Origin | None) -> None:
    """The model ran on the CPU and raises on the second device: its own fault only where that is certain."""
    from exportlint.devices.hooks import BackwardError

    blame.pass_on_memory_error(error)
    found = refusal(error, origin)
    if found is not None:
        report.add(found)
        return
    why = "it has no backward pass" if isinstance(error, BackwardError) else blame.words(error)
    report.unchecked = f"the second device cannot run the model: {why}"


def _as_on_the_cpu(ctx: Context, report: Report, expected: Any, actual: Any) -> bool:
    """The numbers must be the CPU's, unless the CPU's differ from run to run, or the device decides about them."""
    from exportlint.devices import hooks

    differs = difference(ctx, expected, actual)
    if differs is None:
        return True
    if report.has("EXP204"):
        return False
    with hooks.hidden():
        again = tensors(call(ctx.build(), ctx.example()))
    if difference(ctx, expected, again) is not None:
        report.notes.append("the result differs from run to run on the CPU, so the devices were not compared")
        return False
    report.unchecked = f"the result on the second device differs from the CPU's ({differs}), for no known reason"
    return False


def _what_is_baked(ctx: Context, report: Report, provenance: Provenance, twin: ExportedProgram | None) -> None:
    """Lines whose device follows the inputs and is a constant in the program that was captured on the CPU."""
    from exportlint.devices import hooks
    from exportlint.devices.twin import baked_places

    with hooks.hidden():
        program = uncaptured.program(ctx)
    if program is None:
        return
    baked = baked_places(program, provenance.calls, twin)
    message = "followed but baked: the device follows the inputs here, and the program exported on the CPU keeps it"
    for place in baked[:MOST_BAKED]:
        report.add(blame.finding("EXP205", message, place, outcome="fine"))
    if len(baked) > MOST_BAKED:
        report.notes.append(f"{len(baked) - MOST_BAKED} more lines have a device that is baked in the program")
