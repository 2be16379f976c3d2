"""The run as JUnit's XML, for CI that shows tests: a suite a case, a test a check."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from exportlint.findings import RED
from exportlint.text import clip, map_strings, one_line, visible

if TYPE_CHECKING:
    from exportlint.findings import CaseResult, CheckResult, Readiness

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
MOST_TEXT = 20_000  # characters of one failure


def render(readiness: Readiness) -> str:
    """The run as XML.

    A check that is red has failed, or is an error where it did not come to an end. One that did not run, and a failure
    that was expected, are skipped, with the reason. A TARGET that could not be loaded is an error of its own.
    """
    run = map_strings(readiness, _fit)
    root = ET.Element("testsuites", name="exportlint")
    for case in run.cases:
        _case(root, case)
    if run.errors:
        suite = _suite(root, "targets")
        for error in run.errors:
            test = ET.SubElement(suite, "testcase", name=error.target, classname="exportlint", time="0")
            ET.SubElement(test, "error", message=one_line(error.message))
    for suite in root:
        for count, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(count, str(len(suite.findall(f"testcase/{tag}"))))
        suite.set("tests", str(len(suite)))
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in root)))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _fit(text: str) -> str:
    """The text without what XML cannot hold."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", visible(text))


def _suite(root: ET.Element, name: str, seconds: float = 0.0) -> ET.Element:
    return ET.SubElement(root, "testsuite", name=name, time=_time(seconds))


def _time(seconds: float) -> str:
    return f"{min(max(seconds, 0.0), 1e9):.3f}"


def _case(root: ET.Element, case: CaseResult) -> None:
    suite = _suite(root, one_line(case.name), sum(check.seconds for check in case.checks))
    for check in case.checks:
        test = ET.SubElement(
            suite, "testcase", name=check.name, classname=one_line(case.target), time=_time(check.seconds)
        )
        if check.expected is not None:
            ET.SubElement(test, "skipped", message=one_line(f"expected: {check.expected}"))
        elif check.outcome == "not_checked":
            ET.SubElement(test, "skipped", message=one_line(check.reason or "not checked"))
        elif check.red:
            tag = "error" if check.outcome in RED - {"failed"} else "failure"
            found = ET.SubElement(test, tag, message=_message(check), type=check.outcome)
            found.text = clip("\n\n".join(_told(check)), MOST_TEXT)


def _message(check: CheckResult) -> str:
    worst = next((f"{f.place}: {f.rule} {f.message}" for f in check.findings if f.counts), "")
    return one_line(worst or check.reason or check.outcome)


def _told(check: CheckResult) -> list[str]:
    """The findings that count, then the reason and the notes."""
    findings = [
        "\n".join(filter(None, (f"{f.place}: {f.severity}: {f.rule} {f.message}", f.source, f.rewrite, f.evidence)))
        for f in check.findings
        if f.counts
    ]
    return [*findings, *filter(None, (check.reason,)), *check.notes]
