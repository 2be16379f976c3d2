"""The check ``state``: what the program cannot remember, and what it remembers of the moment of its capture.

1. A fresh eager model is called several times. Where a later call returns something else than the first, Python
   state was carried; the program must follow. What was carried is found by putting it back, name by name.
2. What the model reads of its surroundings (clock, random numbers, environment, files, and the `switches`) is noted.
   A read counts where the eager model under a twin of the surroundings returns something else and the program does not.
3. What the capture left behind in the eager model is reported.

A read without effect is information. Buffers that are updated in place are followed by the program: no finding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exportlint import blame, places
from exportlint.checks import uncaptured
from exportlint.checks.context import ModelError
from exportlint.checks.state import value_trace
from exportlint.checks.state.elsewhere import Elsewhere
from exportlint.checks.state.inquiry import Inquiry
from exportlint.checks.state.memory import Memory
from exportlint.checks.state.reads import Reads
from exportlint.checks.state.surroundings import Twin
from exportlint.checks.state.switches import NO_CHANGE, SWITCHES
from exportlint.findings import SEVERITIES, CheckResult

if TYPE_CHECKING:
    from exportlint.checks.context import Context
    from exportlint.checks.state.switches import Switch

NAME = "state"
GOES_ON = "state baked: what is read here goes on from call to call, in fresh models too; the program keeps what it was"


def run(ctx: Context) -> CheckResult:
    """Run the check."""
    try:
        inquiry = Inquiry(ctx, ctx.program())
        _inquire(inquiry)
    except Exception as error:
        unavailable = uncaptured.result(NAME, error)
        if ctx.captured and not isinstance(error, ModelError):
            raise
        return unavailable
    findings = tuple(sorted(inquiry.findings, key=lambda finding: SEVERITIES.index(finding.severity)))
    red = [finding for finding in findings if finding.severity != "info"]
    return CheckResult(
        name=NAME,
        outcome="failed" if red else "not_checked" if inquiry.unjudged else "passed",
        reason=red[0].message if red else inquiry.unjudged,
        findings=findings,
    )


def _inquire(inquiry: Inquiry) -> None:
    """Watch one call, call another model several times, and look at what was read."""
    try:
        inquiry.findings += inquiry.ctx.left_behind
        first = inquiry.watched()
        memory = Memory(inquiry, inquiry.build())
        same = inquiry.compare(first, memory.results[0]) is None
        if same:
            memory.judge()
        Reads(inquiry, first).judge()
        for switch in SWITCHES:
            _judge_switch(inquiry, switch, first)
        if not same and not inquiry.of_kind("entropy") and not any(found.counts for found in inquiry.findings):
            _judge_first_calls(inquiry)
    finally:
        inquiry.found.restore(inquiry.found.changed())


def _judge_switch(inquiry: Inquiry, switch: Switch, base: Any) -> None:
    """A finding for the lines that read it, where another answer changes what the eager model returns."""
    lines, elsewhere = switch.lines(inquiry.lines), Elsewhere(inquiry)
    twin = Twin(clock=bool(inquiry.of_kind("clock")))
    if lines and switch.steady is not NO_CHANGE:
        base = elsewhere.under(twin, change=switch.steady)
    for change in switch.changes if lines else ():
        inquiry.ctx.stage(f"eager call {change.words}")
        difference = elsewhere.confirmed(base, twin, change, switch.steady)
        if difference is not None:
            for place in lines:
                inquiry.add("EXP303", switch.words, place, f"{change.words}: {difference}", switch.rewrite)
            return
    for place in lines if switch.told else ():
        if not places.is_installed(place.file):
            inquiry.findings.append(
                blame.finding("EXP303", switch.quiet.format(what=switch.what), place, outcome="fine")
            )


def _judge_first_calls(inquiry: Inquiry) -> None:
    """The first calls of fresh models differ, and nothing that was read explains it: something goes on."""
    inquiry.unjudged = "the eager model differs from itself with the same seeds: its calls are not compared"
    produced = inquiry.program_calls([inquiry.ctx.example(), inquiry.ctx.example()])
    if inquiry.compare(*produced) is not None:
        return
    models = [inquiry.build(), inquiry.build()]
    if len({value_trace.mark_of_module(model) for model in models}) > 1:
        inquiry.unjudged = (
            "the factory makes another model each time, with the same seeds: their calls are not compared"
        )
        return
    one, two = (value_trace.traced(lambda m=m: inquiry.call(m, inquiry.ctx.example())) for m in models)  # type: ignore[misc]
    place = value_trace.parting(one, two)
    if place is not None:
        inquiry.add("EXP501", GOES_ON, place, "the first calls of two fresh models return different results")
