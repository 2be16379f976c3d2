"""``python -m exportlint.zoo``: list the models of the zoo, and check many of them."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from exportlint import zoo
from exportlint.cli import OneLineGroup
from exportlint.cli.paths import GivenPath
from exportlint.cli.report_options import MOST_GIB, MOST_SECONDS, Amount, checks_option, devices_option, output_file

if TYPE_CHECKING:
    from pathlib import Path

CHECKS = ("capture", "device", "twins", "state")


@click.group(cls=OneLineGroup)
def main() -> None:
    """Models of transformers, timm and torchvision from small configs with random weights."""


@main.command("names")
@click.argument("patterns", nargs=-1, required=True, metavar="SOURCE:PATTERN...")
def list_names(patterns: tuple[str, ...]) -> None:
    """Print the models that patterns such as 'hf:*bert*' stand for."""
    for pattern in patterns:
        try:
            if not zoo.is_specification(pattern):
                raise zoo.ZooError(f"{pattern!r} is no pattern: write one of hf:PATTERN, timm:..., torchvision:...")
            click.echo("\n".join(zoo.names(pattern)))
        except zoo.ZooError as error:
            _stop(error)


@main.command("run")
@click.argument("targets", nargs=-1, metavar="SOURCE:PATTERN...")
@click.option("--list", "listed", type=GivenPath(), metavar="FILE", help="Further models, one a line.")
@click.option(
    "--output", "-o", required=True, metavar="FILE.jsonl",
    help="One line of JSON a model is added here; models that are there already are skipped.",
)  # fmt: skip
@click.option("--checks", callback=checks_option(CHECKS), metavar="NAMES", show_default=True,
              help=f"Checks, separated by commas. Default: {','.join(CHECKS)}.")  # fmt: skip
@click.option("--devices", callback=devices_option, metavar="NAMES",
              help="Devices for the check device. Default: second.")  # fmt: skip
@click.option("--timeout", default=120.0, show_default=True, type=Amount(1, MOST_SECONDS),
              help="Seconds that a check may compute.")  # fmt: skip
@click.option("--examples", default=5, show_default=True, type=click.IntRange(0), help="Calls that hypothesis draws.")
@click.option("--jobs", "-j", default=1, show_default=True, type=click.IntRange(1), help="Models checked at once.")
@click.option("--memory", default=10.0, show_default=True, type=Amount(0.5, MOST_GIB),
              help="GiB that the models checked at once may take together.")  # fmt: skip
def check_models(targets: tuple[str, ...], listed: Path | None, output: str, **options: Any) -> None:
    """Check models one by one; a run that was stopped goes on where it was.

    Exit status: 0 when every model was checked, whatever was found, 2 when a name stands for nothing.
    """
    from exportlint.checks.runner import Options
    from exportlint.zoo.run import Lines, NoModelError, alone, run

    for name in ("SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.default_int_handler)
    places: dict[str, str] = {}
    try:
        path = output_file(output, (".jsonl",))
        places = {} if listed is None else _lines(listed)
        wanted = [*targets, *places]
        if not wanted:
            raise zoo.ZooError("no model is named")
        options["memory"] /= options["jobs"]
        with alone(path):
            failed = run(wanted, Options(**options), Lines(path), lambda words: print(words, flush=True))
    except KeyboardInterrupt:
        sys.exit(130)
    except NoModelError as error:
        place = None if error.target in targets else places.get(error.target)
        _stop(zoo.ZooError(f"{place}: {error}") if place else error)
    except (zoo.ZooError, ValueError, OSError) as error:
        _stop(error)
    sys.exit(2 if failed else 0)


def _lines(listed: Path) -> dict[str, str]:
    """The targets of a list, each with its place there.

    Raises:
        zoo.ZooError: When the file cannot be read.
    """
    try:
        data = listed.read_bytes()
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        raise zoo.ZooError(f"{listed}:{number} is not UTF-8") from error
    except OSError as error:
        raise zoo.ZooError(f"{listed}: {error.strerror}") from error
    found: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        target = line.partition("#")[0].strip()
        if target:
            found.setdefault(target, f"{listed}:{number}")
    return found


def _stop(error: Exception) -> None:
    click.echo(f"error: {error}".splitlines()[0], err=True)
    sys.exit(2)


if __name__ == "__main__":
    main(prog_name="python -m exportlint.zoo")
