"""One run of the checks over all TARGETs: listing, progress, what is kept, and what an interrupt leaves."""

from __future__ import annotations

import concurrent.futures
import functools
from typing import TYPE_CHECKING, Any

from exportlint.text import counted, own_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import TaskID

    from exportlint.checks.elsewhere import Answer, Pool
    from exportlint.checks.runner import NamedCase, Options, Runner
    from exportlint.checks.verdicts import Verdicts
    from exportlint.findings import CaseResult, Environment, Readiness, TargetError
    from exportlint.report.sharding import Shard
    from exportlint.report.unfinished import Unfinished


def run(
    targets: tuple[str, ...], options: Options, session: Session, verdicts: Verdicts | None
) -> tuple[Readiness, bool]:
    """Run everything; on Ctrl-C what is not done is reported as not checked.

    Returns:
        The run, and whether it was interrupted.
    """
    from exportlint.checks.runner import Runner
    from exportlint.findings import Readiness, TargetError

    interrupted = False
    with Runner(options, verdicts) as runner, session.progress:
        try:
            session.run(runner, targets)
        except KeyboardInterrupt:
            interrupted = True
            runner.close()
            words = "interrupted before its cases were loaded"
            session.errors += [TargetError(target=target, message=words) for target in session.unloaded]
    cases = session.results(options)
    environment = _environment(runner, session.shard)
    return Readiness(environment=environment, cases=cases, errors=tuple(session.errors)), interrupted


class Session:
    """One run over all targets, with its progress bar.

    Args:
        console: Where progress is shown.
        shard: The part of all cases that is checked; all of them where ``None``.
        unfinished: Where results are kept until the report is written.
        before: What an earlier run found out, by label of the case.
        pool: Where cases are checked; by processes of this one where ``None``.
    """

    def __init__(
        self,
        console: Any,
        *,
        shard: Shard | None = None,
        unfinished: Unfinished | None = None,
        before: dict[str, CaseResult] | None = None,
        pool: Pool | None = None,
    ) -> None:
        self.progress = _progress(console)
        self.shard = shard
        self.errors: list[TargetError] = []
        self.cases: list[NamedCase] = []
        self.unloaded: list[str] = []
        self.done: dict[int, CaseResult] = {}
        self._unfinished = unfinished
        self._before = before or {}
        self._pool = pool
        self._machines: set[str] = set()

    def run(self, runner: Runner, targets: tuple[str, ...]) -> None:
        """List the cases of all targets, then check them."""
        task = self.progress.add_task("loading", total=None)
        self.unloaded = list(targets)
        for target in targets:
            self.cases += self._list(runner, target)
            self.unloaded.pop(0)
        if self.shard is not None:
            self.cases = list(self.shard.of(self.cases))
        self.done = {i: self._before[c.label] for i, c in enumerate(self.cases) if c.label in self._before}
        self.progress.update(task, description="checking", total=len(self.cases), completed=len(self.done))
        todo = [i for i in range(len(self.cases)) if i not in self.done]
        if self._pool is not None:
            self._run_elsewhere(runner, self._pool, todo, task)
        elif runner.options.jobs == 1:  # in this thread, since Ctrl-C reaches no other
            for i in todo:
                self.progress.update(task, description=f"checking {self.cases[i].name}")
                self._take(i, functools.partial(runner.check_named, self.cases[i]))
                self.progress.advance(task)
        else:
            self._run_pool(runner, todo, task)

    def _run_pool(self, runner: Runner, todo: list[int], task: TaskID) -> None:
        pool = concurrent.futures.ThreadPoolExecutor(runner.options.jobs)
        try:
            futures = {pool.submit(runner.check_named, self.cases[i]): i for i in todo}
            for future in concurrent.futures.as_completed(futures):
                self._take(futures[future], future.result)
                self.progress.advance(task)
        except BaseException:
            runner.close()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _run_elsewhere(self, runner: Runner, pool: Pool, todo: list[int], task: TaskID) -> None:
        try:
            futures = {pool.submit(self.cases[i]): i for i in todo}
            for future in concurrent.futures.as_completed(futures):
                self._take(futures[future], functools.partial(self._answer, runner, future))
                self.progress.advance(task)
        finally:
            pool.executor.shutdown(wait=True, cancel_futures=True)
        if todo:
            words = f"cases were checked by an executor, on {counted(len(self._machines), 'machine')}"
            runner.notes.append(words)

    def _answer(self, runner: Runner, future: concurrent.futures.Future[Answer]) -> CaseResult:
        """What a job found out.

        Raises:
            LoadError: When that is nothing.
        """
        from exportlint.checks.runner import LoadError

        answer = future.result()
        self._machines.add(answer.machine)
        runner.notes += [note for note in answer.notes if note not in runner.notes]
        if answer.case is None:
            raise LoadError(answer.error)
        return answer.case

    def _list(self, runner: Runner, target: str) -> Iterator[NamedCase]:
        from exportlint.checks.isolation.client import ServerError
        from exportlint.checks.runner import LoadError
        from exportlint.checks.targets import MissingTargetError, expand
        from exportlint.findings import TargetError

        try:
            sources = expand(target)
        except (MissingTargetError, OSError) as error:
            self.errors.append(TargetError(target=target, message=str(error)))
            return
        for source in sources:
            try:
                yield from runner.list_cases(source)
            except (LoadError, ServerError) as error:
                self.errors.append(TargetError(target=source, message=str(error)))
            except Exception as error:  # one target's fault is not the others'
                self.errors.append(TargetError(target=source, message=own_fault(error)))

    def _take(self, index: int, result: Callable[[], CaseResult]) -> None:
        from exportlint.checks.elsewhere import LostError
        from exportlint.checks.isolation.client import ServerError
        from exportlint.checks.runner import LoadError
        from exportlint.findings import TargetError

        label = self.cases[index].label
        try:
            self.done[index] = result()
        except (LoadError, ServerError, LostError) as error:
            self.errors.append(TargetError(target=label, message=str(error)))
        except Exception as error:  # one case's fault is not the others'
            self.errors.append(TargetError(target=label, message=own_fault(error)))
        else:
            if self._unfinished is not None:
                self._unfinished.keep(label, self.done[index])

    def results(self, options: Options) -> tuple[CaseResult, ...]:
        """The results in the order of the cases; those that were not reached are not checked."""
        failed = {error.target for error in self.errors}
        return tuple(
            self.done[i] if i in self.done else _stopped(case, options)
            for i, case in enumerate(self.cases)
            if i in self.done or case.label not in failed
        )


def _progress(console: Any) -> Any:
    from rich import progress

    return progress.Progress(
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left:"),
        progress.TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
        speed_estimate_period=3600,  # seconds; a case takes many
    )


def _stopped(case: NamedCase, options: Options) -> CaseResult:
    """The result of a case that was not reached: none of the checks that were to run is checked."""
    from exportlint.findings import CaseResult, CheckResult

    names = [name for name in options.checks if name in case.asks]
    checks = tuple(CheckResult(name=name, outcome="not_checked", reason="interrupted") for name in names)
    return CaseResult(name=case.name, target=case.label, checks=checks)


def _environment(runner: Runner, shard: Shard | None) -> Environment:
    from exportlint.checks.environment import environment

    options = runner.options
    return environment(
        checks=options.checks,
        devices=options.devices,
        examples=options.examples,
        isolation=options.isolation,
        notes=runner.notes,
        shard="" if shard is None else str(shard),
    )
