"""``exportlint report``: run the checks of model cases and write the readiness report."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from exportlint.cli.paths import GivenPath
from exportlint.cli.report_options import (
    MOST_GIB,
    MOST_SECONDS,
    Amount,
    Refused,
    checks_option,
    devices_option,
    executor_option,
    list_checks,
    names_option,
    output_option,
    pythons_option,
    readiness_of,
    shard_option,
)
from exportlint.findings import DEFAULT_CHECKS, DEVICES, PROFILES, VARIANTS, listed_checks, select_checks
from exportlint.text import counted

if TYPE_CHECKING:
    from exportlint.checks.elsewhere import Pool
    from exportlint.checks.runner import Options
    from exportlint.findings import Readiness
    from exportlint.report.gate import FailOn
    from exportlint.report.sharding import Shard
    from exportlint.report.unfinished import Unfinished


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@output_option()
@click.option(
    "--checks", callback=checks_option(DEFAULT_CHECKS), metavar="NAMES",
    help=f"Checks to run, separated by commas. {listed_checks()}",
)  # fmt: skip
@click.option("--speed", is_flag=True, help="Run the check speed, too: how long each way to run the model takes.")
@click.option("--list-checks", is_flag=True, is_eager=True, expose_value=False, callback=list_checks,
              help="Print what each check does, and exit.")  # fmt: skip
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
    type=Amount(1, MOST_SECONDS),
    help="Seconds that a check may compute.",
)
@click.option("--jobs", "-j", default=1, show_default=True, type=click.IntRange(1), help="Cases checked at once.")
@click.option(
    "--executor", callback=executor_option, metavar="ray[:ADDRESS]",
    help="Check the cases on an existing Ray cluster whose machines have this folder, too. Default address: auto.",
)  # fmt: skip
@click.option("--case-cpus", type=Amount(0.1, 1e6),
              help="With --executor: processors that a case takes; 1 where not said.")  # fmt: skip
@click.option("--case-memory", type=Amount(0.1, MOST_GIB),
              help="With --executor: GiB that a case takes, and may take; 4 where not said.")  # fmt: skip
@click.option(
    "--isolation", default="auto", show_default=True, type=click.Choice(["auto", "server", "fork", "none"]),
    help="Where checks run: children of a worker server, children forked from this process, or this process.",
)  # fmt: skip
@click.option(
    "--variants", callback=names_option(VARIANTS, "variant", ()), metavar="NAMES",
    help=f"Check each case in these variants too, separated by commas: {', '.join(VARIANTS)}.",
)  # fmt: skip
@click.option(
    "--profile", "profiles", callback=names_option(PROFILES, "profile", ()), metavar="NAMES",
    help=f"Runtimes whose limits count in the check opset, separated by commas: {', '.join(PROFILES)}.",
)  # fmt: skip
@click.option(
    "--reload-python", "others", multiple=True, callback=pythons_option, metavar="PATH",
    help="An interpreter of another environment, with another torch, in which the check reload loads the program, too. "
    "May be repeated.",
)  # fmt: skip
@click.option(
    "--shard", callback=shard_option, metavar="I/N",
    help="Check the I-th of N parts of the cases; `exportlint report merge` puts the JSON files together.",
)  # fmt: skip
@click.option("--resume", is_flag=True, help="Go on with the same run where it was stopped.")
@click.option("--no-cache", is_flag=True, help="Neither use nor keep what earlier runs found out.")
@click.option(
    "--cache-dir",
    type=GivenPath(folder=True),
    metavar="FOLDER",
    help="Where that is kept.  [default: .exportlint_cache]",
)
@click.option(
    "--baseline", type=GivenPath(), metavar="FILE", help="An earlier run, in JSON: what got worse since is told."
)
@click.option(
    "--fail-on", type=click.Choice(["regression", "error", "warning", "none"]),
    help="What makes the exit status 1.  [default: regression with a baseline, else warning]",
)  # fmt: skip
@click.option("--fail-unchecked", is_flag=True, help="Let a check that did not run make the exit status 1, too.")
@click.option(
    "--suggest", is_flag=True,
    help="Print for each red case the patch of all fixes that apply, whether a patched copy of the project passes, and "
    "whether it computes the same.",
)  # fmt: skip
@click.option("--verbose", "-v", is_flag=True, help="Show every finding of severity info.")
def report(
    targets: tuple[str, ...],
    output: tuple[Path, ...],
    baseline: Path | None,
    fail_on: FailOn | None,
    fail_unchecked: bool,
    suggest: bool,
    verbose: bool,
    **given: Any,
) -> None:
    """Check the model cases of TARGETs and report whether they can be exported and run elsewhere.

    A TARGET is file.py, file.py:name, package.module, package.module:name, a folder, a model of a library: hf:TYPE,
    timm:NAME, torchvision:NAME, with wildcards; or a TOML file that lists targets.

    Exit status: 0 clean, 1 a finding of warning or error or a check that failed, 2 a TARGET that cannot be loaded.
    """
    from rich.console import Console

    from exportlint.report import terminal
    from exportlint.report.comparing import compare
    from exportlint.report.gate import status

    if fail_on == "regression" and baseline is None:
        raise click.UsageError("--fail-on regression needs --baseline, the run before")
    earlier = None if baseline is None else readiness_of(baseline)
    for name in ("SIGTERM", "SIGHUP"):  # as for Ctrl-C: children and temporary files go
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.default_int_handler)
    readiness, interrupted, unfinished = _run(targets, given)
    failures = write_all(readiness, output)
    if unfinished is not None and not interrupted and not failures:
        unfinished.finish()
    console = Console()
    terminal.render(readiness, console, verbose=verbose)
    comparison = None if earlier is None else compare(earlier, readiness)
    if comparison is not None:
        terminal.render_comparison(comparison, console)
    if suggest and not interrupted:
        _suggest(readiness, given)
    tell_written(output, failures)
    worst = fail_on or ("warning" if comparison is None else "regression")
    code = status(readiness, worst, comparison, unchecked_fails=fail_unchecked)
    sys.exit(130 if interrupted else 2 if failures else code)


def _suggest(readiness: Readiness, given: dict[str, Any]) -> None:
    """Print what the fixes make of red cases."""
    from exportlint.cli.suggesting import Trial, suggestions

    trial = Trial(given["examples"], given["timeout"], readiness.environment.devices, given["variants"])
    for suggestion in suggestions(readiness, trial):
        click.secho(f"{suggestion.case}: {suggestion.words}", bold=True, fg="green" if suggestion.mended else None)
        click.echo(suggestion.patch)


def _run(targets: tuple[str, ...], given: dict[str, Any]) -> tuple[Readiness, bool, Unfinished | None]:
    """Run the checks.

    Returns:
        The run, whether it was interrupted, and where its results are kept until the report is written.
    """
    from rich.console import Console

    from exportlint.checks.runner import Options
    from exportlint.checks.verdicts import Verdicts
    from exportlint.cli import report_session
    from exportlint.source.cache import FOLDER

    errors = Console(stderr=True)
    shard, resume, cache, without = (given.pop(key) for key in ("shard", "resume", "cache_dir", "no_cache"))
    cache = cache or Path(FOLDER)
    if resume and without:
        raise click.UsageError("--resume needs what --no-cache does not keep")
    if given.pop("speed"):
        given["checks"] = select_checks([*given["checks"], "speed"])
    if given["isolation"] in ("fork", "none"):
        given["jobs"] = 1  # neither is safe from several threads
    needs, executor = _needs(given), given.pop("executor")
    if executor is not None:
        _fits_executor(given)
        given["memory"] = needs[1]
    options = Options(**given)
    unfinished = None if without else _unfinished(cache, targets, options, shard)
    before = {} if unfinished is None else unfinished.start(resume=resume)
    if before and not resume:
        words = f"this run was stopped earlier, after {counted(len(before), 'case')}: --resume would go on there"
        errors.print(words, markup=False, highlight=False)
    pool = None if executor is None else _pool(executor, needs, options, None if without else cache)
    session = report_session.Session(
        errors, shard=shard, unfinished=unfinished, before=before if resume else {}, pool=pool
    )
    readiness, interrupted = report_session.run(targets, options, session, None if without else Verdicts(cache))
    if unfinished is not None and unfinished.trouble is not None:
        errors.print(unfinished.trouble, markup=False, highlight=False)
    return readiness, interrupted, unfinished


def _needs(given: dict[str, Any]) -> tuple[float, float]:
    """The processors and GiB that a case takes of a machine of the executor."""
    said = {name: given.pop(name) for name in ("case_cpus", "case_memory")}
    for name, value in said.items():
        if value is not None and given["executor"] is None:
            raise click.UsageError(f"--{name.replace('_', '-')} goes with --executor only")
    return said["case_cpus"] or 1.0, said["case_memory"] or 4.0


def _fits_executor(given: dict[str, Any]) -> None:
    """Refuse what an executor decides by itself."""
    if given["jobs"] != 1:
        raise click.UsageError("--jobs does not go with --executor: as many cases run at once as there is room for")
    if given["isolation"] in ("fork", "none"):
        raise click.UsageError(f"--isolation {given['isolation']} does not go with --executor")


def _pool(address: str, needs: tuple[float, float], options: Options, cache: Path | None) -> Pool:
    """Where the cases of a run are checked.

    Raises:
        Refused: When there is no such cluster.
    """
    from exportlint.checks.elsewhere import Pool
    from exportlint.checks.on_ray import Needs, NoClusterError, RayExecutor

    gpus = int(any(device.startswith("cuda") for device in options.devices))
    try:
        executor = RayExecutor(address, Needs(*needs, gpus))
    except NoClusterError as error:
        raise Refused(str(error)) from error
    return Pool(executor, options, str(Path.cwd()), None if cache is None else str(cache))


def _unfinished(cache: Path, targets: tuple[str, ...], options: Options, shard: Shard | None) -> Unfinished:
    import dataclasses

    from exportlint.checks.verdicts import surroundings
    from exportlint.report.unfinished import Unfinished

    asked = dataclasses.asdict(options)
    del asked["jobs"]  # changes no result
    asked |= {"targets": targets, "shard": str(shard), "folder": str(Path.cwd()), "surroundings": surroundings()}
    return Unfinished(cache / "unfinished", asked)


def write_all(readiness: Readiness, output: tuple[Path, ...]) -> dict[Path, OSError]:
    """Write the run to files, before anything is printed, since a reader may go away.

    Returns:
        What failed, by file.
    """
    from exportlint.report import write

    failures: dict[Path, OSError] = {}
    for path in output:
        try:
            write(readiness, path)
        except OSError as error:
            failures[path] = error
    return failures


def tell_written(output: tuple[Path, ...], failures: dict[Path, OSError]) -> None:
    """Say which files were written."""
    from rich.console import Console

    for path in output:
        if path in failures:
            words = f"error: {path} cannot be written: {failures[path].strerror or failures[path]}"
            Console(stderr=True).print(words, markup=False, highlight=False)
        else:
            Console().print(f"wrote {path}", markup=False, highlight=False)
