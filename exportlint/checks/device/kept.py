"""Part of the check ``device``: tensors that a call on the CPU leaves behind, which stay there when the model moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint import blame
from exportlint.checks.context import call
from exportlint.checks.device.report import blame_origin
from exportlint.places import display_path

if TYPE_CHECKING:
    from exportlint.checks.context import Context
    from exportlint.checks.device.check import Watched
    from exportlint.checks.device.report import Report
    from exportlint.devices.kept import Kept
    from exportlint.devices.provenance import Origin
    from exportlint.findings import Finding
    from exportlint.places import Place


def look_for_caches(ctx: Context, report: Report, watched: Watched) -> list[Finding]:
    """Move a model that was called on the CPU, and call it on the second device, if the first call left anything.

    Returns:
        The findings. They are not in the report yet: a model that was not called before may well be moved.
    """
    from exportlint.devices import second
    from exportlint.devices.hooks import NAME as HOME
    from exportlint.devices.kept import find_kept
    from exportlint.devices.provenance import Provenance

    after = find_kept(watched.model)
    new = after.since(watched.kept)
    returned = {id(tensor) for tensor in watched.result}
    if not new and all(id(tensor) in returned for tensor in watched.provenance.alive()):
        return []
    ctx.stage("eager run on the second device, after one on the CPU")
    second.move_module(watched.model)
    provenance = Provenance(HOME, after, earlier=watched.provenance)
    met: list[tuple[Origin | None, Place | None, str]] = []
    with second.policy("record", provenance.origin) as mismatches:
        try:
            with provenance:
                call(watched.model, second.to_second(ctx.example()))
        except Exception as error:
            blame.pass_on_memory_error(error)
            if not _of_earlier(provenance.blamed, new):
                report.notes.append(f"the model does not run there after a call on the CPU: {blame.words(error)}")
            met.append((provenance.blamed, blame.place_of(error), blame.words(error)))
    for mismatch in mismatches:
        words = f"{mismatch.operator} met a CPU tensor of shape {list(mismatch.shape)}"
        met.append((mismatch.origin, mismatch.place, words))  # type: ignore[arg-type]
    return [_finding(origin, used, words) for origin, used, words in met if _of_earlier(origin, new)]


def _of_earlier(origin: Origin | None, new: set[Kept]) -> bool:
    """Whether a tensor is one that the call on the CPU left behind; the others are found without that call."""
    from exportlint.devices.provenance import Made

    return origin.earlier if isinstance(origin, Made) else origin in new


def _finding(origin: Origin | None, used: Place | None, met: str) -> Finding:
    from exportlint.devices.kept import Kept

    rule, message, place = blame_origin(origin, used)
    if isinstance(origin, Kept):
        message = f"{origin.where} keeps a tensor of an earlier call: it stays on the CPU when the model moves"
    evidence = f"called on the CPU, then on the second device: {met}"
    if used is not None and used != place:
        evidence += f" at {display_path(used.file)}:{used.line}"
    return blame.finding(rule, message, place, outcome="unportable", evidence=evidence)
