"""``--export-observe``: the calls that tests make become cases, which are checked once all tests have run.

Their results are reported as tests of their own, ``export-observe::CLASS[CHECK]``; the tests stay as they are. With
xdist each worker checks what it observed, and the controller reports it.
"""

from __future__ import annotations

import dataclasses
import difflib
import sys
from typing import TYPE_CHECKING, Any

import pytest

from exportlint.findings import RED, CaseResult, CheckResult
from exportlint.text import counted, listed
from pytest_exportlint import options, session, unrun
from pytest_exportlint.expectations import by_check
from pytest_exportlint.ledger import LEDGER, OBSERVED
from pytest_exportlint.node_ids import heading

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from exportlint.checks.observed import Observation

WORKER_CASES = "exportlint_observed"
WORKER_CALLED, WORKER_WHY_NOT = "exportlint_called", "exportlint_why_not"
WORKER_CALLERS = "exportlint_callers"


class Observer:
    """Observes the tests of a session, or of a worker of xdist.

    Args:
        config: The session's.
        notes: What is said at its end; notes of the observer are added.
    """

    def __init__(self, config: pytest.Config, notes: dict[str, None]) -> None:
        self.config = config
        self._notes = notes
        self.settings = config.stash[options.KEY]
        self.reported: dict[str, int] = {}
        self._observation: Observation | None = None
        self._why_not: str | None = None
        self._called: dict[str, str] = {}  # classes, with and without their modules
        self._callers: dict[str, dict[str, list[str]]] = {}  # by first caller and case, the tests that made its calls

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Observe a test, from its setup to its teardown, once torch is there."""
        if "torch" in sys.modules and self._why_not is None:
            self._observe(item.nodeid)
        try:
            return (yield)
        finally:
            if self._observation is not None:
                self._observation.stop()

    def _observe(self, nodeid: str) -> None:
        if self._observation is None:
            from exportlint.checks.observed import Observation
            from exportlint.torch_hooks import modes

            self._why_not = modes.why_not()
            if self._why_not is not None:
                return
            self._observation = Observation(self.settings.observe or (), self.settings.observe_limit)
        self._observation.where = nodeid
        self._observation.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, Any, Any]:
        """Check what was observed when the last test is over."""
        done = yield
        if session.config.option.collectonly:
            return done
        found: list[CaseResult] = []
        if self._observation is not None:
            found = self._checked(self._observation)
            self._called.update(self._observation.called)
        output = getattr(self.config, "workeroutput", None)
        if output is not None:
            from pytest_exportlint import wire

            output[WORKER_CASES] = wire.plain(found)
            output[WORKER_CALLED], output[WORKER_WHY_NOT] = self._called, self._why_not
            output[WORKER_CALLERS] = self._callers
        else:
            self._report(session, found)
            self._note(self._unmet())
        return done

    def _note(self, words: Iterable[str]) -> None:
        """Have words said at the session's end."""
        self._notes.update(dict.fromkeys(words))

    def _unmet(self) -> Iterator[str]:
        """What was asked for, and no test called; of the tests of all workers of xdist."""
        from exportlint.checks.observed import is_called_so

        if self._why_not is not None:
            yield f"--export-observe: not checked: {self._why_not}"
            return
        if not self.settings.observe and not self._called:
            yield "--export-observe: no test called a module, other than torch's own"
        known = sorted({short.rpartition(".")[2] for short in self._called.values()})
        for asked in self.settings.observe or ():
            if not any(is_called_so(full, short, asked) for full, short in self._called.items()):
                close = difflib.get_close_matches(asked.rpartition(".")[2], known, n=1)
                meant = f"; did you mean {close[0]}?" if close else ""
                yield f"--export-observe: no test called a module {asked!r}{meant}"

    def _checked(self, observation: Observation) -> list[CaseResult]:
        from exportlint.checks.requirements import MissingRequirementError

        found = []
        for callers, case in observation.cases():
            where = callers[0]
            self._callers.setdefault(where, {})[case.name] = list(callers)
            try:
                session.require()
                result = session.runner(self.config).check_object(case, where)
                found.append(dataclasses.replace(result, checks=unrun.only_shown(result.checks)))
            except MissingRequirementError as error:
                checks = (CheckResult(name="capture", outcome="not_checked", reason=str(error)),)
                found.append(CaseResult(name=case.name, target=where, checks=checks))
        self._note(f"not observed: {words} ({counted(n, 'call')})" for words, n in observation.left_out.items())
        return found

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        """Report what a worker of xdist observed."""
        from pytest_exportlint import wire

        said = getattr(node, "workeroutput", {})
        cases = list(wire.parsed(said.get(WORKER_CASES, ())))
        self._called.update(said.get(WORKER_CALLED, {}))
        for where, callers in said.get(WORKER_CALLERS, {}).items():
            self._callers.setdefault(where, {}).update(callers)
        self._why_not = self._why_not or said.get(WORKER_WHY_NOT)
        controller = self.config.pluginmanager.get_plugin("dsession")
        if cases and controller is not None:
            self._report(controller._session, cases)

    def _report(self, session_node: pytest.Session, cases: Iterable[CaseResult]) -> None:
        """One report of a test for each check."""
        ledger = self.config.stash[LEDGER]
        for case in cases:
            number = self.reported[case.name] = self.reported.get(case.name, 0) + 1
            name = case.name if number == 1 else f"{case.name}@{number}"
            ledger.meet_result(f"{OBSERVED}::{name}", case)
            marked = self._marked(case, f"{OBSERVED}::{name}")
            session_node.testscollected += len(marked.checks)
            for check in marked.checks:
                self._report_check(marked, check, f"{OBSERVED}::{name}[{check.name}]")

    def _marked(self, case: CaseResult, id_: str) -> CaseResult:
        """The results with what is expected of them."""
        from exportlint.checks.results import with_expectations

        found = [expected for expected in self.settings.expected if expected.about(id_)]
        known = by_check(found, (check.name for check in case.checks), self.settings.devices)
        return CaseResult(name=case.name, target=case.target, checks=with_expectations(case.checks, known))

    def _report_check(self, case: CaseResult, check: CheckResult, nodeid: str) -> None:
        from pytest_exportlint import wire

        location = (OBSERVED, None, heading(nodeid.partition("::")[2]))
        hook = self.config.hook
        hook.pytest_runtest_logstart(nodeid=nodeid, location=location)
        for when in ("setup", "call", "teardown"):
            report = _of_phase(nodeid, location, when)
            if when == "call":
                self._tell(report, CaseResult(name=case.name, target=case.target, checks=(check,)))
                wire.attach(report, [CaseResult(name=case.name, target=case.target, checks=(check,))])
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=nodeid, location=location)

    def _tell(self, report: pytest.TestReport, result: CaseResult) -> None:
        """Put the outcome of a check into the report of a test."""
        from pytest_exportlint import messages, repeating

        (check,) = result.checks
        report.duration = check.seconds
        if check.red:
            report.outcome = "failed"
            report.longrepr = messages.failure(result, stack=self.config.get_verbosity() >= 2)
            callers = self._callers.get(result.target, {}).get(result.name, [result.target])
            again = repeating.of_observed(self.config, callers, result.name, check.name)
            report.longrepr += f"\n\ncalled by {listed(callers, 3)}\nrepeat: {again}"
        elif check.expected is not None and check.outcome in RED:
            report.outcome, report.wasxfail = "skipped", check.expected
        elif check.outcome == "not_checked":
            report.outcome = "skipped"
            report.longrepr = (OBSERVED, 0, f"Skipped: not checked: {check.reason}")
        remarks = messages.remarks(result, ())
        if remarks:
            report.sections.append(("Captured exportlint call", remarks))


def _of_phase(nodeid: str, location: tuple[str, int | None, str], when: Any) -> pytest.TestReport:
    return pytest.TestReport(
        nodeid=nodeid, location=location, keywords={}, outcome="passed", longrepr=None, when=when, duration=0.0
    )
