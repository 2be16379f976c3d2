from __future__ import annotations

import dataclasses
import json

from consumers import SARIF
from hypothesis import HealthCheck, given, settings
from readiness_samples import LITERAL, passing, readinesses, sample, shared

from exportlint.report.sarif_file import render


def run(readiness):
    (found,) = json.loads(render(readiness))["runs"]
    return found


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(readinesses)
def test_any_run_is_valid(readiness):
    assert list(SARIF.iter_errors(json.loads(render(readiness)))) == []


def test_a_result_says_what_where_and_who_saw_it():
    (result,) = run(shared())["results"]
    assert (result["ruleId"], result["level"]) == ("EXP201", "warning")
    assert "The mask is made on the CPU." in result["message"]["text"]
    assert "Seen by a (device, lint), b (device, lint): as predicted." in result["message"]["text"]
    assert result["properties"]["seenBy"] == {"a": ["device", "lint"], "b": ["device", "lint"]}
    (place,) = result["locations"]
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "models/mask.py"},
        "region": {"startLine": 7},
        "contextRegion": {"startLine": 7, "snippet": {"text": 'torch.ones(3, device="cpu")'}},
    }
    assert run(shared())["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "EXP201"


def test_expected_failures_are_suppressed_and_advice_is_a_note():
    results = run(sample())["results"]
    assert [r["suppressions"] for r in results if "suppressions" in r] == [
        [{"kind": "external", "justification": "waits for a fix"}]
    ]
    assert {r["level"] for r in results if r["ruleId"] == "EXP205"} == {"note"}


def test_what_was_not_checked_and_what_could_not_be_loaded_is_told():
    (invocation,) = run(sample())["invocations"]
    told = {note["message"]["text"]: note["level"] for note in invocation["toolExecutionNotifications"]}
    assert told["nowhere.py: no such file"] == "error"
    assert told["unlucky, capture: crashed: killed by signal 6"] == "error"
    assert told["decoder, reload: not checked: the capture failed"] == "note"
    assert invocation["executionSuccessful"] is False
    assert run(passing())["invocations"] == [{"executionSuccessful": True, "toolExecutionNotifications": []}]


def test_marks_survive_moved_lines_and_tell_equal_lines_apart():
    def marks(*lines):
        case = shared().cases[0]
        found = tuple(dataclasses.replace(LITERAL, line=line) for line in lines)
        checks = (dataclasses.replace(case.checks[0], findings=found),)
        results = run(dataclasses.replace(shared(), cases=(dataclasses.replace(case, checks=checks),)))["results"]
        return [result["partialFingerprints"]["primaryLocationLineHash"] for result in results]

    assert marks(7, 9) == marks(70, 90)
    assert len(set(marks(7, 9))) == 2
