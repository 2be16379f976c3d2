"""The command-line options of the plugin, and what they mean."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from exportlint.findings import CHECKS, DEVICES

if TYPE_CHECKING:
    from collections.abc import Iterable

ISOLATIONS = ("auto", "server", "fork", "none")
LEAST_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line asked for.

    Attributes:
        checks: Names of the checks, in the order in which they run.
        examples: Calls that hypothesis draws for each case.
        devices: Devices for the check ``device``.
        timeout: Seconds that one check may compute.
        isolation: Where checks run, one of `ISOLATIONS`.
    """

    checks: tuple[str, ...] = CHECKS
    examples: int = 20
    devices: tuple[str, ...] = ("second",)
    timeout: float = 300.0
    isolation: str = "auto"


DEFAULTS = Settings()
KEY = pytest.StashKey[Settings]()


def add(parser: pytest.Parser) -> None:
    """Add the options; values are read later, by `read`, so that a bad one is a message of one line."""
    group = parser.getgroup("exportlint", "exportlint: export, reload, move and reshape models")
    group.addoption(
        "--export-checks",
        dest="exportlint_checks",
        metavar="NAMES",
        help=f"Checks to run, separated by commas. Default: {','.join(CHECKS)}.",
    )
    group.addoption(
        "--export-examples",
        dest="exportlint_examples",
        metavar="N",
        help=f"Calls that the check shapes draws for each model. Default: {DEFAULTS.examples}.",
    )
    group.addoption(
        "--export-devices",
        dest="exportlint_devices",
        metavar="NAMES",
        help=f"Devices for the check device, separated by commas: {', '.join(DEVICES)}. Default: second, which needs "
        "no hardware.",
    )
    group.addoption(
        "--export-timeout",
        dest="exportlint_timeout",
        metavar="SECONDS",
        help=f"Seconds that one check may compute. Default: {DEFAULTS.timeout:g}.",
    )
    group.addoption(
        "--export-isolation",
        dest="exportlint_isolation",
        metavar="WHERE",
        help=f"Where checks run: {', '.join(ISOLATIONS)}. Default: auto, which is a child forked from pytest; "
        "none is pytest's own process, for debuggers.",
    )


def read(config: pytest.Config) -> Settings:
    """The values of the options.

    Raises:
        pytest.UsageError: When a value is none that the option takes.
    """
    return Settings(
        checks=_checks(config.getoption("exportlint_checks")),
        examples=_examples(config.getoption("exportlint_examples")),
        devices=_devices(config.getoption("exportlint_devices")),
        timeout=_timeout(config.getoption("exportlint_timeout")),
        isolation=_isolation(config.getoption("exportlint_isolation")),
    )


def select(names: Iterable[str]) -> tuple[str, ...]:
    """The checks of these names, in the order in which they run.

    Raises:
        ValueError: When a name is not that of a check, or there is none.
    """
    __tracebackhide__ = True
    wanted = list(names)
    known = f"known: {', '.join(CHECKS)}"
    for name in wanted:
        if name not in CHECKS:
            raise ValueError(f"{name!r} is no check; {known}")
    if not wanted:
        raise ValueError(f"no check is named; {known}")
    return tuple(name for name in CHECKS if name in wanted)


def _checks(value: str | None) -> tuple[str, ...]:
    if value is None:
        return DEFAULTS.checks
    try:
        return select(name.strip() for name in value.split(",") if name.strip())
    except ValueError as error:
        raise pytest.UsageError(f"--export-checks: {error}") from None


def _devices(value: str | None) -> tuple[str, ...]:
    if value is None:
        return DEFAULTS.devices
    names = [name.strip() for name in value.split(",") if name.strip()]
    unknown = next((name for name in names if name not in DEVICES), None)
    if unknown is not None or not names:
        said = "names no device" if unknown is None else f"{unknown!r} is no device"
        raise pytest.UsageError(f"--export-devices: {said}; known: {', '.join(DEVICES)}")
    return tuple(name for name in DEVICES if name in names)


def _examples(value: str | None) -> int:
    if value is None:
        return DEFAULTS.examples
    # int() also takes " 1_0 ", which is no number to anyone else
    if not (value.isascii() and value.isdigit()):
        raise pytest.UsageError(f"--export-examples: {value!r} is no whole number of at least 0")
    return int(value)


def _timeout(value: str | None) -> float:
    if value is None:
        return DEFAULTS.timeout
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds >= LEAST_SECONDS):
        raise pytest.UsageError(f"--export-timeout: {value!r} is no number of seconds of at least {LEAST_SECONDS:g}")
    return seconds


def _isolation(value: str | None) -> str:
    if value is None:
        return DEFAULTS.isolation
    if value not in ISOLATIONS:
        raise pytest.UsageError(f"--export-isolation: {value!r} is none of {', '.join(ISOLATIONS)}")
    return value
