"""Findings as JSON, one a line, with the fields of the format ``json``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from exportlint.formats.json_file import as_json

if TYPE_CHECKING:
    from exportlint.formats import Results


def render(results: Results) -> str:
    """A line a finding; nothing where there is none."""
    return "".join(json.dumps(finding) + "\n" for finding in as_json(results))
