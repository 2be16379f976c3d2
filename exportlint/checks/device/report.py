"""What the steps of the check ``device`` have found so far, and how a tensor's origin and what is raised are blamed."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from exportlint import blame
from exportlint.checks.isolation import apart
from exportlint.findings import SEVERITIES, CheckResult, Finding
from exportlint.places import display_path
from exportlint.text import said

if TYPE_CHECKING:
    from collections.abc import Callable

    from exportlint.devices.provenance import Origin
    from exportlint.devices.second import Mismatch
    from exportlint.places import Place

NAME = "device"
PASSED = ": passed; not checked: "  # between the devices on which nothing was found and what else was asked for
# What torch says of arguments that it takes from the CPU alone.
ON_THE_CPU = re.compile(
    r"^(?!.*same device).*\b(should|expected|must)\b.*\bon (the )?cpu\b|1D CPU int64 tensor", re.IGNORECASE
)

# Of parameters that stand in a plain list or dictionary.
LISTED = "Let the module know them: make it an nn.ModuleList, nn.ModuleDict or nn.ParameterList."

# What is wrong with a generator, and what was given, by the kind of the mismatch.
_GENERATORS = {
    "generator": (
        "a generator of the CPU is to draw numbers for a tensor that follows the inputs",
        "a generator of the CPU on the second device",
    ),
    "generator there": (
        "a generator that follows the inputs to a device is to draw numbers for a tensor of the CPU",
        "a generator of the second device on the CPU",
    ),
}


@dataclass
class Report:
    """What the steps found so far; one finding for each rule and place.

    Attributes:
        findings: The findings by rule and place.
        notes: Further lines for a reader.
        unchecked: Why the check could not be done to its end, if so.
        passed: Devices on which all was done and nothing was found.
        saved: Programs for another process to load, as `exportlint.checks.device.saved` records them.
    """

    findings: dict[tuple[str, Any, Any], Finding] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    unchecked: str | None = None
    passed: list[str] = field(default_factory=list)
    saved: list[dict[str, Any]] = field(default_factory=list)

    def add(self, finding: Finding) -> None:
        """Add a finding; at a rule's place the worse stays, and the first of equals."""
        place = (finding.file, finding.line) if finding.line is not None else (finding.message, None)
        key = (finding.rule, *place)
        known = self.findings.get(key)
        if known is None or SEVERITIES.index(finding.severity) < SEVERITIES.index(known.severity):
            self.findings[key] = finding

    def leave_out(self, why: str) -> None:
        """Say what was not checked; the first reason is that of the whole check."""
        if self.unchecked is None:
            self.unchecked = why
        else:
            self.notes.append(why)

    def merge(self, other: Report) -> None:
        """Add what another report says, after what this one says."""
        for finding in other.findings.values():
            self.add(finding)
        self.notes += [note for note in other.notes if note not in self.notes]
        self.saved += other.saved
        if other.unchecked is not None:
            self.leave_out(other.unchecked)

    def run_apart(self, part: Callable[[Report], object], what: str) -> None:
        """Add what a part of the check reports, whatever else it leaves behind in Python.

        Args:
            part: The part; it may save no program.
            what: What is not checked if its process dies.
        """

        def told() -> dict[str, Any]:
            part(found := Report())
            findings = [msgspec.to_builtins(finding) for finding in found.findings.values()]
            return {"findings": findings, "notes": found.notes, "unchecked": found.unchecked}

        try:
            said = apart.run(told)
        except apart.DiedError as error:
            self.leave_out(f"{what}: the process {error}")
            return
        other = Report(notes=said["notes"], unchecked=said["unchecked"])
        for finding in said["findings"]:
            other.add(msgspec.convert(finding, Finding))
        self.merge(other)

    def excuse(self, found: list[Finding], words: str, why: str) -> None:
        """Make these findings information, with these words added; why nothing more can be said is `why`."""
        for key, finding in self.findings.items():
            if finding in found:
                self.findings[key] = dataclasses.replace(
                    finding,
                    severity="info",
                    message=f"{finding.message.removesuffix(', wherever the inputs are')}; {words}",
                    outcomes={"export": "fine"},
                )
        self.leave_out(why)

    def alarmed(self) -> bool:
        """Whether a finding changes the outcome."""
        return any(finding.severity != "info" for finding in self.findings.values())

    def stuck(self) -> bool:
        """Whether a tensor stays where it is, so that nothing more can be said of other devices."""
        return any(f.severity != "info" and f.rule != "EXP204" for f in self.findings.values())

    def has(self, rule: str) -> bool:
        """Whether there is a finding of this rule."""
        return any(finding.rule == rule for finding in self.findings.values())

    def result(self) -> CheckResult:
        """The result of the check."""
        findings = sorted(self.findings.values(), key=lambda finding: SEVERITIES.index(finding.severity))
        notes = tuple(self.notes)
        if self.alarmed():
            notes += (self.unchecked,) if self.unchecked is not None else ()
            worst = f"{findings[0].place}: {findings[0].message}"
            return CheckResult(name=NAME, outcome="failed", reason=worst, findings=tuple(findings), notes=notes)
        outcome: Any = "passed" if self.unchecked is None else "not_checked"
        reason = self.unchecked
        if reason is not None and self.passed:
            reason = f"{', '.join(self.passed)}{PASSED}{reason}"
        return CheckResult(name=NAME, outcome=outcome, reason=reason, findings=tuple(findings), notes=notes)


