"""What ``exportlint check`` prints: one module a format, imported when it is used, each with a function ``render``."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from exportlint.fixes.shown import ShownFixes
from exportlint.linting.excerpts import Excerpts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exportlint.fixes.edits import Applicability
    from exportlint.source.engine import Prediction, Unanalysed

FORMATS: Mapping[str, str] = MappingProxyType(
    {
        "full": "full",
        "concise": "concise",
        "grouped": "grouped",
        "json": "json_file",
        "json-lines": "json_lines",
        "sarif": "sarif",
        "github": "github",
        "gitlab": "gitlab",
        "junit": "junit",
        "pylint": "pylint",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What is to be shown.

    Attributes:
        shown: Findings in the order of files and lines.
        hidden: How many findings of severity ``info`` are not shown.
        files: How many files were linted.
        unanalysed: What could not be analysed.
        excerpts: The lines of the files.
        colour: Whether the reader sees colours.
        offered: Fixes that a further run could write.
        fixes: Which of them fit the code.
    """

    shown: tuple[Prediction, ...] = ()
    hidden: int = 0
    files: int = 0
    unanalysed: tuple[Unanalysed, ...] = ()
    excerpts: Excerpts = field(default_factory=Excerpts)
    colour: bool = False
    offered: tuple[Applicability, ...] = ("safe", "unsafe")
    fixes: ShownFixes = field(default_factory=ShownFixes)


def render(name: str, results: Results) -> str:
    """The results in a format, with a newline at the end.

    Raises:
        KeyError: When there is no such format.
    """
    text: str = importlib.import_module(f"{__name__}.{FORMATS[name]}").render(results)
    return text
