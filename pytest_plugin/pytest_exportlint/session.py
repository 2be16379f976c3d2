"""The runner that everything in one pytest session shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from pytest_exportlint import options

if TYPE_CHECKING:
    from exportlint.checks.runner import Isolation, Runner

RUNNER = pytest.StashKey["Runner"]()


def runner(config: pytest.Config) -> Runner:
    """The runner of the session, made at the first call; its processes end with the session, also after Ctrl-C.

    Raises:
        MissingRequirementError: When something that the checks need is not there.
    """
    from exportlint.checks import requirements

    if RUNNER not in config.stash:
        requirements.require()
        config.stash[RUNNER] = made = _make(config.stash[options.KEY])
        config.add_cleanup(made.close)
    return config.stash[RUNNER]


def _make(settings: options.Settings) -> Runner:
    from exportlint.checks.runner import Options, Runner

    return Runner(
        Options(
            checks=settings.checks,
            examples=settings.examples,
            devices=settings.devices,
            timeout=settings.timeout,
            isolation=cast("Isolation", settings.isolation),
        )
    )
