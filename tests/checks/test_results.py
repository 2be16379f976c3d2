from __future__ import annotations

from pathlib import Path

import pytest

from exportlint.checks import results
from exportlint.checks.isolation.job import Ending
from exportlint.findings import CheckResult, Finding
from exportlint.places import Place

HERE = str(Path(__file__).resolve())
TORCH = "/usr/lib/python3/site-packages/torch/nn/modules/module.py"

FATAL = f"""\
model says something
free(): invalid pointer
Fatal Python error: Aborted

Current thread 0x00007f10 (most recent call first):
  File "{TORCH}", line 1747 in _call_impl
  File "{HERE}", line 12 in forward
  File "{HERE}", line 40 in main

Thread 0x00007f11 (most recent call first):
  File "{TORCH}", line 5 in wait
""".splitlines()

TRACEBACK = f"""\
Traceback (most recent call last):
  File "{HERE}", line 3, in outer
    inner()
  File "{HERE}", line 9, in inner
    x @ y
  File "{TORCH}", line 5, in matmul
RuntimeError: shapes
""".splitlines()


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (FATAL, 12),
        (TRACEBACK, 9),
        ([*TRACEBACK, *FATAL], 12),
        ([*FATAL[:5], FATAL[5]], None),
        (["nothing of the kind"], None),
        ([], None),
        (["Stack (most recent call first):", f'  File "{HERE}", line 5 in f'], 5),
        (['  File "relative.py", line 5, in f'], 5),
    ],
)
def test_fatal_place(output, line):
    place = results.fatal_place(tuple(output))
    assert (place and place.line) == line


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (FATAL, "free(): invalid pointer"),
        (FATAL[2:], "Fatal Python error: Aborted"),
        (TRACEBACK, "RuntimeError: shapes"),
        (["a", " ", "terminate called", "  what():  bad index", ""], "what():  bad index"),
        (["Stack (most recent call first):", '  File "a.py", line 5 in f'], None),
        ([], None),
        (["", "  "], None),
        (["x" * 1000], "x" * 300),
    ],
)
def test_last_words(output, words):
    assert results.last_words(tuple(output)) == words


@pytest.mark.parametrize(
    ("check", "stage", "ending", "outcome", "rule", "reason"),
    [
        ("capture", "build", Ending("signal", 11), "crashed", "EXP002", "was killed by SIGSEGV during the build"),
        ("capture", "export", Ending("cpu"), "timed_out", "EXP003", "used up its CPU time during the export"),
        ("shapes", "eager call", Ending("wall"), "timed_out", "EXP002", "did not end in time during the eager"),
        ("reload", "save", Ending("exit", 3), "crashed", "EXP701", "ended with status 3 during the save"),
        ("device", None, Ending("lost"), "crashed", "EXP004", "was lost with its worker server"),
        ("shapes", "drawing", Ending("memory", 86, ("no room",)), "crashed", "EXP004", "during the drawing: no room"),
        ("capture", "export", Ending("signal", 999), "crashed", "EXP003", "was killed by signal 999"),
    ],
)  # fmt: skip
def test_a_check_that_died(check, stage, ending, outcome, rule, reason):
    result = results.of_death(check, stage, ending)
    assert (result.name, result.outcome) == (check, outcome)
    assert reason in result.reason
    (finding,) = result.findings
    assert (finding.rule, finding.severity) == (rule, "error")
    assert result.runs == (check != "capture" or stage != "build")


@pytest.mark.parametrize(
    ("stage", "output", "line"),
    [
        ("eager run on the second device", (), 7),
        ("drawn examples", (), 7),
        ("build", (), None),
        (None, (), None),
        ("eager call", ("Stack (most recent call first):", f'  File "{HERE}", line 5 in f'), 5),
    ],
)
def test_where_a_death_without_a_stack_is_placed(stage, output, line):
    found = results.of_death("device", stage, Ending("exit", 0, output), Place(str(HERE), 7)).findings[0]
    assert found.line == line
    assert ("left no stack" in found.message) == (line == 7)


