"""What a session says at its end: the table of cases, the slowest checks, what was not checked; and its files."""

from __future__ import annotations

import dataclasses
import io
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from exportlint.findings import IN_TRAINING, CaseResult, CheckResult, Readiness
from pytest_exportlint import options
from pytest_exportlint.ledger import LEDGER, LEFT_OUT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from _pytest.terminal import TerminalReporter

SLOWEST = 5
MOST_UNCHECKED = 20
WORKER_LEDGER = "exportlint_ledger"
WORKER_NOTES = "exportlint_notes"
COMPLETE = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)


class Summary:
    """Collects the results of the session, of all workers of xdist where there are any."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.settings = config.stash[options.KEY]
        self.cases: dict[tuple[str, str], dict[str, CheckResult]] = {}
        self.ledger = config.stash[LEDGER]
        self.unmatched: list[tuple[str, str]] = []  # each a file and what it says about nothing
        self.notes: dict[str, None] = {}
        self.trouble: list[str] = []
        self.written: list[str] = []

    def add(self, case: CaseResult) -> None:
        """Take note of a result; of a check that was run twice, the later counts."""
        self.cases.setdefault((case.target, case.name), {}).update({check.name: check for check in case.checks})

    def readiness(self) -> Readiness:
        """All results in one."""
        from exportlint.checks.environment import environment
        from exportlint.findings import CHECKS

        settings = self.settings
        asked = environment(
            checks=settings.labels if len(settings.devices) > 1 else settings.checks,
            devices=settings.devices,
            examples=settings.examples,
            isolation=settings.isolation,
            notes=self.notes,
        )
        cases = []
        for (target, name), checks in self.cases.items():
            ordered = sorted(checks.values(), key=lambda check: _rank(check.name, CHECKS))
            if len(settings.devices) == 1:
                ordered = [_plainly_named(check) for check in ordered]
            cases.append(CaseResult(name=name, target=target, checks=tuple(ordered)))
        return Readiness(environment=asked, cases=tuple(cases))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Take note of what told no cases although there may be some."""
        if not report.passed:
            self.ledger.uncollected.add(report.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the results that came with a test."""
        from pytest_exportlint import wire

        if hasattr(report, wire.ATTRIBUTE):
            for case in wire.cases_of(report):
                self.add(case)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        """Take what a worker of xdist says at its end."""
        said = getattr(node, "workeroutput", {})
        self.ledger.merge(said.get(WORKER_LEDGER, {}))
        self.notes.update(dict.fromkeys(said.get(WORKER_NOTES, ())))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the reports; a session that is else green fails for an expectation about nothing."""
        from pytest_exportlint.session import RUNNER

        made = self.config.stash.get(RUNNER, None)
        self.notes.update(dict.fromkeys(made.notes if made is not None else ()))
        output = getattr(self.config, "workeroutput", None)
        if output is not None:
            output[WORKER_LEDGER], output[WORKER_NOTES] = self.ledger.plain(), list(self.notes)
            return
        # What was never looked for, or not to its end, was not missed.
        if session.exitstatus in COMPLETE and not self.config.option.collectonly:
            self.unmatched = list(self.ledger.unmatched(self.config))
        if self.settings.reports:
            self._write(complete=session.exitstatus in COMPLETE and not self.config.option.collectonly)
        if (self.unmatched or self.trouble) and session.exitstatus in (
            pytest.ExitCode.OK,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        ):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _write(self, *, complete: bool) -> None:
        """Write the reports; a session that broke off before it checked anything takes none away."""
        from exportlint import report

        for path in self.settings.reports:
            if not (complete or self.cases) and path.exists():
                self.notes[f"{path} is left as it was: no model was checked"] = None
                continue
            try:
                report.write(self.readiness(), path)
                self.written.append(str(path))
            except OSError as error:
                self.trouble.append(f"{path} cannot be written: {error.strerror or error}")

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Show what was found out."""
        if not (self.cases or self.notes or self.unmatched or self.trouble or self.written):
            return
        terminalreporter.section("export readiness")
        if self.cases:
            readiness = _told_apart(self.readiness())
            terminalreporter.write(_table(readiness, terminalreporter))
            for line in _lines(readiness):
                terminalreporter.write_line(line)
        for words in (*self.notes, *filter(None, [self.config.stash.get(LEFT_OUT, "")])):
            terminalreporter.write_line(words)
        for words in (*map(": ".join, self.unmatched), *self.trouble):
            terminalreporter.write_line(f"error: {words}", red=True)
        if self.unmatched:
            terminalreporter.write_line("the run fails while an expected failure is about nothing", red=True)
        for path in self.written:
            terminalreporter.write_line(f"wrote {path}")
        if self.settings.github:
            from pytest_exportlint import github

            complaints = [github.complaint(words, file) for file, words in self.unmatched]
            complaints += map(github.complaint, self.trouble)
            for line in (*github.commands(self.readiness()), *complaints):
                terminalreporter.write_line(line)


def _told_apart(readiness: Readiness) -> Readiness:
    """The cases, with what tells them apart in the names of those that share one: the test, or all of its id."""
    names = Counter(case.name for case in readiness.cases)
    tests = Counter((case.name, _test(case)) for case in readiness.cases)

    def told(case: CaseResult) -> CaseResult:
        if names[case.name] == 1:
            return case
        where = _test(case) if tests[case.name, _test(case)] == 1 else case.target
        return dataclasses.replace(case, name=f"{case.name} ({where})")

    return dataclasses.replace(readiness, cases=tuple(map(told, readiness.cases)))


def _test(case: CaseResult) -> str:
    """The id of a case without its file."""
    return case.target.partition("::")[2] or case.target


def _rank(name: str, known: tuple[str, ...]) -> tuple[int, str]:
    check = name.rpartition(".")[2].partition("-")[0]
    return known.index(check) if check in known else len(known), name


def _plainly_named(check: CheckResult) -> CheckResult:
    return dataclasses.replace(check, name="device") if check.name.startswith("device-") else check


def _table(readiness: Readiness, terminal: TerminalReporter) -> str:
    """The table of the terminal report, as wide as pytest's own output."""
    from rich.console import Console

    from exportlint.report.terminal import render_table

    writer = terminal._tw
    file = io.StringIO()
    render_table(
        readiness,
        Console(file=file, width=writer.fullwidth, force_terminal=writer.hasmarkup, no_color=not writer.hasmarkup),
    )
    return file.getvalue()


def _lines(readiness: Readiness) -> Iterator[str]:
    """The slowest checks, how many verdicts were kept, and what was not checked."""
    from exportlint.text import counted, one_line, visible
    from pytest_exportlint import messages, unrun

    checks = [(case, check) for case in readiness.cases for check in case.checks]
    slow = sorted((pair for pair in checks if not pair[1].cached), key=lambda pair: -pair[1].seconds)[:SLOWEST]
    if slow:
        yield "slowest: " + ", ".join(
            f"{one_line(visible(case.name), 60)} {check.name} {check.seconds:.1f} s" for case, check in slow
        )
    for case in readiness.cases:
        made = messages.how_made(case.checks)
        if made is not None:
            yield f"{one_line(visible(case.name), 60)}: {one_line(visible(made), 300)}"
    for case, check in checks:
        notes = (note for note in check.notes if note.startswith(IN_TRAINING))
        yield from (f"{one_line(visible(case.name), 60)}: {one_line(visible(note), 300)}" for note in notes)
    yield from (one_line(visible(line), 300) for line in unrun.lines(readiness.cases))
    kept = sum(check.cached for _, check in checks)
    yield f"{counted(kept, 'verdict')} of {len(checks)} kept from an earlier run"
    yield from _unchecked(checks)


def _unchecked(checks: Iterable[tuple[CaseResult, CheckResult]]) -> Iterator[str]:
    """What was not checked, by reason."""
    from exportlint.text import listed, one_line, visible

    reasons: dict[tuple[str, str], list[str]] = {}
    for case, check in checks:
        if check.outcome == "not_checked":
            reasons.setdefault((check.name, check.reason or "no reason is known"), []).append(case.name)
    for number, ((name, reason), cases) in enumerate(reasons.items()):
        if number == MOST_UNCHECKED:
            yield f"not checked: {len(reasons) - number} more reasons"
            return
        yield f"not checked: {name} of {one_line(visible(listed(cases, 3)), 120)}: {one_line(visible(reason), 200)}"
