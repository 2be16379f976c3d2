"""``exportlint report``: run the checks of model cases and write the readiness report."""

from __future__ import annotations

import concurrent.futures
import functools
import math
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from exportlint.findings import CHECKS, DEVICES, VARIANTS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from rich.progress import TaskID

    from exportlint.checks.runner import NamedCase, Options, Runner
    from exportlint.findings import CaseResult, Environment, Readiness, TargetError


def names_option(
    known: tuple[str, ...], what: str, default: tuple[str, ...] | None = None
) -> Callable[..., tuple[str, ...]]:
    """A click callback for a list of names separated by commas; all of them by default."""

    def parse(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
        if value is None:
            return known if default is None else default
        names = [name.strip() for name in value.split(",") if name.strip()]
        for name in names:
            if name not in known:
                raise click.BadParameter(f"{name!r} is no {what}; known: {', '.join(known)}", ctx, param)
        if not names:
            raise click.BadParameter(f"names no {what}; known: {', '.join(known)}", ctx, param)
        return tuple(name for name in known if name in names)

    return parse


def devices_option(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    """A click callback for names of devices separated by commas."""
    from exportlint.checks import device_names

    try:
        return device_names.select(
            [name.strip() for name in ("second" if value is None else value).split(",") if name.strip()]
        )
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error


class Seconds(click.FloatRange):
    """A range of seconds; NaN, which compares with nothing, lies outside."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number, where it lies in the range."""
        seconds: float = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{seconds} is not in the range {self._describe_range()}.", param, ctx)
        return seconds


def output_file(name: str, suffixes: Collection[str]) -> Path:
    """The path of a file that will be written, looked at before anything else is done.

    Raises:
        ValueError: When nothing can be written there, or its suffix is none of these.
    """
    if not name:
        raise ValueError("an empty path names no file")
    path = Path(name)
    if path.suffix.lower() not in suffixes:
        raise ValueError(f"{name}: the suffix must be one of {', '.join(suffixes)}")
    if not path.resolve().parent.is_dir():
        raise ValueError(f"{name}: there is no folder {path.parent}")
    if path.is_dir():
        raise ValueError(f"{name} is a folder")
    if path.exists() and not path.is_file():
        raise ValueError(f"{name} is no regular file")
    return path


def _output(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[Path, ...]:
    from exportlint.report import FORMATS

    try:
        return tuple(output_file(name, FORMATS) for name in value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error


MOST_SECONDS = 1e7


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option(
    "--output", "-o", multiple=True, callback=_output, metavar="FILE",
    help="Write the report here; the suffix (.json, .md, .html) is the format. May be repeated.",
)  # fmt: skip
@click.option(
    "--checks", callback=names_option(CHECKS, "check"), metavar="NAMES",
    help=f"Checks to run, separated by commas. Default: {','.join(CHECKS)}.",
)  # fmt: skip
@click.option(
    "--devices", callback=devices_option, metavar="NAMES",
    help=f"Devices for the check device, separated by commas: {', '.join(DEVICES)}, or another type that torch knows. "
    "Default: second, which needs no hardware.",
)  # fmt: skip
@click.option("--examples", default=20, show_default=True, type=click.IntRange(0), help="Calls that hypothesis draws.")
@click.option(
    "--timeout",
    default=300.0,
    show_default=True,
    type=Seconds(1, MOST_SECONDS),
    help="Seconds that a check may compute.",
)
@click.option("--jobs", "-j", default=1, show_default=True, type=click.IntRange(1), help="Cases checked at once.")
@click.option(
    "--isolation", default="auto", show_default=True, type=click.Choice(["auto", "server", "fork", "none"]),
    help="Where checks run: children of a worker server, children forked from this process, or this process.",
)  # fmt: skip
@click.option(
    "--variants", callback=names_option(VARIANTS, "variant", ()), metavar="NAMES",
    help=f"Check each case in these variants too, separated by commas: {', '.join(VARIANTS)}.",
)  # fmt: skip
@click.option("--verbose", "-v", is_flag=True, help="Show every finding of severity info.")
def report(targets: tuple[str, ...], output: tuple[Path, ...], verbose: bool, **options: Any) -> None:
    """Check the model cases of TARGETs and report whether they can be exported and run elsewhere.

    A TARGET is file.py, file.py:name, package.module, package.module:name, a folder, or a model of a library: hf:TYPE,
    timm:NAME, torchvision:NAME, with wildcards.

    Exit status: 0 clean, 1 a finding of warning or error or a check that failed, 2 a TARGET that cannot be loaded.
    """
    from rich.console import Console

    from exportlint.checks.runner import Options

    if options["isolation"] in ("fork", "none"):
        options["jobs"] = 1  # neither is safe from several threads
    for name in ("SIGTERM", "SIGHUP"):  # as for Ctrl-C: children and temporary files go
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.default_int_handler)
    errors = Console(stderr=True)
    readiness, interrupted = _run(targets, Options(**options), errors)
    from exportlint.report import terminal, write

    failures: dict[Path, OSError] = {}
    for path in output:  # before anything is printed, since a reader may go away
        try:
            write(readiness, path)
        except OSError as error:
            failures[path] = error
    terminal.render(readiness, Console(), verbose=verbose)
    for path in output:
        if path in failures:
            words = f"exportlint: {path} cannot be written: {failures[path].strerror or failures[path]}"
            errors.print(words, markup=False, highlight=False)
        else:
            Console().print(f"wrote {path}", markup=False, highlight=False)
    sys.exit(130 if interrupted else 2 if failures else readiness.status)


def _run(targets: tuple[str, ...], options: Options, console: Any) -> tuple[Readiness, bool]:
    """Run everything; on Ctrl-C what is not done is reported as not checked."""
    from exportlint.checks.runner import Runner
    from exportlint.findings import Readiness, TargetError

    session = Session(console)
    interrupted = False
    with Runner(options) as runner, session.progress:
        try:
            session.run(runner, targets)
        except KeyboardInterrupt:
            interrupted = True
            runner.close()
            words = "interrupted before its cases were loaded"
            session.errors += [TargetError(target=target, message=words) for target in session.unloaded]
    cases = session.results(options)
    readiness = Readiness(environment=_environment(runner), cases=cases, errors=tuple(session.errors))
    return readiness, interrupted


class Session:
    """One run over all targets, with its progress bar."""

    def __init__(self, console: Any) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.errors: list[TargetError] = []
        self.cases: list[NamedCase] = []
        self.unloaded: list[str] = []
        self.done: dict[int, CaseResult] = {}

    def run(self, runner: Runner, targets: tuple[str, ...]) -> None:
        """List the cases of all targets, then check them."""
        task = self.progress.add_task("loading", total=None)
        self.unloaded = list(targets)
        for target in targets:
            self.cases += self._list(runner, target)
            self.unloaded.pop(0)
        self.progress.update(task, description="checking", total=len(self.cases))
        if runner.options.jobs == 1:  # in this thread, since Ctrl-C reaches no other
            for i, case in enumerate(self.cases):
                self.progress.update(task, description=f"checking {case.name}")
                self._take(i, functools.partial(runner.check_named, case))
                self.progress.advance(task)
        else:
            self._run_pool(runner, task)

    def _run_pool(self, runner: Runner, task: TaskID) -> None:
        pool = concurrent.futures.ThreadPoolExecutor(runner.options.jobs)
        try:
            futures = {pool.submit(runner.check_named, case): i for i, case in enumerate(self.cases)}
            for future in concurrent.futures.as_completed(futures):
                self._take(futures[future], future.result)
                self.progress.advance(task)
        except BaseException:
            runner.close()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

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
                self.errors.append(TargetError(target=source, message=_fault(error)))

    def _take(self, index: int, result: Callable[[], CaseResult]) -> None:
        from exportlint.checks.isolation.client import ServerError
        from exportlint.checks.runner import LoadError
        from exportlint.findings import TargetError

        try:
            self.done[index] = result()
        except (LoadError, ServerError) as error:
            self.errors.append(TargetError(target=self.cases[index].label, message=str(error)))
        except Exception as error:  # one case's fault is not the others'
            self.errors.append(TargetError(target=self.cases[index].label, message=_fault(error)))

    def results(self, options: Options) -> tuple[CaseResult, ...]:
        """The results in the order of the cases; those that were not reached are not checked."""
        failed = {error.target for error in self.errors}
        return tuple(
            self.done[i] if i in self.done else _stopped(case, options)
            for i, case in enumerate(self.cases)
            if i in self.done or case.label not in failed
        )


def _stopped(case: NamedCase, options: Options) -> CaseResult:
    """The result of a case that was not reached: none of the checks that were to run is checked."""
    from exportlint.findings import CaseResult, CheckResult

    names = [name for name in options.checks if name in case.asks]
    checks = tuple(CheckResult(name=name, outcome="not_checked", reason="interrupted") for name in names)
    return CaseResult(name=case.name, target=case.label, checks=checks)


def _fault(error: Exception) -> str:
    return f"exportlint itself failed: {type(error).__name__}: {error}".splitlines()[0]


def _environment(runner: Runner) -> Environment:
    from exportlint.checks.environment import environment

    options = runner.options
    return environment(
        checks=options.checks,
        devices=options.devices,
        examples=options.examples,
        isolation=options.isolation,
        notes=runner.notes,
    )
