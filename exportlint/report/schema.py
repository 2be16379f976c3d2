"""The JSON Schema of a run.

``python -m exportlint.report.schema`` writes ``schema.json`` anew, which ships with the package.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from exportlint.findings import SCHEMA_VERSION, Readiness

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def load() -> dict[str, Any]:
    """The schema that ships with the package."""
    text = resources.files(__package__).joinpath("schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def generate() -> dict[str, Any]:
    """The schema of `Readiness` as it is in this source."""
    (root,), components = msgspec.json.schema_components([Readiness], ref_template="#/$defs/{name}")
    for component in components.values():
        component["description"] = str(component.get("description", "")).partition("\n\n")[0]
        # A written file holds every field, also those that have a default.
        component["required"] = list(component["properties"])
    components["Readiness"]["properties"]["schema_version"] = {"const": SCHEMA_VERSION}
    schema = {"$schema": DIALECT, "title": "exportlint readiness", **root, "$defs": components}
    # msgspec gives tuples as defaults, which JSON does not know.
    plain: dict[str, Any] = json.loads(json.dumps(schema))
    return plain


def text() -> str:
    """The generated schema as the file holds it."""
    return json.dumps(generate(), indent=2) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("schema.json").write_text(text(), encoding="utf-8")
