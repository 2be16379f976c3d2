"""Commands that run again what failed, and nothing else."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from pytest_exportlint.ledger import MODELS
from pytest_exportlint.node_ids import plain_id

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

GIVEN = ("examples", "devices", "timeout", "isolation", "variants", "profile")  # options that change what a check finds


def of_item(item: pytest.Item, case: str, label: str) -> str:
    """The command for an item, as it was run now.

    Args:
        item: The item.
        case: The id of its case.
        label: Its check, with the device where it is for one.
    """
    if not item.nodeid.startswith(f"{MODELS}::"):
        return _command(item.config, [_from_here(item.config, plain_id(item))], GIVEN)
    check, _, device = label.partition("-")
    what = [f"--export-model={case.removeprefix(f'{MODELS}::')}", f"--export-checks={check}"]
    what += [f"--export-devices={device}"] * bool(device)
    return _command(item.config, what, (name for name in GIVEN if name != "devices"))


def of_test(item: pytest.Item) -> str:
    """The command for a test that uses the fixture, which may run any check."""
    return _command(item.config, [_from_here(item.config, plain_id(item))], ("checks", *GIVEN))


def of_observed(config: pytest.Config, callers: Iterable[str], case: str, check: str) -> str:
    """The command for a check of an observed class.

    Args:
        config: The session's.
        callers: The ids of the tests that made the case's calls: what varied between these is dynamic.
        case: What the case is called: the class, with a number where it is another configuration of it.
        check: Name of the check.
    """
    what = [
        *(_from_here(config, test) for test in callers),
        f"--export-observe={case.partition('-')[0]}",
        f"--export-checks={check}",
    ]
    return _command(config, what, GIVEN)


def _command(config: pytest.Config, what: list[str], names: Iterable[str]) -> str:
    values = {name: config.getoption(f"exportlint_{name}", None) for name in names}
    given = [f"--export-{name}={text}" for name, text in values.items() if text]
    pythons = config.getoption("exportlint_pythons", None) or ()
    return shlex.join(["pytest", *what, *given, *(f"--export-reload-python={python}" for python in pythons)])


def _from_here(config: pytest.Config, nodeid: str) -> str:
    """The id of a test, with its file relative to where pytest was called."""
    file, colons, rest = nodeid.partition("::")
    path, here = config.rootpath / file, config.invocation_params.dir
    shown = path.relative_to(here) if path.is_relative_to(here) else path
    return f"{shown}{colons}{rest}"
