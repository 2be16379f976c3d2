"""exportlint: the export portability linter and test framework for PyTorch.

Importing this package imports no torch; the public names are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from exportlint._version import __version__

if TYPE_CHECKING:
    from exportlint.checks.case import Method, ModelCase, Moment, Step, Tolerance, export_case
    from exportlint.linting.linter import check_paths, check_source
    from exportlint.patching import patched

__all__ = [
    "Method",
    "ModelCase",
    "Moment",
    "Step",
    "Tolerance",
    "__version__",
    "check_paths",
    "check_source",
    "export_case",
    "patched",
]

_HOME = dict.fromkeys(("Method", "ModelCase", "Moment", "Step", "Tolerance", "export_case"), "exportlint.checks.case")
_HOME |= dict.fromkeys(("check_paths", "check_source"), "exportlint.linting.linter")
_HOME["patched"] = "exportlint.patching"


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
