"""``exportlint check``: lint source files."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from exportlint.findings import MODES, SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from exportlint.findings import Mode
    from exportlint.source.engine import Prediction, Unanalysed


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice(MODES),
    help="Capture mode that findings are judged for; repeatable. compile: torch.compile(fullgraph=True).  "
    "[default: export]",
)
@click.option("--output-format", type=click.Choice(["full", "json"]), default="full", show_default=True)
@click.option(
    "--fail-level",
    type=click.Choice(SEVERITIES),
    default="warning",
    show_default=True,
    help="Exit 1 from here up, shown or not.",
)
@click.option("--show-info", is_flag=True, help="Show findings of severity info: advice only.")
@click.option("--preview", is_flag=True, help="Turn on rules that are not stable yet (none at present).")
@click.option(
    "--module-base", "bases", multiple=True, help="Dotted name of a class that counts as a module; repeatable."
)
@click.option(
    "--tracing-predicate",
    "predicates",
    multiple=True,
    help="Dotted name of a function that says whether a model is being captured; repeatable.",
)
def check(
    paths: tuple[Path, ...],
    modes: tuple[str, ...],
    output_format: str,
    fail_level: str,
    show_info: bool,
    preview: bool,
    bases: tuple[str, ...],
    predicates: tuple[str, ...],
) -> None:
    """Lint Python files, and the Python files below folders, for what stops a model from being portable.

    Nothing that is read is imported or run. Exit status: 0 clean, 1 findings, 2 a path that does not exist.
    """
    from exportlint.source.discover import MissingPathError, discover
    from exportlint.source.engine import Options, examine

    chosen = cast("tuple[Mode, ...]", modes or ("export",))
    options = Options(
        modes=tuple(dict.fromkeys(chosen)),
        module_bases=frozenset(bases),
        tracing_predicates=frozenset(predicates),
        preview=preview,
    )
    try:
        linted = examine(paths, options)
    except MissingPathError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)
    for left_out in linted.unanalysed:
        click.echo(as_line(left_out), err=True)
    for path in paths:
        if not discover((path,)):
            click.echo(f"no Python files in {path}", err=True)
    found = linted.predictions
    shown = [p for p in found if p.severity != "info" or show_info]
    if output_format == "json":
        click.echo(json.dumps([as_json(p) for p in shown], indent=2))
    else:
        click.echo("\n".join([*map(as_paragraph, shown), closing(shown, len(linted.files), len(found) - len(shown))]))
    worst = SEVERITIES.index(fail_level)
    sys.exit(int(any(SEVERITIES.index(p.severity) <= worst for p in found)))


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
