"""The run on a terminal: the table, then the findings in a form that a person can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from exportlint.report.overview import environment_rows, overview
from exportlint.report.score_card import percent
from exportlint.text import clip, counted, map_strings, one_line, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from exportlint.findings import Readiness
    from exportlint.report.comparing import Comparison
    from exportlint.report.overview import Advice, Cell, Entry, Overview, Row, Tone

TONES = {"good": "green", "bad": "bold red", "warn": "yellow", "mute": "dim"}
SEVERITY_STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}
EVIDENCE_LINES = 3
CAUSES = 10
PLACES = 4
# Characters that a case and a check need in the table.
CASE, COLUMN, SHORT_COLUMN = 24, 13, 8
SHORT = {
    "passed": "ok",
    "failed": "FAILED",
    "errored": "ERROR",
    "crashed": "CRASHED",
    "timed out": "TIME",
    "not checked": "-",
}


def render(readiness: Readiness, console: Console, *, verbose: bool = False) -> None:
    """Print a run.

    Args:
        readiness: The run.
        console: Where to print; it decides about colours and width.
        verbose: Also print all evidence, all places of notes, all notes of passed checks, times and the environment.
    """
    view = overview(readiness)
    _cases(view, console, verbose=verbose)
    _reasons(view, console, verbose=verbose)
    for error in view.errors:
        head = Text.assemble(("could not be loaded  ", "bold red"), one_line(error.target, 400))
        _block(console, head, [Text(one_line(error.message))])
    _causes(view, console, verbose=verbose)
    for entry in view.problems:
        _block(console, _headline(entry), _body(entry, verbose=verbose))
    for advice in view.advice:
        head = Text.assemble(("info  ", SEVERITY_STYLES["info"]), (advice.title, "bold"))
        head.append(f"  {counted(len(advice.entries), 'place')}")
        _block(console, head, _advice(advice, verbose=verbose))
    if verbose:
        _scores(view, console)
        rows = environment_rows(view)
        _block(console, Text("environment", "bold"), [Text(f"{label}: {value}") for label, value in rows])
    _print(console, Text(view.summary, TONES[view.tone]))


def render_table(readiness: Readiness, console: Console) -> None:
    """Print the table of cases and checks alone, with the summary.

    Args:
        readiness: The run.
        console: Where to print; it decides about colours and width.
    """
    view = overview(readiness)
    _cases(view, console, verbose=False)
    _print(console, Text(view.summary, TONES[view.tone]))


def render_comparison(comparison: Comparison, console: Console) -> None:
    """Print what changed between two runs.

    Args:
        comparison: What changed.
        console: Where to print; it decides about colours and width.
    """
    shown = map_strings(comparison, visible)
    for (title, changes), tone in zip(shown.changes, ("bad", "good", "warn"), strict=True):
        if changes:
            lines = [Text.assemble((one_line(c.case, 200), "bold"), f"  {c.check}  ", c.words) for c in changes]
            _block(console, Text(title, TONES[tone]), lines)
    for title, cases in shown.cases:
        if cases:
            _block(console, Text(title), [Text(one_line(case, 400)) for case in cases])
    if shown.surroundings:
        _block(console, Text("surroundings"), [Text(line, "dim") for line in shown.surroundings])
    tone = "bad" if shown.regressions else "good"
    _print(console, Text(f"since the run before: {shown.summary}", TONES[tone]))


def _cases(view: Overview, console: Console, *, verbose: bool) -> None:
    """The table of cases and checks: in full, else in short words, else one case under the other."""
    if not view.rows:
        return
    if console.width >= CASE + COLUMN * len(view.checks):
        _table(view, console, verbose=verbose)
    elif console.width >= CASE + SHORT_COLUMN * len(view.checks):
        _short_table(view, console)
    else:
        for row in view.rows:
            _block(console, Text(row.name, "bold"), [Text(row.target, "dim"), *_stacked(row, verbose=verbose)])


def _table(view: Overview, console: Console, *, verbose: bool) -> None:
    table = Table(highlight=False, pad_edge=False)
    table.add_column("case", overflow="fold")
    for name in view.checks:
        table.add_column(Text(one_line(name, 40)), overflow="fold")
    for row in view.rows:
        case = Text.assemble((row.name, "bold"), "\n", (row.target, "dim"))
        table.add_row(case, *(_cell(cell, verbose=verbose) for cell in row.cells))
    console.print(table)
    console.print()


def _short_table(view: Overview, console: Console) -> None:
    table = Table(highlight=False, pad_edge=False, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("case", overflow="fold")
    for name in view.checks:
        table.add_column(Text(one_line(name, 40)), overflow="fold")
    for row in view.rows:
        short = (Text(SHORT.get(cell.word, cell.word), TONES[cell.tone]) for cell in row.cells)
        table.add_row(Text(row.name, "bold"), *short)
    console.print(table)


def _stacked(row: Row, *, verbose: bool) -> Iterator[Text]:
    """The checks of a case one under the other, for narrow terminals."""
    for cell in row.cells:
        if cell.word:
            yield Text.assemble(f"{one_line(cell.check, 40)}: ", Text(" ").join(_cell(cell, verbose=verbose).split()))


def _cell(cell: Cell, *, verbose: bool) -> Text:
    text = Text(cell.word, TONES[cell.tone])
    if cell.count:
        text.append(f"\n{cell.count}", "dim")
    if verbose and cell.seconds:
        text.append(f"\n{cell.seconds:.1f} s", "dim")
    return text


def _reasons(view: Overview, console: Console, *, verbose: bool) -> None:
    """Why checks came out as they did, where no finding says it; equal words of one case are put together."""
    for row in view.rows:
        told: dict[tuple[str, str, Tone, tuple[str, ...]], list[str]] = {}
        for cell in row.cells:
            reason = cell.reason if verbose or not cell.problems else ""
            notes = cell.notes if verbose else cell.told
            if reason or notes:
                told.setdefault((reason, cell.word, cell.tone, notes), []).append(one_line(cell.check, 40))
        for (reason, word, tone, notes), checks in told.items():
            head = Text.assemble((row.name, "bold"), f"  {', '.join(checks)}  ", (word, TONES[tone]))
            body = [Text(reason)] * bool(reason) + [Text(one_line(note), "dim") for note in notes]
            _block(console, head, body)


def _causes(view: Overview, console: Console, *, verbose: bool) -> None:
    shown = view.causes if verbose else view.causes[:CAUSES]
    lines = [
        Text.assemble((counted(len(c.cases), "case"), "bold red"), f"  {one_line(c.place)}  {', '.join(c.titles)}")
        for c in shown
    ]
    if len(shown) < len(view.causes):
        lines.append(Text(f"and {counted(len(view.causes) - len(shown), 'more line')}", "dim"))
    if lines:
        _block(console, Text("root causes", "bold"), lines)


def _scores(view: Overview, console: Console) -> None:
    lines = []
    for s in view.scores:
        counts = f"{s.confirmed} confirmed, {s.refuted} refuted, {s.missed} missed, {s.not_exercised} not exercised"
        lines.append(Text(f"{s.rule}: {counts}; precision {percent(s.precision)}, recall {percent(s.recall)}"))
    if lines:
        _block(console, Text("the linter beside the checks, in lines", "bold"), lines)


def _headline(entry: Entry) -> Text:
    finding = entry.finding
    text = Text.assemble((one_line(finding.place, 400), "bold"), "  ")
    text.append(finding.severity, SEVERITY_STYLES[finding.severity] if entry.expected is None else "dim")
    text.append("  ").append(one_line(entry.title, 200), "bold")
    return text


def _body(entry: Entry, *, verbose: bool) -> Iterator[Text]:
    finding = entry.finding
    if finding.source:
        yield Text(f"    {one_line(finding.source, 300)}", "cyan")
    yield Text(one_line(finding.message))
    if entry.rewrite:
        yield Text.assemble(("rewrite: ", "green"), entry.rewrite)
    for evidence in entry.evidence if verbose else entry.evidence[:1]:
        lines = [line for line in evidence.split("\n") if line.strip()]
        shown = lines if verbose else lines[:EVIDENCE_LINES]
        yield from (Text(clip(line, 2000 if verbose else 300), "dim") for line in shown)
    if entry.expected is not None:
        yield Text(f"expected: {one_line(entry.expected)}", "yellow")
    yield Text(f"seen by {one_line(entry.seen)}", "dim")


def _advice(advice: Advice, *, verbose: bool) -> Iterator[Text]:
    yield Text(advice.summary)
    if advice.rewrite:
        yield Text.assemble(("what to do: ", "green"), advice.rewrite)
    places = advice.places
    shown = places if verbose else places[:PLACES]
    yield from (Text(one_line(place, 400), "dim") for place in shown)
    if len(shown) < len(places):
        yield Text(f"and {counted(len(places) - len(shown), 'more file')}", "dim")


def _block(console: Console, head: Text, body: list[Text] | Iterator[Text]) -> None:
    _print(console, head)
    for line in body:
        _print(console, line, indent=2)
    console.print()


def _print(console: Console, text: Text, indent: int = 0) -> None:
    """Print a line: wrapped under its indentation on a terminal, in one piece in a file or a CI log."""
    if console.is_terminal and indent:
        console.print(Padding(text, (0, 0, 0, indent)), highlight=False)
    else:
        console.print(Text(" " * indent).append_text(text), highlight=False, soft_wrap=True)
