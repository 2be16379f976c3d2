"""The run as Markdown, for job summaries and pull requests."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from exportlint.report.overview import MOST_CASES, environment_rows, overview
from exportlint.report.score_card import percent
from exportlint.text import clip, counted, duration, listed, map_strings, one_line, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from exportlint.findings import Readiness
    from exportlint.report.comparing import Comparison
    from exportlint.report.overview import Advice, Cell, Entry, Overview

_MARKS = {"good": "✅ ", "bad": "❌ ", "warn": "⚠️ ", "mute": ""}
LONGEST = 65_536  # characters of a comment on GitHub
PARTS = EVIDENCE, NOTES, REASONS, FINDINGS = "evidence", "notes", "reasons", "findings"  # in the order in which they go
BAR = r"\|"  # how a table takes one, in code too
_SPECIAL = re.compile(r"([\\`*_\[\]#|~$])")
_LIST_MARK = re.compile(r"^(\d*)([-+=.)])")


def render(readiness: Readiness) -> str:
    """The run as GitHub-flavoured Markdown, no longer than a comment may be.

    Where it would be, evidence is left out first, then notes, reasons, findings, and the last rows at the end.
    """
    view = overview(readiness)
    for number in range(len(PARTS) + 1):
        text = "\n".join(_lines(view, PARTS[:number])).rstrip("\n") + "\n"
        if len(text) <= LONGEST:
            return text
    end = f"\n{_left_out(('what follows',))}\n"
    return text[: text.rindex("\n", 0, LONGEST - len(end)) + 1] + end


def render_comparison(comparison: Comparison) -> str:
    """What changed between two runs as GitHub-flavoured Markdown, for a comment on a pull request."""
    shown = map_strings(comparison, visible)
    mark = _MARKS["bad" if shown.regressions else "good"]
    lines = ["# Export readiness: what changed", "", f"{mark}{escape(shown.summary)}", ""]
    for title, changes in shown.changes:
        if changes:
            rows = [
                f"| {escape(c.case)} | {escape(c.target)} | {escape(c.check)} | {escape(c.words)} |" for c in changes
            ]
            lines += [f"## {title}", "", "| case | target | check | |", "|---|---|---|---|", *rows, ""]
    for title, cases in shown.cases:
        if cases:
            lines += [f"## {title}", "", *(f"* {escape(case)}" for case in cases), ""]
    if shown.surroundings:
        lines += ["## Surroundings", "", *(f"* {escape(line)}" for line in shown.surroundings), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def escape(text: str) -> str:
    """Text on one line in which no character means anything to Markdown or HTML."""
    text = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = _LIST_MARK.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", text))
    # "@torch.jit.script" in a pull request would call a person of that name.
    return text.replace("@", "@<!-- -->")


def code(text: str) -> str:
    """A code span on one line, whatever backticks the text holds."""
    text = one_line(text)
    if not text:
        return ""
    fence = "`" * (_longest_run(text) + 1)
    pad = " " if text[0] == "`" or text[-1] == "`" else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def block(text: str, language: str = "") -> list[str]:
    """A code block, whatever backticks the text holds."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return [f"{fence}{language}", *text.split("\n"), fence]


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _left_out(parts: Sequence[str]) -> str:
    return f"For want of room left out: {', '.join(parts)}. The forms in JSON and HTML hold them."


def _lines(view: Overview, without: Sequence[str]) -> Iterator[str]:
    yield from ("# Export readiness", "", f"{_MARKS[view.tone]}{escape(view.summary)}", "")
    if without:
        yield from (_left_out(without), "")
    yield from _table(view)
    if REASONS not in without:
        yield from _reasons(view)
    if view.errors:
        yield from ("## Targets that could not be loaded", "")
        yield from (f"* {code(error.target)}: {escape(error.message)}" for error in view.errors)
        yield ""
    yield from _causes(view)
    if view.problems and FINDINGS not in without:
        yield from ("## Findings", "")
        for entry in view.problems:
            yield from _entry(entry, evidence=EVIDENCE not in without)
    if view.advice and NOTES not in without:
        yield from ("## Notes", "")
        for advice in view.advice:
            yield from _advice(advice)
    yield from _scores(view)
    yield from ("## Environment", "", "| | |", "|---|---|")
    yield from (f"| {escape(label)} | {escape(value)} |" for label, value in environment_rows(view))


