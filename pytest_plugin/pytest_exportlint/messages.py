"""What a person reads about a model case: the text of a failure, and the section of a test that says the rest."""

from __future__ import annotations

import dataclasses
import linecache
from pathlib import Path
from typing import TYPE_CHECKING

from exportlint.findings import Environment, Readiness
from exportlint.report.overview import WORDS, overview
from exportlint.rules import catalogue
from exportlint.text import clip, counted, map_strings, one_line, visible
from pytest_exportlint import unrun

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from exportlint.findings import CaseResult, CheckResult, Finding
    from exportlint.report.overview import Entry, Overview

MOST_LINES = 6  # of a statement that is shown
EVIDENCE_LINES = 6
PLACES = 3


def failure(result: CaseResult, *, stack: bool = False, made: str | None = None) -> str:
    """The text of a failure: a headline, then a block for each finding and for each red check without one.

    Args:
        result: The case.
        stack: Whether to show where the check failed, in torch's own words.
        made: How the inputs were made, where nobody wrote them down.
    """
    red = [check for check in result.checks if check.red]
    entries = _entries(result)
    explained = {name for entry in entries for names in entry.seen_by.values() for name in names}
    blocks = [_headline(result, red, entries), *("\n".join(_finding(entry)) for entry in entries)]
    for check in map(_printable, red):
        lines = list(_check(check, explained=check.name in explained))
        blocks += ["\n".join(lines)] * bool(lines)
        if stack and check.stack:
            blocks.append(f"{check.name}, in torch's own words:\n{check.stack}")
    told = {note for check in red for note in check.notes}
    if made is not None and made not in told:
        blocks.append(one_line(visible(made)))
    return "\n\n".join(blocks)


def how_made(checks: Iterable[CheckResult]) -> str | None:
    """What the checks say of inputs that nobody wrote down."""
    return next((check.inferred for check in checks if check.inferred is not None), None)


def remarks(result: CaseResult, notes: Iterable[str]) -> str:
    """What is worth saying whether or not the case failed: checks that did not run, expected failures, advice.

    Args:
        result: The case.
        notes: Remarks of the runner on how it ran, such as that no limit held.

    Returns:
        One line a remark; empty where there is none.
    """
    name = one_line(visible(result.name), 200)
    lines = [f"{name}: {text}" for check in map(_printable, result.checks) for text in _remark(check)]
    for advice in _view(_of_this_case(result)).advice:
        places = ", ".join(advice.places[:PLACES])
        more = len(advice.places) - PLACES
        rest = f" and {counted(more, 'more file')}" if more > 0 else ""
        lines.append(f"{name}: info {advice.title}: {advice.summary} ({places}{rest})")
    return "\n".join([*lines, *(one_line(visible(note)) for note in notes)])


def _of_this_case(result: CaseResult) -> CaseResult:
    """The case without predictions about other parts of its file, which its test does not run."""
    checks = (
        dataclasses.replace(check, findings=tuple(filter(_is_of_this_case, check.findings))) for check in result.checks
    )
    return dataclasses.replace(result, checks=tuple(checks))


def _is_of_this_case(finding: Finding) -> bool:
    return finding.counts or finding.verdict != "not_exercised" or unrun.is_only_shown(finding)


def _headline(result: CaseResult, red: list[CheckResult], entries: list[Entry]) -> str:
    """``Decoder: capture failed, device failed: EXP201 at models.py:12``; pytest's summary shows this line."""
    checks = ", ".join(
        f"{check.name} {WORDS[check.outcome] if check.outcome != 'passed' else 'warns'}" for check in red
    )
    places = dict.fromkeys(f"{entry.finding.rule} at {entry.finding.place}" for entry in entries)
    return one_line(visible(f"{result.name}: {checks}" + (f": {', '.join(places)}" if places else "")), 500)


def _view(result: CaseResult) -> Overview:
    environment = Environment(exportlint="", python="", torch=None, platform="", date="", isolation="")
    return overview(Readiness(environment=environment, cases=(result,)))


def _entries(result: CaseResult) -> list[Entry]:
    """The findings that make the test fail, each once, the worst first."""
    return [entry for entry in _view(result).problems if entry.expected is None]


def _finding(entry: Entry) -> Iterator[str]:
    finding = entry.finding
    seen_by = ", ".join(name for names in entry.seen_by.values() for name in names)
    place = "no line known" if finding.file is None else one_line(finding.place, 400)
    yield f"{place}: {entry.title} ({finding.severity}, seen by {one_line(seen_by, 200)})"
    yield from _excerpt(finding)
    yield f"  {one_line(finding.message)}"
    rule = catalogue().get(finding.rule)
    if rule is not None:
        yield f"  why: {one_line(rule.summary)}"
    if entry.rewrite:
        yield f"  rewrite: {entry.rewrite}"
    for evidence in entry.evidence:
        lines = [clip(line, 300) for line in evidence.splitlines() if line.strip()]
        yield f"  evidence: {lines[0]}" if lines else "  evidence: none"
        yield from (f"    {line}" for line in lines[1:EVIDENCE_LINES])


def _excerpt(finding: Finding) -> Iterator[str]:
    """The lines of the statement, marked as pytest marks the line of an error."""
    if finding.source is None:
        return
    lines = []
    if finding.file is not None and finding.line is not None:
        last = min(finding.end_line or finding.line, finding.line + MOST_LINES - 1)
        file = str(Path(finding.file).absolute())
        lines = [visible(linecache.getline(file, number).rstrip()) for number in range(finding.line, last + 1)]
    if not lines or lines[0].strip() != finding.source.strip():  # the file changed, or cannot be read from here
        lines = [finding.source]
    yield from (f">   {clip(line, 200)}" for line in lines)


def _check(check: CheckResult, *, explained: bool) -> Iterator[str]:
    """What a red check says beyond its findings."""
    if not explained:
        reason = f": {one_line(check.reason)}" if check.reason else ""
        yield f"{check.name} {WORDS[check.outcome]}{reason}"
    elif check.notes:
        yield f"{check.name}:"
    yield from (f"  {one_line(note)}" for note in check.notes)


def _remark(check: CheckResult) -> Iterator[str]:
    reason = f": {one_line(check.reason)}" if check.reason else ""
    if check.outcome == "not_checked":
        yield f"{check.name} not checked{reason}"
    elif check.expected is not None:
        yield f"{check.name} {WORDS[check.outcome]}, as expected ({one_line(check.expected)}){reason}"


def _printable(check: CheckResult) -> CheckResult:
    return map_strings(check, visible)
