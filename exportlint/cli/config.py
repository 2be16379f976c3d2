"""``exportlint config``: which settings hold for a file or folder, and where each was set."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from exportlint.cli.lint_options import resolver, settings_options
from exportlint.cli.paths import GivenPath

if TYPE_CHECKING:
    from pathlib import Path

    from exportlint.linting.settings import Settings


@click.command()
@click.argument("path", default=".", type=GivenPath())
@click.option("--output-format", type=click.Choice(["full", "json"]), default="full", show_default=True)
@settings_options
def config(path: Path, output_format: str, **given: Any) -> None:
    """Print the settings of the linter that hold for PATH, and where each comes from."""
    from exportlint.config import UserError

    try:
        found = resolver(given)
        settings = found.of(path) if path.is_dir() else found.of_file(path)
    except UserError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)
    if not path.exists():
        click.echo(f"error: {path}: no such file or folder", err=True)
        sys.exit(2)
    rows = values(settings)
    if output_format == "json":
        click.echo(json.dumps({key: {"value": value, "from": place} for key, value, place in rows}, indent=2))
        return
    width = max(len(f"{key} = {json.dumps(value)}") for key, value, _ in rows)
    click.echo(
        "\n".join(f"{f'{key} = {json.dumps(value)}':<{min(width, 80)}}  # {place}" for key, value, place in rows)
    )


def values(settings: Settings) -> list[tuple[str, Any, str]]:
    """Each key of the configuration with its value and where that was set; then the codes that are on."""
    from exportlint.linting.settings import DEFAULT, NAMES, SELECTING, field_of, key_of
    from exportlint.places import display_path
    from exportlint.rules import catalogue

    rows: list[tuple[str, Any, str]] = []
    for name in map(field_of, SELECTING):
        layers = [getattr(layer, name) for layer in settings.layers if getattr(layer, name)]
        chosen: Any = [each for layer in layers for each in layer] if name != "select" else [*layers[-1:]]
        rows.append((name, chosen if name != "select" else list(chosen[0]) if chosen else ["ALL"], ""))
    for name in NAMES:
        value: Any = getattr(settings, name)
        if name == "per_file_ignores":
            value = {pattern: list(selectors) for pattern, selectors in value}
        elif name == "torch_version":
            value = value and ".".join(map(str, value))
        rows.append((name, list(value) if isinstance(value, tuple) else value, ""))
    places = [settings.origins.get(name, DEFAULT) for name, _, _ in rows]
    shown = [_shown(place, display_path) for place in places]
    rows = [(key_of(name), value, place) for (name, value, _), place in zip(rows, shown, strict=True)]
    codes = sorted(settings.codes)
    return [*rows, ("rules", "ALL" if len(codes) == len(catalogue()) else codes, "select, extend-select and ignore")]


def _shown(place: str, display: Any) -> str:
    file, colon, line = place.rpartition(":")
    return f"{display(file)}:{line}" if colon and line.isdigit() else place
