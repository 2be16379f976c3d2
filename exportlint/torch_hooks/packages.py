"""One file with the programs of several methods.

torch has no public function for it: `torch.export.save` takes one program.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torch.export import ExportedProgram


def why_not() -> str | None:
    """Why programs cannot be saved together with this torch; ``None`` where they can."""
    try:
        save, load = _functions()
    except (ImportError, AttributeError) as error:
        return f"this torch lacks it: {error}"
    if "exported_programs" not in inspect.signature(save).parameters or not inspect.signature(load).parameters:
        return "this torch asks for other arguments"
    return None


def save(programs: Mapping[str, ExportedProgram], file: Path) -> None:
    """Save the programs under their names."""
    _functions()[0](str(file), exported_programs=dict(programs))


def load(file: Path) -> dict[str, ExportedProgram]:
    """The programs in a file, by name."""
    found: dict[str, ExportedProgram] = _functions()[1](str(file)).exported_programs
    return found


def _functions() -> tuple[Any, Any]:
    from torch.export.pt2_archive import _package

    return _package.package_pt2, _package.load_pt2
