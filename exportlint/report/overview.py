"""What every readable format shows: the table of cases and checks, worst first, and the findings put together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from exportlint.findings import IN_TRAINING, RED, SEVERITIES
from exportlint.joining import NAME as LINT
from exportlint.joining import same_place
from exportlint.report.causes import causes
from exportlint.report.score_card import score_card
from exportlint.rules import catalogue
from exportlint.text import clip, counted, duration, map_strings, one_line, package, short_path, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from exportlint.findings import CaseResult, CheckResult, Environment, Finding, Outcome, Readiness, TargetError
    from exportlint.report.causes import Cause
    from exportlint.report.score_card import Score

Tone = Literal["good", "bad", "warn", "mute"]

WORDS: dict[Outcome, str] = {
    "passed": "passed",
    "failed": "failed",
    "errored": "errored",
    "crashed": "crashed",
    "timed_out": "timed out",
    "not_checked": "not checked",
}
_VERDICTS = {
    "confirmed": "as predicted",
    "missed": "not predicted",
    "refuted": "predicted, and refuted by the checks",
    "not_exercised": "predicted, not exercised by the checks",
}
PROJECT = "project"  # stands for the packages that are not installed
SHORT_REASON = 24  # characters
# Checks whose notes say how far they reached: a pass with sizes that were left out is not a plain one.
REACH = frozenset({"shapes"})
MOST_CASES = 8  # that are named of those that one line breaks
MOST_NOTES, MOST_OF_NOTE = 3, 240  # of one that is not red: how many notes are shown, and how long each
_WORST_FIRST: tuple[Outcome, ...] = ("crashed", "timed_out", "errored", "failed")


@dataclass(frozen=True, slots=True)
class Cell:
    """One check of one case as the table shows it.

    Attributes:
        word: The outcome in words; empty where the case was not given to this check at all.
        tone: How to colour it.
        count: What it found, such as ``2 findings``, and for a pass how much was checked; may be empty.
        reason: Why the outcome is what it is, on one line; empty for a plain pass.
        notes: Further lines for a reader.
        told: Those of them that are shown to who does not ask for more: all of a red check, and what a check that is
            not says of what it left out.
        seconds: Wall-clock time that the check took.
        red: Whether it makes the run fail.
        problems: How many of its findings are errors or warnings.
        rules: Codes of the rules of these findings, each once.
        packages: Installed packages that these lie in, each once; `PROJECT` for files of none.
        rank: 0 for the worst outcome, more for better ones.
    """

    check: str
    word: str = ""
    tone: Tone = "mute"
    count: str = ""
    reason: str = ""
    notes: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    seconds: float = 0.0
    red: bool = False
    problems: int = 0
    rules: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    rank: int = len(_WORST_FIRST) + 4


@dataclass(frozen=True, slots=True)
class Row:
    """One case as the table shows it."""

    name: str
    target: str
    cells: tuple[Cell, ...]

    @property
    def seconds(self) -> float:
        """What its checks took, one after the other."""
        return sum(cell.seconds for cell in self.cells)

    @property
    def origin(self) -> str:
        """Where the case comes from: its file or module, or ``hf`` and the like."""
        return self.target.partition(":")[0]

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The outcomes of its checks, each once, as words without blanks; of expected failures that they are."""
        words = ("expected" if "expected" in cell.word else cell.word for cell in self.cells if cell.word)
        return tuple(dict.fromkeys(word.replace(" ", "-") for word in words))

    @property
    def rules(self) -> tuple[str, ...]:
        """Codes of the rules of its findings, each once."""
        return tuple(dict.fromkeys(rule for cell in self.cells for rule in cell.rules))

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages that its findings lie in, each once."""
        return tuple(dict.fromkeys(name for cell in self.cells for name in cell.packages))


@dataclass(slots=True)
class Entry:
    """A finding, and who saw it: the same line is often found by several checks of several cases."""

    finding: Finding
    rule_name: str
    rewrite: str
    seen_by: dict[str, list[str]] = field(default_factory=dict)
    evidence: list[str] = field(default_factory=list)
    expected: str | None = None
    verdict: str = ""

    @property
    def title(self) -> str:
        """Code and name of the rule."""
        return f"{self.finding.rule} {self.rule_name}".strip()

    @property
    def seen(self) -> str:
        """``decoder (capture, shapes), encoder (capture)``, and how prediction and observation fit together."""
        seen = ", ".join(f"{case} ({', '.join(checks)})" for case, checks in self.seen_by.items())
        return f"{seen}: {self.verdict}" if self.verdict else seen


@dataclass(frozen=True, slots=True)
class Advice:
    """All findings of severity ``info`` of one rule."""

    title: str
    summary: str
    rewrite: str
    entries: tuple[Entry, ...]

    @property
    def seen_by(self) -> tuple[str, ...]:
        """Names of the cases, each once."""
        return tuple(dict.fromkeys(case for entry in self.entries for case in entry.seen_by))

    @property
    def places(self) -> list[str]:
        """``file:12, 14``, one string a file; the paths of libraries begin at their package."""
        lines: dict[str, list[int]] = {}
        for entry in self.entries:
            numbers = lines.setdefault(short_path(entry.finding.file or "?"), [])
            if entry.finding.line is not None and entry.finding.line not in numbers:
                numbers.append(entry.finding.line)
        return [f"{file}:{', '.join(map(str, sorted(found)))}" if found else file for file, found in lines.items()]


@dataclass(frozen=True, slots=True)
class Overview:
    """A `Readiness` as people read it.

    Attributes:
        checks: Names of the columns, in the order in which they were run.
        rows: The cases, worst first.
        problems: Findings of severity error and warning, worst first; expected ones last.
        advice: Findings of severity info, by rule.
        causes: The lines that several cases break at, those that block most cases first.
        scores: How well the linter foretold it, by rule.
        errors: Targets that could not be loaded.
        summary: The run in one line.
        tone: How to colour the summary.
    """

    environment: Environment
    checks: tuple[str, ...]
    rows: tuple[Row, ...]
    problems: tuple[Entry, ...]
    advice: tuple[Advice, ...]
    causes: tuple[Cause, ...]
    scores: tuple[Score, ...]
    errors: tuple[TargetError, ...]
    summary: str
    tone: Tone


def overview(readiness: Readiness) -> Overview:
    """What to show of a run; all strings in it can be printed."""
    readiness = map_strings(readiness, visible)
    checks = _check_names(readiness)
    entries = _entries(readiness)
    problems = [entry for entry in entries if entry.finding.counts]
    return Overview(
        environment=readiness.environment,
        checks=checks,
        rows=tuple(_row(case, checks) for case in sorted(readiness.cases, key=_case_rank)),
        problems=tuple(problems),
        advice=tuple(_advice(entry for entry in entries if not entry.finding.counts)),
        causes=causes(problems),
        scores=score_card(readiness),
        errors=readiness.errors,
        summary=_summary(readiness, problems, len(entries) - len(problems)),
        tone="bad" if readiness.status else "good" if _all_passed(readiness) else "warn",
    )


def environment_rows(view: Overview) -> list[tuple[str, str]]:
    """The environment of a run, and what it took, as pairs of a label and a value."""
    environment, seconds = view.environment, sum(row.seconds for row in view.rows)
    rows = [
        ("exportlint", environment.exportlint),
        ("torch", environment.torch or "not installed"),
        ("packages", ", ".join(environment.packages)),
        ("Python", environment.python),
        ("platform", environment.platform),
        ("date", environment.date),
        ("isolation", environment.isolation),
        ("devices", ", ".join(environment.devices)),
        ("checks", ", ".join(environment.checks)),
        ("examples for each shape check", str(environment.examples) if environment.examples else ""),
        ("part of all cases", environment.shard),
        ("time of all checks", duration(seconds) if seconds > 0 else ""),
    ]
    return [(label, one_line(value, 500)) for label, value in rows if value.strip()]


def _check_names(readiness: Readiness) -> tuple[str, ...]:
    names = dict.fromkeys(readiness.environment.checks)
    names.update(dict.fromkeys(check.name for case in readiness.cases for check in case.checks))
    run = {check.name for case in readiness.cases for check in case.checks}
    return tuple(name for name in names if name in run)


def _check_rank(check: CheckResult) -> int:
    """0 is the worst."""
    if check.expected is not None:
        return len(_WORST_FIRST) + 2
    if check.outcome in _WORST_FIRST:
        return _WORST_FIRST.index(check.outcome)
    if check.red:
        return len(_WORST_FIRST)
    return len(_WORST_FIRST) + (1 if check.outcome == "not_checked" else 3)


def _case_rank(case: CaseResult) -> tuple[int, bool, int]:
    """The worst outcome first, then what is an error anywhere, then what fails in more checks."""
    red = [check for check in case.checks if check.red]
    breaks = any(finding.counts and finding.severity == "error" for check in red for finding in check.findings)
    return min(map(_check_rank, case.checks), default=0), not breaks, -len(red)


def _row(case: CaseResult, checks: Iterable[str]) -> Row:
    by_name = {check.name: check for check in case.checks}
    cells = tuple(_cell(by_name[name]) if name in by_name else Cell(check=name) for name in checks)
    return Row(name=one_line(case.name, 200), target=one_line(case.target, 400), cells=cells)


def _cell(check: CheckResult) -> Cell:
    tone: Tone = "bad" if check.red else "good" if check.outcome == "passed" else "mute"
    word, reason, count = WORDS[check.outcome], check.reason or "", _count(check.findings)
    if check.outcome == "passed" and check.expected is None and len(reason) <= SHORT_REASON:
        count, reason = ", ".join(filter(None, (one_line(reason), count))), ""  # how much was checked: for the table
    if check.expected is not None:
        tone = "warn"
        word = f"{word}, expected" if check.outcome in RED else f"{word}, failure expected"
        reason = f"{reason} (expected: {check.expected})" if reason else check.expected
    notes = tuple(clip(note, 5000) for note in check.notes)
    return Cell(
        check=check.name,
        word=word,
        tone=tone,
        count=count,
        reason=one_line(reason),
        notes=notes,
        told=notes if check.red else tuple(_reach(check)),
        seconds=check.seconds,
        red=check.red,
        problems=sum(finding.counts for finding in check.findings),
        rules=tuple(dict.fromkeys(one_line(finding.rule, 40) for finding in check.findings if finding.counts)),
        packages=tuple(dict.fromkeys(_package(finding) for finding in check.findings if finding.counts)),
        rank=_check_rank(check),
    )


def _package(finding: Finding) -> str:
    return "_".join(one_line(package(finding.file or "") or PROJECT, 60).split())


def _reach(check: CheckResult) -> list[str]:
    """The notes of a check that is not red that are shown without being asked for."""
    if check.name not in REACH:
        return [one_line(note, MOST_OF_NOTE) for note in check.notes if note.startswith(IN_TRAINING)]
    short = [one_line(note, MOST_OF_NOTE) for note in check.notes[:MOST_NOTES]]
    return short + [f"and {counted(len(check.notes) - MOST_NOTES, 'more note')}"] * (len(check.notes) > MOST_NOTES)


def _count(findings: tuple[Finding, ...]) -> str:
    notes = sum(not finding.counts for finding in findings)
    problems = len(findings) - notes
    words = [counted(problems, "finding")] * bool(problems) + [counted(notes, "note")] * bool(notes)
    return ", ".join(words)


def _results(readiness: Readiness) -> Iterator[tuple[CaseResult, CheckResult, Finding]]:
    for case in readiness.cases:
        for check in case.checks:
            for finding in check.findings:
                yield case, check, finding


def _entries(readiness: Readiness) -> list[Entry]:
    """One entry for each rule and place: errors before warnings before notes, expected ones last.

    Several checks may see one fault, each in its own words: the first speaks, and the others are evidence. A prediction
    that a check confirmed is part of the entry for what the check saw. Findings without a line are one only where the
    evidence is the same, too. What one case confirms is not told again of the cases that refute or do not exercise it.
    """
    entries: dict[tuple[object, ...], Entry] = {}
    for case, check, finding in sorted(_results(readiness), key=lambda result: result[1].name == LINT):
        entry = _confirmed(finding, entries.values()) if check.name == LINT else None
        if entry is not None and finding.verdict != "confirmed":
            continue
        if entry is None:
            words = finding.message if finding.line is None or not finding.counts else ""
            cause = finding.evidence if finding.line is None else None  # no line tells two causes apart
            place = (finding.file, finding.line, words, cause)
            key = (finding.rule, finding.severity, *place, finding.verdict, check.expected)
            entry = entries.setdefault(key, _entry(finding, check.expected))
            if finding.message != entry.finding.message and finding.message not in entry.evidence:
                entry.evidence.append(clip(finding.message, 20_000))
        checks = entry.seen_by.setdefault(one_line(case.name, 200), [])
        if check.name not in checks:
            checks.append(check.name)
        if finding.evidence and finding.evidence not in entry.evidence:
            entry.evidence.append(clip(finding.evidence, 20_000))
    return sorted(_without_repeats(list(entries.values())), key=_entry_rank)


def _without_repeats(entries: list[Entry]) -> Iterator[Entry]:
    """The entries without information about lines that a case does not run, where it is a finding of another case."""
    for entry in entries:
        same = (e for e in entries if e.finding.counts and e.finding.rule == entry.finding.rule)
        idle = not entry.finding.counts and entry.finding.verdict == "not_exercised"
        if not idle or not any(same_place(entry.finding, e.finding) for e in same):
            yield entry


def _confirmed(prediction: Finding, entries: Iterable[Entry]) -> Entry | None:
    """The entry of the check that confirmed a prediction, in this case or in another."""
    found = (e for e in entries if e.finding.verdict == "confirmed" and same_place(prediction, e.finding))
    return next((e for e in found if prediction.verdict == "confirmed" or e.finding.rule == prediction.rule), None)


def _entry(finding: Finding, expected: str | None) -> Entry:
    rule = catalogue().get(finding.rule)
    rewrite = finding.rewrite or (rule.rewrite if rule else "")
    verdict = _VERDICTS.get(finding.verdict or "", "")
    return Entry(finding, rule.name if rule else "", one_line(rewrite), expected=expected, verdict=verdict)


def _entry_rank(entry: Entry) -> tuple[bool, int, str, int, str]:
    finding = entry.finding
    severity = SEVERITIES.index(finding.severity)
    return entry.expected is not None, severity, finding.file or "", finding.line or 0, finding.rule


def _advice(entries: Iterable[Entry]) -> list[Advice]:
    groups: dict[tuple[str, str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.title, _why_it_does_not_count(entry.finding), entry.rewrite), []).append(entry)
    return [
        Advice(title + why, _advice_summary(group), rewrite, tuple(group))
        for (title, why, rewrite), group in groups.items()
    ]


def _why_it_does_not_count(finding: Finding) -> str:
    if finding.library:
        return ", predicted in a library"
    if finding.verdict == "not_exercised":
        return ", predicted and not exercised"
    return ", predicted and refuted" if finding.verdict == "refuted" else ""


def _advice_summary(entries: list[Entry]) -> str:
    """The message itself where it is the same everywhere, else what the rule is about."""
    rule = catalogue().get(entries[0].finding.rule)
    same = len({entry.finding.message for entry in entries}) == 1
    return one_line(entries[0].finding.message if same or rule is None else f"{rule.summary}.")


def _all_passed(readiness: Readiness) -> bool:
    checks = [check for case in readiness.cases for check in case.checks]
    return bool(checks) and all(check.outcome == "passed" and check.expected is None for check in checks)


def _summary(readiness: Readiness, problems: list[Entry], notes: int) -> str:
    """``2 cases, 8 checks: 7 passed, 1 failed; 1 warning, 14 notes``."""
    checks = [check for case in readiness.cases for check in case.checks]
    outcomes = []
    for outcome, word in WORDS.items():
        number = sum(check.outcome == outcome and check.expected is None for check in checks)
        outcomes += [f"{number} {word}"] * bool(number)
    expected = sum(check.expected is not None for check in checks)
    outcomes += [counted(expected, "expected failure")] * bool(expected)
    line = f"{counted(len(readiness.cases), 'case')}, {counted(len(checks), 'check')}"
    line += f": {', '.join(outcomes)}" if outcomes else ""
    counts = [
        (sum(e.finding.severity == severity and e.expected is None for e in problems), severity)
        for severity in ("error", "warning")
    ]
    found = [counted(number, noun) for number, noun in (*counts, (notes, "note")) if number]
    line += f"; {', '.join(found)}" if found else ""
    kept = sum(check.cached for check in checks)
    line += f"; {counted(kept, 'verdict')} kept from an earlier run" if kept else ""
    return line + (f"; {counted(len(readiness.errors), 'target')} could not be loaded" if readiness.errors else "")