def _table(view: Overview) -> Iterator[str]:
    if not view.rows:
        return
    named = any(row.target != row.name for row in view.rows)  # else targets tell nothing
    titles = ["case", *["target"] * named, *view.checks, "time"]
    yield f"| {' | '.join(map(escape, titles))} |"
    yield "|" + "---|" * (len(titles) - 1) + "---:|"
    for row in view.rows:
        names = [escape(row.name), *[escape(row.target)] * named]
        cells = [*names, *(_cell(cell) for cell in row.cells), duration(row.seconds) if row.seconds > 0 else ""]
        yield f"| {' | '.join(cells)} |"
    yield ""


def _cell(cell: Cell) -> str:
    if not cell.word:
        return ""
    count = f" ({escape(cell.count)})" if cell.count else ""
    return f"{_MARKS[cell.tone]}{escape(cell.word)}{count}"


def _reasons(view: Overview) -> Iterator[str]:
    """Why each check that did not plainly pass came out as it did, and what notes say of it without being asked."""
    lines: list[str] = []
    for row in view.rows:
        for cell in row.cells:
            if cell.reason or cell.told:
                head = f"* **{escape(row.name)}**, {escape(cell.check)}: {escape(cell.word)}"
                lines.append(f"{head}: {escape(cell.reason)}" if cell.reason else head)
            lines += [f"  * {escape(note)}" for note in cell.told]
    if lines:
        yield from ("## Reasons", "", *lines, "")


def _causes(view: Overview) -> Iterator[str]:
    if not view.causes:
        return
    yield from ("## Root causes", "", "| line | rule | cases | |", "|---|---|---|---|")
    for cause in view.causes:
        titles, names = escape(", ".join(cause.titles)), escape(listed(cause.cases, MOST_CASES))
        yield f"| {code(cause.place).replace('|', BAR)} | {titles} | {len(cause.cases)} | {names} |"
    yield ""


def _scores(view: Overview) -> Iterator[str]:
    if not view.scores:
        return
    yield from ("## The linter beside the checks", "", "Lines, each counted once.", "")
    yield from ("| rule | confirmed | refuted | missed | not exercised | precision | recall |", "|---|" + "---:|" * 6)
    for s in view.scores:
        counts = f"{s.confirmed} | {s.refuted} | {s.missed} | {s.not_exercised}"
        yield f"| {escape(s.rule)} | {counts} | {percent(s.precision)} | {percent(s.recall)} |"
    yield ""


def _entry(entry: Entry, *, evidence: bool) -> Iterator[str]:
    finding = entry.finding
    yield f"### {escape(finding.severity)}: {escape(entry.title)} at {code(finding.place)}"
    yield ""
    if finding.source:
        yield from (*block(one_line(finding.source, 500), "python"), "")
    yield from (escape(finding.message), "")
    if entry.rewrite:
        yield from (f"**Rewrite:** {escape(entry.rewrite)}", "")
    yield f"Seen by {escape(entry.seen)}." + (f" Expected: {escape(entry.expected)}." if entry.expected else "")
    yield ""
    for seen in entry.evidence if evidence else ():
        yield from ("<details><summary>Evidence</summary>", "", *block(clip(seen, 5000)), "", "</details>", "")


def _advice(advice: Advice) -> Iterator[str]:
    places = counted(len(advice.entries), "place")
    words = f"{advice.summary.rstrip('.')}. {advice.rewrite}".rstrip()
    yield f"**{escape(advice.title)}**, {places}: {escape(words)}"
    yield from ("", f"<details><summary>{places}</summary>", "")
    yield from (f"* {code(place)}" for place in advice.places)
    yield from ("", "</details>", "")
