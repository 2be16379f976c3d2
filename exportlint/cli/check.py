"""``exportlint check``: lint source files."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from exportlint.cli.lint_options import resolver, settings_options
from exportlint.findings import SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from exportlint.settings import Resolver
    from exportlint.source.engine import Prediction, Unanalysed


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--output-format", type=click.Choice(["full", "json"]), default="full", show_default=True)
@click.option("--show-files", is_flag=True, help="Print the files that would be linted, and lint none.")
@click.option("--exit-zero", is_flag=True, help="Exit 0 whatever is found.")
@settings_options
def check(paths: tuple[Path, ...], output_format: str, show_files: bool, exit_zero: bool, **given: Any) -> None:
    """Lint Python files, and the Python files below folders, for what stops a model from being portable.

    Nothing that is read is imported or run. Without PATHS, the working directory is linted. Exit status: 0 clean,
    1 findings, 2 a path that does not exist, or settings that mean nothing.
    """
    from exportlint.config import ConfigError
    from exportlint.source.discover import MissingPathError

    try:
        status = _run(paths or (Path(),), output_format, show_files, resolver(given))
    except (MissingPathError, ConfigError, ValueError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)
    sys.exit(0 if exit_zero else status)


def _run(paths: tuple[Path, ...], output_format: str, show_files: bool, settings: Resolver) -> int:
    from exportlint.discovery import discover
    from exportlint.linting import check_files

    files = discover(paths, settings)
    if show_files:
        click.echo("".join(f"{file}\n" for file in files), nl=False)
        return 0
    checked = check_files(files, settings)
    for left_out in checked.unanalysed:
        click.echo(as_line(left_out), err=True)
    for path in paths:
        if path.is_dir() and not any(file.is_relative_to(path) for file in files):
            click.echo(f"no Python files in {path}", err=True)
    shown = [p for p in checked.predictions if p.severity != "info" or settings.of_file(p.path).show_info]
    if output_format == "json":
        click.echo(json.dumps([as_json(p) for p in shown], indent=2))
    else:
        hidden = len(checked.predictions) - len(shown)
        click.echo("\n".join([*map(as_paragraph, shown), closing(shown, len(files), hidden)]))
    return int(any(settings.of_file(p.path).fails(p.severity) for p in checked.predictions))


def as_line(left_out: Unanalysed) -> str:
    """What could not be analysed, and why, in one line."""
    from exportlint.places import display_path

    return f"{display_path(str(left_out.path))}: {left_out.words}"


def as_json(prediction: Prediction) -> dict[str, Any]:
    """The finding with the field names of Ruff's JSON, and `severity`, `rule`, `rewrite` and `outcomes` besides."""
    place = prediction.range
    return {
        "code": prediction.rule.code,
        "rule": prediction.rule.name,
        "message": prediction.message,
        "rewrite": prediction.rewrite,
        "severity": prediction.severity,
        "outcomes": dict(prediction.outcomes),
        "filename": str(prediction.path.absolute()),
        "location": {"row": place.line, "column": place.column},
        "end_location": {"row": place.end_line, "column": place.end_column},
        "fix": None,
        "url": None,
        "noqa_row": place.line,
    }


def as_paragraph(p: Prediction) -> str:
    """The finding in one line, and its rewrite in another."""
    from exportlint.places import display_path

    file = display_path(str(p.path))
    head = f"{file}:{p.range.line}:{p.range.column}: {p.severity}: {p.rule.code} {p.rule.name}: {p.message}"
    return f"{head}\n    {p.rewrite}"


def closing(shown: Sequence[Prediction], files: int, hidden: int) -> str:
    """The last line: how many files were checked, what was found in them, and how many findings are not shown."""
    counts = Counter(p.severity for p in shown)
    found = ", ".join(f"{n} {s}{'s' if n > 1 and s != 'info' else ''}" for s in SEVERITIES if (n := counts[s]))
    more = f" ({hidden} info hidden, see --show-info)" if hidden else ""
    return f"{files} file{'' if files == 1 else 's'} checked, {found or 'no findings'}{more}"
