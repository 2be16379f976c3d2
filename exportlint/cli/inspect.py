"""``exportlint inspect``: what saved models hold, without loading them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from exportlint.inspecting.description import Description


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--diff", is_flag=True, help="Compare two files; status 1 where they differ.")
@click.option("--verbose", "-v", is_flag=True, help="All tensors, operators and imports.")
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def inspect(files: tuple[str, ...], diff: bool, verbose: bool, output_format: str) -> None:
    """Tell what saved models hold, without loading them.

    FILE is a .pt2, .pt, .pth, .bin or .safetensors file; its content decides what it is. Nothing in it is unpickled,
    imported or run, so files of strangers may be looked into, and torch is not needed.

    Exit status: 0 clean, 1 findings, 2 a file that cannot be read.
    """
    if diff and len(files) != 2:
        raise click.UsageError(f"--diff compares two files, not {len(files)}")
    if diff and output_format == "json":
        raise click.UsageError("--diff prints text; there is no JSON of it")
    found = [description for name in files if (description := _inspected(name)) is not None]
    failed = len(found) < len(files)
    if diff:
        red = False if failed else _compare(*found)
    else:
        _show(found, verbose, output_format)
        red = any(finding.counts for description in found for finding in description.findings)
    sys.exit(2 if failed else int(red))


def _inspected(name: str) -> Description | None:
    from exportlint.inspecting import InspectError
    from exportlint.inspecting import inspect as look
    from exportlint.text import one_line, visible

    try:
        return look(name)
    except InspectError as error:
        click.echo(f"error: {visible(name)}: {one_line(visible(str(error)), 300)}", err=True)
        return None


def _show(found: list[Description], verbose: bool, output_format: str) -> None:
    import msgspec

    from exportlint.inspecting import shown
    from exportlint.text import encodable, map_strings

    if output_format == "json":
        encoded = msgspec.json.encode([map_strings(description, encodable) for description in found])
        click.echo(msgspec.json.format(encoded, indent=2).decode())
        return
    for number, description in enumerate(found):
        if number:
            click.echo()
        for line in shown.lines(description, verbose):
            click.echo(line)


def _compare(old: Description, new: Description) -> bool:
    from exportlint.inspecting import shown

    lines = shown.differences(old, new)
    for line in lines:
        click.echo(line)
    if not lines:
        click.echo("no difference in what is shown; the values of tensors are not compared")
    return bool(lines)
