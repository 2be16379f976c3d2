"""``exportlint report diff``: what changed from one run to another."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from exportlint.cli.paths import GivenPath
from exportlint.cli.report_options import readiness_of

if TYPE_CHECKING:
    from pathlib import Path


@click.command("report diff")
@click.argument("old", type=GivenPath())
@click.argument("new", type=GivenPath())
@click.option(
    "--output-format", type=click.Choice(["text", "markdown", "json"]), default="text", show_default=True,
    help="How it is printed.",
)  # fmt: skip
def report_diff(old: Path, new: Path, output_format: str) -> None:
    """Tell what changed from the run OLD to the run NEW, both in JSON.

    The runs may be of different versions of torch: what does upgrading break?

    Exit status: 0 where nothing got worse, 1 for a regression, 2 where a file holds no run.
    """
    from rich.console import Console

    from exportlint.report import json_file, markdown, terminal
    from exportlint.report.comparing import compare

    comparison = compare(readiness_of(old), readiness_of(new))
    if output_format == "text":
        terminal.render_comparison(comparison, Console())
    else:
        render = markdown.render_comparison if output_format == "markdown" else json_file.render_comparison
        click.echo(render(comparison), nl=False)
    sys.exit(int(bool(comparison.regressions)))
