"""What real consumers of the formats take, written down after their source and manuals; none of it is a copy.

* Jenkins: the plugin xunit validates reports against its schema ``junit-10.xsd``, and refuses the others.
* GitHub: the runner reads workflow commands from the lines that a step prints (``ActionCommand``, ``IssueCommand``).
* GitLab: the fields of a code quality report that its parser asks for and its manual describes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from xml.etree.ElementTree import Element


@dataclass(frozen=True)
class Kind:
    """What an element of JUnit's XML may hold; `mixed` is text between its children."""

    children: frozenset[str]
    attributes: frozenset[str]
    required: frozenset[str] = frozenset()
    mixed: bool = False


def _kind(children: str, attributes: str, required: str = "", *, mixed: bool = False) -> Kind:
    return Kind(*(frozenset(words.split()) for words in (children, f"{attributes} {required}", required)), mixed=mixed)


_ENDED = _kind("", "type message", mixed=True)
JENKINS: Mapping[str, Kind] = {
    "testsuites": _kind("testsuite", "name time tests failures errors"),
    "testsuite": _kind(
        "testsuite properties testcase system-out system-err",
        "group time skipped timestamp hostname id package file log url",
        "name tests failures errors",
    ),
    "testcase": _kind("skipped error failure system-out system-err", "time classname group", "name"),
    "failure": _ENDED,
    "error": _ENDED,
    "skipped": _ENDED,
}
_TIME = re.compile(r"(?:\d{0,3},)*\d{0,3}(?:\.\d*)?")


def jenkins_refuses(element: Element) -> Iterator[str]:
    """Why Jenkins would not read a report; nothing where it would."""
    kind = JENKINS.get(element.tag)
    if kind is None:
        yield f"<{element.tag}> is not known"
        return
    yield from (f"<{element.tag}> lacks {name}" for name in sorted(kind.required - element.attrib.keys()))
    yield from (f"<{element.tag}> has {name}" for name in sorted(element.attrib.keys() - kind.attributes))
    if element.tag != "testcase" and not _TIME.fullmatch(element.get("time", "")):
        yield f"<{element.tag}> took {element.get('time')}"
    texts = (element.text, *(child.tail for child in element))
    if not kind.mixed and any((text or "").strip() for text in texts):
        yield f"<{element.tag}> holds text"
    for child in element:
        if child.tag not in kind.children:
            yield f"<{element.tag}> holds <{child.tag}>"
        yield from jenkins_refuses(child)


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


GITLAB: Mapping[str, Any] = {
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
