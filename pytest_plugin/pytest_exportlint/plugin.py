"""The pytest plugin: wires options and fixtures to pytest.

Starting it imports neither torch nor libcst nor hypothesis nor a check, and it changes no collection by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_exportlint import options
from pytest_exportlint.fixtures import export_check

if TYPE_CHECKING:
    import pytest

__all__ = ["export_check"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the group ``exportlint``."""
    options.add(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Read the options, so that a bad value ends the run before the first test."""
    config.stash[options.KEY] = options.read(config)
