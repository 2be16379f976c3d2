"""What a run was made with, as reports say it."""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
from typing import TYPE_CHECKING

from exportlint._version import __version__
from exportlint.findings import Environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PACKAGES = ("transformers", "timm", "torchvision")  # that models of the zoo come from


def environment(
    *,
    checks: Sequence[str],
    devices: Sequence[str],
    examples: int,
    isolation: str,
    notes: Iterable[str] = (),
    shard: str = "",
) -> Environment:
    """The environment of a run that was asked for these.

    Args:
        checks: Names of the checks.
        devices: Devices for the check ``device``.
        examples: Calls that hypothesis draws for each case.
        isolation: Where checks were to run.
        notes: What else there is to say of how they ran.
        shard: Which part of all cases it is about, as ``2/3``.
    """
    return Environment(
        exportlint=__version__,
        python=platform.python_version(),
        torch=version("torch"),
        platform=platform.platform(),
        date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        isolation="; ".join([isolation, *notes]),
        devices=tuple(devices),
        checks=tuple(checks),
        examples=examples,
        shard=shard,
        packages=tuple(f"{name} {found}" for name in PACKAGES if (found := version(name)) is not None),
    )


def version(package: str) -> str | None:
    """The installed version of a package; ``None`` where there is none."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
