"""JUnit's XML: a suite a file, a failed test a finding."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from exportlint.formats.wording import as_line, file_of, place, words

if TYPE_CHECKING:
    from exportlint.formats import Results


def render(results: Results) -> str:
    """Where nothing was found, one test that passed.

    What was not analysed is skipped, not passed; what could not be read is an error.
    """
    root = ET.Element("testsuites", name="exportlint")
    for name, group in groupby(results.shown, key=file_of):
        found = list(group)
        suite = _suite(root, name, tests=len(found), failures=len(found))
        suite.set("file", name)  # Jenkins takes a file of a suite, and refuses reports with one of a test
        for p in found:
            title = f"{p.rule.code} {p.rule.name}"
            test = ET.SubElement(suite, "testcase", name=title, classname=name.removesuffix(".py"), time="0")
            failure = ET.SubElement(test, "failure", message=words(p), type=p.severity)
            failure.text = f"{place(p)}: {p.severity}: {p.rule.code} {words(p)}"
    if results.unanalysed:
        unread = sum(left_out.is_unread for left_out in results.unanalysed)
        skipped = len(results.unanalysed) - unread
        suite = _suite(root, "not analysed", tests=len(results.unanalysed), skipped=skipped, errors=unread)
        for left_out in results.unanalysed:
            test = ET.SubElement(suite, "testcase", name=as_line(left_out), classname="exportlint", time="0")
            ET.SubElement(test, "error" if left_out.is_unread else "skipped", message=as_line(left_out))
    if len(root) == 0:
        ET.SubElement(
            _suite(root, "exportlint", tests=1), "testcase", name="no findings", classname="exportlint", time="0"
        )
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in root)))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=False).join(
        ('<?xml version="1.0" encoding="utf-8"?>\n', "\n")
    )


def _suite(root: ET.Element, name: str, **counts: int) -> ET.Element:
    """A suite with its counts; those that are not given are 0."""
    told = {"tests": 0, "failures": 0, "skipped": 0, "errors": 0} | counts
    return ET.SubElement(root, "testsuite", {"name": name, "time": "0", **{k: str(n) for k, n in told.items()}})
