"""Options of ``exportlint check`` that say how the work is done and change no finding."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from exportlint.cli.paths import GivenPath

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from exportlint.linting.settings import Resolver
    from exportlint.source.engine import Effort

Command = TypeVar("Command", bound="Callable[..., Any]")


class Jobs(click.ParamType[int]):
    """A number of processes, or ``auto``."""

    name = "jobs"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; as many as there are processors for ``auto``."""
        from exportlint.processors import processors

        if value == "auto":
            return processors()
        if not str(value).isdigit() or int(value) < 1:
            self.fail(f"{value!r} is neither a number from 1 nor auto", param, ctx)
        return int(value)


OPTIONS = (
    click.option(
        "--jobs", "-j", type=Jobs(), default="auto", show_default=True, metavar="N|auto", help="Processes at work."
    ),
    click.option("--no-cache", is_flag=True, help="Neither use nor keep what earlier runs found out."),
    click.option(
        "--cache-dir",
        type=GivenPath(folder=True),
        metavar="FOLDER",
        help="Where that is kept.  [default: .exportlint_cache beside the configuration file]",
    ),
    click.option(
        "--profile-rules", is_flag=True, help="Tell the CPU time that each rule takes; one process, without the cache."
    ),
)


def effort_options(command: Command) -> Command:
    """Add the options to a command."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def effort_of(given: Mapping[str, Any], settings: Resolver) -> Effort:
    """What the options ask for."""
    from exportlint.source.engine import Effort

    if given["profile_rules"]:
        return Effort(seconds={})
    folder = given["cache_dir"] or _beside_configuration(settings)
    return Effort(cache=None if given["no_cache"] else folder, jobs=given["jobs"])


def _beside_configuration(settings: Resolver) -> Path | None:
    """The folder of the cache; none where the configuration of the working directory means nothing."""
    from exportlint.config import ConfigError
    from exportlint.source.cache import FOLDER

    try:
        return settings.of(Path.cwd()).root / FOLDER
    except ConfigError:  # the linted files may have another
        return None


def profile(seconds: Mapping[str, float]) -> str:
    """The CPU time of each rule, the slowest first, and that of the whole process."""
    from exportlint.rules import catalogue

    total = time.process_time()
    rows = [(spent, f"{code} {catalogue()[code].name}") for code, spent in seconds.items()]
    rows = [*sorted(rows, reverse=True), (sum(seconds.values()), "all rules"), (total, "the whole run")]
    return "\n".join(f"{spent:8.3f} s {spent / total:6.1%}  {name}" for spent, name in rows)
