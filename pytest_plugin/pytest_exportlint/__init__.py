"""The pytest plugin of exportlint: model cases as tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_exportlint.suite import ExportSuite

__all__ = ["ExportSuite"]


def __getattr__(name: str) -> Any:
    """The public class, loaded when it is first used: pytest imports this package at every start."""
    if name != "ExportSuite":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pytest_exportlint.suite import ExportSuite

    return ExportSuite
