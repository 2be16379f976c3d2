"""Examples with their fixes written in, as `exportlint check --fix --unsafe-fixes` would write them."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from exportlint.findings import MODES
from exportlint.fixes.rounds import Fixed, fixed
from exportlint.source.engine import Options, Prediction, examine_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from exportlint.fixes.edits import Applicability

RULES = Path(__file__).parents[1] / "rules"
if str(RULES) not in sys.path:  # pytest has it there only once it collected that folder
    sys.path.append(str(RULES))

from cases import Case, cases  # noqa: E402

__all__ = ["ALONE", "EVERY", "RULES", "Case", "cases", "found", "mended"]
EVERY: tuple[Applicability, ...] = ("safe", "unsafe")
ALONE = Path("/nowhere/example.py")  # no project lies around it


def found(data: bytes) -> Sequence[Prediction]:
    """What is found in a text, judged in all modes."""
    return examine_text(ALONE, data, Options(modes=MODES)).predictions


@functools.cache
def mended(source: str, wanted: tuple[Applicability, ...] = EVERY) -> Fixed:
    """A text with its fixes."""
    data = source.encode()
    return fixed(data, found(data), found, wanted)
