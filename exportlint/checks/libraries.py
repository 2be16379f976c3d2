"""Libraries that a case imports only while it is checked: imported once for the later cases of its target.

A factory may import nothing before it is called, and then take longer for that than for the model.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import sysconfig
from typing import TYPE_CHECKING, Any

from exportlint.checks import jobs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exportlint.checks.isolation.job import Emit


def check_named(emit: Emit, **arguments: Any) -> None:
    """`jobs.check_named`; then send the modules of libraries that it imported, in the order in which they began.

    None where the environment changed meanwhile: to import them before that might be another thing.
    """
    before, environment = set(sys.modules), _environment()
    jobs.check_named(emit, **arguments)
    if _environment() == environment:
        emit({"libraries": [name for name in list(sys.modules) if name not in before and _is_library(name)]})


def prepare(emit: Emit, target: str, libraries: Iterable[str], *, record: bool) -> None:
    """`jobs.prepare`; then import these modules, as far as they can be imported by themselves."""
    jobs.prepare(emit, target, record=record)
    for name in libraries:
        with contextlib.suppress(Exception, SystemExit):
            importlib.import_module(name)


def _environment() -> dict[str, str]:
    """The variables, without those that torch gives itself."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TORCHINDUCTOR_")}


def _is_library(name: str) -> bool:
    """Whether a module was installed, and can be imported by this name."""
    spec = getattr(sys.modules[name], "__spec__", None)
    file = getattr(spec, "origin", None)
    roots = tuple({sysconfig.get_path(kind) + os.sep for kind in ("purelib", "platlib")})
    return spec is not None and spec.name == name and isinstance(file, str) and file.startswith(roots)
