from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from consumers import jenkins_refuses
from hypothesis import HealthCheck, given, settings
from readiness_samples import passing, readinesses, sample

from exportlint.report.junit_file import render


def outcomes(readiness):
    """What each test of the report is: its suite, its name, and the tag of what happened."""
    root = ET.fromstring(render(readiness))
    return {
        (suite.get("name"), test.get("name")): test[0].tag if len(test) else "passed"
        for suite in root
        for test in suite
    }


def test_each_outcome_has_its_tag():
    assert outcomes(sample()) == {
        ("encoder", "capture"): "passed",
        ("encoder", "device"): "passed",
        ("known", "capture"): "skipped",
        ("decoder", "capture"): "failure",
        ("decoder", "reload"): "skipped",
        ("decoder", "device"): "failure",
        ("decoder", "shapes"): "skipped",
        ("unlucky", "capture"): "error",
        ("unlucky", "reload"): "error",
        ("unlucky", "shapes"): "error",
        ("targets", "nowhere.py"): "error",
    }


def test_a_failure_says_what_where_and_what_to_do():
    root = ET.fromstring(render(sample()))
    (failure,) = root.findall("testsuite[@name='decoder']/testcase[@name='capture']/failure")
    assert failure.get("message").startswith("models/decoder.py:21: EXP101 The branch asks a tensor")
    assert failure.get("type") == "failed"
    for words in (
        "if not keep.all():",
        "Mask without asking.",
        "GuardOnDataDependentSymNode",
        "torch's words",
        "q exports",
    ):
        assert words in failure.text
    (skipped,) = root.findall("testsuite[@name='known']/testcase/skipped")
    assert skipped.get("message") == "expected: waits for a fix"


def test_counts_and_times():
    root = ET.fromstring(render(sample()))
    assert dict(root.attrib) == {"name": "exportlint", "tests": "11", "failures": "2", "errors": "4"}
    suites = {suite.get("name"): dict(suite.attrib) for suite in root}
    assert suites["decoder"] == {
        "name": "decoder", "time": "1.500", "failures": "2", "errors": "0", "skipped": "2", "tests": "4"
    }  # fmt: skip


def test_nothing_is_red_in_a_run_that_passed():
    assert set(outcomes(passing()).values()) == {"passed"}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(readinesses)
def test_any_run_is_xml_and_no_string_of_a_model_becomes_markup(readiness):
    text = render(readiness)
    text.encode("utf-8")
    assert jenkins_refuses(text) == []
    root = ET.fromstring(text)
    assert {element.tag for element in root.iter()} <= {
        "testsuites", "testsuite", "testcase", "failure", "error", "skipped"
    }  # fmt: skip
    assert sum(len(suite) for suite in root) == sum(len(case.checks) for case in readiness.cases) + len(
        readiness.errors
    )
    assert all(re.fullmatch(r"[0-9]+\.[0-9]{3}|0", e.get("time")) for e in root.iter() if "time" in e.attrib)