def test_faults_of_a_case_are_placed_in_its_file(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    known = Finding(rule="EXP002", severity="error", message="m", file="other.py", line=3)
    lineless = [Finding(rule=rule, severity="error", message="m") for rule in ("EXP002", "EXP603", "EXP301")]
    check = CheckResult(name="capture", outcome="errored", findings=(known, *lineless))
    (placed,) = results.in_file((check,), str(tmp_path / "a" / "model.py"))
    assert [f.place for f in placed.findings] == ["other.py:3", "a/model.py", "a/model.py", "?"]
    assert results.in_file((check,), "package.module") == (check,)


def finding(severity):
    return Finding(rule="EXP301", severity=severity, message="m")


@pytest.mark.parametrize(
    ("outcome", "severities", "red", "expected"),
    [
        ("failed", (), False, "known"),
        ("crashed", (), False, "known"),
        ("timed_out", (), False, "known"),
        ("errored", (), False, "known"),
        ("passed", ("warning",), False, "known"),
        ("passed", ("info",), True, None),
        ("passed", (), True, None),
        ("not_checked", (), False, None),
    ],
)
def test_expected_failures(outcome, severities, red, expected):
    result = CheckResult(name="shapes", outcome=outcome, findings=tuple(map(finding, severities)))
    (marked,) = results.with_expectations([result], {"shapes": "known"})
    assert (marked.red, marked.expected) == (red, expected)
    if red:
        assert marked.outcome == "failed"
        assert marked.reason == "passes although it is expected to fail (known): remove the expectation"
    assert results.with_expectations([result], {"capture": "known"}) == (result,)


SPOKEN = ["one", "two", "three", "four", "five", "what():  six"]
JOBS = str(Path(results.__file__).parent / "jobs.py")


def test_the_last_lines_and_the_models_own_frames_of_one_that_died():
    output = (*SPOKEN, "Fatal Python error: Aborted", "", *FATAL[4:8], f'  File "{JOBS}", line 3 in check', *FATAL[7:])
    result = results.of_death("capture", "eager call", Ending("signal", 6, output))
    assert result.findings[0].evidence.splitlines() == SPOKEN[1:]
    name = Path(HERE).relative_to(Path.cwd()) if Path(HERE).is_relative_to(Path.cwd()) else HERE
    assert result.notes == (f"at {name}:12 in forward", f"called at {name}:40 in main")
    assert not result.runs


def test_the_frames_of_a_traceback_are_told_innermost_first_and_long_ones_cut():
    assert [line.rpartition(":")[2] for line in results.frames(tuple(TRACEBACK))] == ["9 in inner", "3 in outer"]
    assert results.spoken(tuple(TRACEBACK)) == ["RuntimeError: shapes"]
    long = results.frames(("Stack (most recent call first):", *[f'  File "{HERE}", line 5 in f'] * 20))
    assert len(long) == results.FRAMES + 1
    assert long[-1] == "called at 12 more lines"
    assert results.frames(("Stack (most recent call first):", f'  File "{TORCH}", line 5 in f')) == []


@pytest.mark.parametrize("stage", ["eager call", "export", None])
@pytest.mark.parametrize("how", ["wall", "cpu", "memory", "output", "lost"])
def test_what_to_do_about_a_process_that_was_stopped(how, stage):
    (finding,) = results.of_death("shapes", stage, Ending(how)).findings
    assert finding.rewrite == results.ENDINGS[how]


def test_a_crash_of_the_model_is_not_told_to_mend_its_factory():
    (finding,) = results.of_death("capture", "eager call", Ending("signal", 11)).findings
    assert finding.rewrite == results.ENDINGS["signal"]


@pytest.mark.parametrize(("words", "name"), [("SystemExit: 0", "SystemExit"), ("SystemExit", "SystemExit")])
def test_an_exit_that_was_raised_is_told_as_such(words, name):
    result = results.of_death("capture", "eager call", Ending("exit", 1, (*TRACEBACK[:-1], words)))
    assert result.reason == f"{name} was raised during the eager call, which ends the process: {words}"
    assert result.findings[0].line == 9
    assert result.findings[0].rewrite == results.ENDINGS["raised"]
    plain = results.of_death("capture", "eager call", Ending("exit", 1, ("RuntimeError: x",)))
    assert plain.reason == "the process ended with status 1 during the eager call: RuntimeError: x"
