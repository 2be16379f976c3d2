"""``exportlint check``: lint source files."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from exportlint.findings import SEVERITIES
from exportlint.rules.base import MODES

if TYPE_CHECKING:
    from exportlint.rules.base import Mode
    from exportlint.source.engine import Prediction, Unanalysed


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--mode", "modes", multiple=True, type=click.Choice(MODES), help="Capture mode; repeatable.")
@click.option("--output-format", type=click.Choice(["full", "json"]), default="full", show_default=True)
@click.option(
    "--fail-level", type=click.Choice(SEVERITIES), default="warning", show_default=True, help="Exit 1 from here up."
)
@click.option("--show-info", is_flag=True, help="Show findings that are advice only.")
@click.option("--preview", is_flag=True, help="Turn on rules that are not stable yet.")
@click.option(
    "--module-base", "bases", multiple=True, help="Dotted name of a class that counts as a module; repeatable."
)
def check(
    paths: tuple[Path, ...],
    modes: tuple[str, ...],
    output_format: str,
    fail_level: str,
    show_info: bool,
    preview: bool,
    bases: tuple[str, ...],
) -> None:
    """Lint Python files, and the Python files below folders, for what stops a model from being portable.

    Nothing that is read is imported or run. Exit status: 0 clean, 1 findings, 2 a path that does not exist.
    """
    from exportlint.source.discover import MissingPathError
    from exportlint.source.engine import Options, examine

    chosen = cast("tuple[Mode, ...]", modes or ("export",))
    options = Options(modes=tuple(dict.fromkeys(chosen)), module_bases=frozenset(bases), preview=preview)
    try:
        linted = examine(paths, options)
    except MissingPathError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)
    for left_out in linted.unanalysed:
        click.echo(as_line(left_out), err=True)
    shown = [p for p in linted.predictions if p.severity != "info" or show_info]
    click.echo(json.dumps([as_json(p) for p in shown], indent=2) if output_format == "json" else as_text(shown))
    worst = SEVERITIES.index(fail_level)
    sys.exit(int(any(SEVERITIES.index(p.severity) <= worst for p in shown)))


def as_line(left_out: Unanalysed) -> str:
    """What could not be analysed, and why, in one line."""
    from exportlint.places import display_path

    what = {"": "the file", "build": "the model of build()"}.get(left_out.name, f"class {left_out.name}")
    return f"{display_path(str(left_out.path))}: {what} was not analysed: {left_out.reason}"


def as_json(prediction: Prediction) -> dict[str, Any]:
    """The finding with the field names of Ruff's JSON, and `severity`, `rule` and `outcomes` besides."""
    place = prediction.range
    return {
        "code": prediction.rule.code,
        "rule": prediction.rule.name,
        "message": prediction.message,
        "severity": prediction.severity,
        "outcomes": dict(prediction.outcomes),
        "filename": str(prediction.path.absolute()),
        "location": {"row": place.line, "column": place.column},
        "end_location": {"row": place.end_line, "column": place.end_column},
        "fix": None,
        "url": None,
        "noqa_row": place.line,
    }


def as_text(found: list[Prediction]) -> str:
    """One paragraph a finding, and a line that counts them."""
    from exportlint.places import display_path

    paragraphs = []
    for p in found:
        file = display_path(str(p.path))
        head = f"{file}:{p.range.line}:{p.range.column}: {p.severity}: {p.rule.code} {p.rule.name}: {p.message}"
        paragraphs.append(f"{head}\n    {p.rewrite}")
    counts = Counter(p.severity for p in found)
    total = ", ".join(f"{n} {s}{'s' if n > 1 and s != 'info' else ''}" for s in SEVERITIES if (n := counts[s]))
    return "\n".join([*paragraphs, f"Found {total}." if total else "No findings."])
