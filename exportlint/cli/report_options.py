"""Values of options that the report's commands and the zoo's take."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from exportlint.findings import CHECK_KINDS, CHECKS, select_checks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from exportlint.checks.other_python import OtherPython
    from exportlint.findings import Readiness
    from exportlint.report.sharding import Shard

F = TypeVar("F", bound="Callable[..., Any]")
MOST_SECONDS = 1e7
MOST_GIB = 1e6


def checks_option(default: tuple[str, ...]) -> Callable[..., tuple[str, ...]]:
    """A click callback for names of checks separated by commas."""

    def parse(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
        try:
            return default if value is None else select_checks(_names(value))
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from error

    return parse


def list_checks(ctx: click.Context, param: click.Parameter, asked: bool) -> None:
    """Print what each check does, and exit."""
    if not asked:
        return
    width = max(map(len, CHECKS)) + 1
    for kind in CHECK_KINDS:
        click.echo(f"{kind.name:{width}} {kind.does}{' (only by name)' if kind.optional else ''}")
    ctx.exit()


def _names(value: str) -> list[str]:
    return [name.strip() for name in value.split(",") if name.strip()]


def names_option(known: tuple[str, ...], what: str, default: tuple[str, ...]) -> Callable[..., tuple[str, ...]]:
    """A click callback for a list of names separated by commas."""

    def parse(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
        if value is None:
            return default
        names = _names(value)
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
        return device_names.select(_names("second" if value is None else value))
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error


def pythons_option(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[OtherPython, ...]:
    """A click callback for interpreters of other environments."""
    from exportlint.checks import other_python

    try:
        return tuple(map(other_python.identify, value))
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error


class Amount(click.FloatRange):
    """A range of numbers; NaN, which compares with nothing, lies outside."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number, where it lies in the range."""
        amount: float = super().convert(value, param, ctx)
        if math.isnan(amount):
            self.fail(f"{amount} is not in the range {self._describe_range()}.", param, ctx)
        return amount


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


def output_option(*, required: bool = False) -> Callable[[F], F]:
    """The option for files in which a report is written."""
    return click.option(
        "--output", "-o", multiple=True, required=required, callback=_output, metavar="FILE",
        help="Write the report here; the suffix (.json, .md, .html, .sarif, .xml) is the format. May be repeated.",
    )  # fmt: skip


def shard_option(ctx: click.Context, param: click.Parameter, value: str | None) -> Shard | None:
    """A click callback for a part of a run, such as ``2/3``."""
    from exportlint.report.sharding import Shard

    try:
        return None if value is None else Shard.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error


def executor_option(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A click callback for ``ray`` or ``ray:ADDRESS``: the address."""
    kind, _, address = (value or "").partition(":")
    if value is not None and (kind != "ray" or value == "ray:"):
        raise click.BadParameter(f"{value!r} is no executor: write ray, or ray:ADDRESS", ctx, param)
    return None if value is None else address or "auto"


def readiness_of(path: Path) -> Readiness:
    """The run that a JSON file holds.

    Raises:
        click.ClickException: When it holds none, in one line; with exit status 2.
    """
    from exportlint.report import read

    try:
        return read(path)
    except ValueError as error:
        raise Refused(str(error)) from error
    except OSError as error:
        raise Refused(f"{path}: {error.strerror or error}") from error


class Refused(click.ClickException):
    """What was asked for cannot be done; the message is one line."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        """Print it as all other errors are."""
        click.echo(f"error: {self.message}", err=True)