def blame_origin(origin: Origin | None, used: Place | None) -> tuple[str, str, Place | None]:
    """The rule, the message and the place for a tensor of this origin that stayed on the CPU."""
    from exportlint.devices.kept import Kept

    if isinstance(origin, Kept):
        message = f"{origin.words}: it stays on the CPU when the model moves"
        return "EXP203", message, origin.place or used
    if origin is not None and origin.label == "followed" and origin.earlier:
        message = (
            f"a tensor that `{origin.call}` made in an earlier call is kept: it stays on the CPU when the model moves"
        )
        return "EXP203", message, origin.place or used
    if origin is None or origin.label == "followed":
        return "EXP202", "a tensor that stayed on the CPU meets one that followed the inputs", used
    if origin.label == "literal":
        message = f"hardcoded: `{origin.call}` puts the tensor on {origin.device}, wherever the inputs are"
        return "EXP201", message, origin.place
    what = f"`{origin.call}`" if "." in origin.call else origin.call
    message = f"missing device: {what} makes the tensor on the default device, wherever the inputs are"
    return "EXP202", message, origin.place


def stayed(mismatch: Mismatch) -> Finding:
    """The finding for a tensor that stayed on the CPU, at the line that made or keeps it; or for what else is wrong."""
    host = mismatch.kind.partition("host argument ")[2]
    if host:
        return _has_to_be_on_the_cpu(mismatch.place, f"`{host}` of {mismatch.operator} was on the second device")
    if mismatch.kind in _GENERATORS:
        message, given = _GENERATORS[mismatch.kind]
        evidence = f"{mismatch.operator} was given {given}"
        return blame.finding("EXP202", message, mismatch.place, outcome="unportable", evidence=evidence)
    rule, message, place = blame_origin(mismatch.origin, mismatch.place)  # type: ignore[arg-type]
    used = mismatch.place
    evidence = f"{mismatch.operator} met a CPU tensor of shape {list(mismatch.shape)} on the second device"
    if used is not None and used != place:
        evidence += f" at {display_path(used.file)}:{used.line}"
    rewrite = LISTED if getattr(mismatch.origin, "parameters", False) else None
    return blame.finding(rule, message, place, outcome="unportable", rewrite=rewrite, evidence=evidence)


def _has_to_be_on_the_cpu(place: Place | None, evidence: str) -> Finding:
    message = "a tensor that follows the inputs to a device is handed to what takes tensors of the CPU alone"
    rewrite = "Hand it over with `.cpu()`."
    return blame.finding("EXP002", message, place, outcome="unportable", rewrite=rewrite, evidence=evidence)


def refusal(error: Exception, origin: Origin | None) -> Finding | None:
    """The finding for what the model raised on the second device; `None` where it is not certain to be its own fault.

    Args:
        error: What it raised.
        origin: Where the tensor of the CPU came from, if two devices met.
    """
    if isinstance(error, TypeError) and "to numpy" in said(error):
        message = "a tensor that is not on the CPU is handed to numpy"
        return blame.finding(
            "EXP401", message, blame.place_of(error), outcome="unportable", evidence=blame.words(error)
        )
    if ON_THE_CPU.search(said(error)) and blame.place_of(error) is not None:
        return _has_to_be_on_the_cpu(blame.place_of(error), blame.words(error))
    if origin is None:
        return None
    # torch itself looked at the devices before it called an operator
    rule, message, place = blame_origin(origin, blame.place_of(error))
    return blame.finding(rule, message, place, outcome="unportable", evidence=blame.words(error))
