"""``exportlint report merge``: one report of the parts that several machines made."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from exportlint.cli.paths import GivenPath
from exportlint.cli.report import tell_written, write_all
from exportlint.cli.report_options import Refused, output_option, readiness_of

if TYPE_CHECKING:
    from pathlib import Path


@click.command("report merge")
@click.argument("files", nargs=-1, required=True, type=GivenPath(), metavar="FILE...")
@output_option(required=True)
@click.option("--verbose", "-v", is_flag=True, help="Show every finding of severity info.")
def report_merge(files: tuple[Path, ...], output: tuple[Path, ...], verbose: bool) -> None:
    """Put the JSON FILEs together that `exportlint report --shard` wrote, or runs over different TARGETs.

    All parts must be there, and made with the same versions and options.

    Exit status: as that of the whole run would be; 2 where the files are no parts of one run.
    """
    from rich.console import Console

    from exportlint.report import terminal
    from exportlint.report.sharding import MergeError, merge

    runs = {file: readiness_of(file) for file in files}
    try:
        readiness = merge(runs)
    except MergeError as error:
        raise Refused(str(error)) from error
    failures = write_all(readiness, output)
    terminal.render(readiness, Console(), verbose=verbose)
    tell_written(output, failures)
    sys.exit(2 if failures else readiness.status)
