"""What real consumers of the formats take: the schemas that they validate with, and their rules in other words.

* Jenkins: the plugin xunit validates reports against its schema ``junit-10.xsd``, and refuses the others.
* Code scanning of GitHub, and others: SARIF by the schema of OASIS.
* GitHub: the runner reads workflow commands from the lines that a step prints (``ActionCommand``, ``IssueCommand``).
* GitLab: the parser asks for the fields of ``codeclimate.json``, and stops at the first entry without; the manual says
  which values it shows.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonschema import Draft7Validator
from lxml import etree

if TYPE_CHECKING:
    from collections.abc import Mapping

_SCHEMAS = Path(__file__).parents[1] / "fixtures" / "schemas"
SARIF = Draft7Validator(json.loads((_SCHEMAS / "sarif-2.1.0.json").read_text()))
_JENKINS = etree.XMLSchema(etree.parse(_SCHEMAS / "junit-10.xsd"))


def jenkins_refuses(report: str) -> list[str]:
    """Why Jenkins would not read a report; nothing where it would."""
    _JENKINS.validate(etree.fromstring(report.encode()))
    return [error.message for error in _JENKINS.error_log]


@dataclass(frozen=True)
class Annotation:
    """What GitHub shows beside a line: of a workflow command, the name, the properties and the text."""

    kind: str
    properties: Mapping[str, str]
    text: str


_NUMBERS = ("line", "endLine", "col", "endColumn")


def github_reads(printed: str) -> list[Annotation]:
    """The annotations that GitHub's runner makes of what a step prints, a line at a time.

    A property that it would drop without a word is an error here.
    """
    return [found for line in re.split(r"\r\n|\r|\n", printed) if (found := _command(line)) is not None]


def _command(line: str) -> Annotation | None:
    head, colons, data = line.lstrip().removeprefix("::").partition("::")
    kind, _, written = head.partition(" ")
    if not line.lstrip().startswith("::") or not colons or kind not in ("error", "warning", "notice"):
        return None
    properties: dict[str, str] = {}
    for pair in filter(None, written.strip().split(",")):
        name, equals, value = pair.partition("=")
        assert equals, pair
        assert name in ("file", "title", *_NUMBERS), name
        assert value, pair
        properties[name] = _plain(value, {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"})
    _judge(properties)
    return Annotation(kind, properties, _plain(data, {"%0D": "\r", "%0A": "\n", "%25": "%"}))


def _plain(text: str, signs: Mapping[str, str]) -> str:
    for escape, sign in signs.items():  # the sign that begins escapes comes last, as with the runner
        text = text.replace(escape, sign)
    return text


def _judge(properties: Mapping[str, str]) -> None:
    """Lines and columns that the runner would drop: those that are none, end before they begin, or are of two lines."""
    numbers = {name: int(properties[name]) for name in _NUMBERS if name in properties}
    assert all(number > 0 for number in numbers.values())
    assert numbers.get("endLine", numbers.get("line", 0)) >= numbers.get("line", 0)
    assert numbers.get("endColumn", numbers.get("col", 0)) >= numbers.get("col", 0)
    if "col" in numbers:
        assert numbers["line"] == numbers.get("endLine", numbers["line"])


_GITLAB: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "minLength": 1},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "pattern": r"^(?!\./)"},  # others are not found in the merge request
                    "lines": {
                        "type": "object",
                        "required": ["begin"],
                        "properties": {"begin": {"type": "integer", "minimum": 1}, "end": {"type": "integer"}},
                    },
                },
            },
        },
    },
}
GITLAB = Draft7Validator(_GITLAB)
