"""The JSON form of a run, from which every other format can be written again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from exportlint.findings import SCHEMA_VERSION, Readiness
from exportlint.text import encodable, map_strings, one_line

if TYPE_CHECKING:
    from exportlint.report.comparing import Comparison


def render(readiness: Readiness) -> str:
    """The run as JSON, as `schema.json` describes it.

    Lone surrogates are written as escapes, and times that are no finite number as 0.
    """
    return _indented(readiness)


def render_comparison(comparison: Comparison) -> str:
    """What changed between two runs as JSON: the fields of `Comparison`."""
    return _indented(comparison)


def _indented(value: Readiness | Comparison) -> str:
    data = msgspec.json.encode(map_strings(value, encodable))
    return msgspec.json.format(data, indent=2).decode() + "\n"


def parse(data: bytes) -> Readiness:
    """The run that this JSON holds.

    Raises:
        ValueError: When it is no JSON, of another schema version, or no run; the message has one line.
    """
    try:
        version = _version(msgspec.json.decode(data))
        if version != SCHEMA_VERSION:
            raise ValueError(f"schema version {version!r} is not the one that can be read, {SCHEMA_VERSION}")
        return msgspec.json.decode(data, type=Readiness)
    except msgspec.ValidationError as error:
        raise ValueError(f"not a readiness file: {one_line(str(error), 500)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not JSON: {one_line(str(error), 500)}") from None


def _version(value: Any) -> object:
    if not isinstance(value, dict) or "schema_version" not in value:
        raise ValueError("not a readiness file: an object with schema_version was expected")
    return value["schema_version"]
