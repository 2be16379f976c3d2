from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path

import pytest
import torch
from commands import marked
from torch import nn

from exportlint import ModelCase
from exportlint.checks.isolation.job import Limits
from exportlint.checks.runner import LoadError, NamedCase, Options, Runner

HERE = Path(__file__)
X = torch.ones(2, 3)


class Tight(Runner):
    """A runner whose limits are so tight that a test can wait for them."""

    limits = Limits(cpu_seconds=30, wall_seconds=2, memory_bytes=2 << 30)

    def _limits(self) -> Limits:
        return self.limits


@pytest.fixture
def tight():
    with Tight(Options(checks=("capture", "shapes"), examples=3)) as runner:
        yield runner


def at(mark: str) -> int:
    """The line of this file with this mark."""
    return marked(HERE, mark)


def check(result, name):
    (found,) = [check for check in result.checks if check.name == name]
    return found


def place(check):
    (finding,) = check.findings
    return finding.rule, finding.file and Path(finding.file).name, finding.line


class Sleeping(nn.Module):
    def forward(self, x):
        time.sleep(600)  # at: sleep
        return x


class Spinning(nn.Module):
    def forward(self, x):
        while True:
            x = -x  # at: spin


class Filling(nn.Module):
    def forward(self, x):
        kept = []
        while True:
            kept.append(torch.ones(4 << 20))  # at: fill


class Forked(nn.Module):
    def forward(self, x):
        if torch.compiler.is_exporting():
            time.sleep(600)  # at: export sleeps
        return x * 2


@pytest.mark.parametrize(
    ("model", "limit", "outcome", "words", "mark"),
    [
        (Sleeping, {}, "timed_out", "did not end in time", "sleep"),
        (Spinning, {"cpu_seconds": 0.2, "wall_seconds": 60}, "timed_out", "used up its CPU time", "spin"),
        (Filling, {"memory_bytes": 1 << 29, "wall_seconds": 60}, "crashed", "used up its memory", "fill"),
    ],
)
def test_a_model_without_end(tight, model, limit, outcome, words, mark):
    tight.limits = dataclasses.replace(tight.limits, **limit)
    result = tight.check_object(ModelCase(model, (X,)), "t")
    capture = check(result, "capture")
    assert capture.outcome == outcome
    assert capture.reason.startswith(f"the process {words} during the eager call")
    assert place(capture) == ("EXP002", HERE.name, at(mark))
    assert check(result, "shapes").reason == "the model does not run"


class Unmade(nn.Module):
    def __init__(self):
        super().__init__()
        time.sleep(600)  # at: build sleeps


def unmade_inputs():
    time.sleep(600)  # at: inputs sleep


@pytest.mark.parametrize(
    ("model", "args", "words", "mark"),
    [
        (Unmade, (X,), "building it took more than 4.0 s", "build sleeps"),
        (nn.ReLU, unmade_inputs, "the making of the example inputs took more than 4.0 s", "inputs sleep"),
    ],
)
def test_what_hangs_before_any_call_is_waited_for_once(model, args, words, mark):
    began, names = time.monotonic(), ("device", "twins", "state", "reload")
    with Tight(Options(checks=names, timeout=4)) as runner:
        found = runner.check_object(ModelCase(model, args, name="hangs"), "t").checks
    first, *others = sorted(found, key=lambda check: check.outcome != "timed_out")
    assert place(first) == ("EXP002", HERE.name, at(mark))
    assert [(check.outcome, check.reason) for check in others] == [("not_checked", words)] * 3
    assert time.monotonic() - began < 3 * Tight.limits.wall_seconds


class Exits(nn.Module):
    def forward(self, x):  # at: exits
        if x.device.type != "cpu":
            os._exit(0)
        return x * 2


def test_a_death_on_the_second_device_without_a_stack_is_told_where_the_model_begins():
    with Runner(Options(checks=("device",))) as runner:
        device = check(runner.check_object(ModelCase(Exits, (X,)), "t"), "device")
    assert device.outcome == "crashed"
    assert (
        "ended with status 0 during the eager run on the second device; it left no stack" in device.findings[0].message
    )
    assert place(device)[2] == at("exits")


def leave():
    raise SystemExit(9)  # at: leaves


def test_inputs_that_leave_are_one_finding():
    with Runner(Options()) as runner:
        found = runner.check_object(ModelCase(nn.ReLU, leave, name="leaves"), "t").checks
    capture, *others = found
    assert place(capture) == ("EXP002", HERE.name, at("leaves"))
    words = "SystemExit was raised during the making of the example inputs, which ends the process"
    assert capture.findings[0].message == words
    assert {check.reason for check in others} == {"the model does not run"}


class Broken(nn.Module):
    def forward(self, x):
        raise RuntimeError("broken")


def test_what_a_case_does_not_ask_for_is_not_shown_where_its_model_does_not_run():
    with Runner(Options()) as runner:
        names = [check.name for check in runner.check_object(ModelCase(Broken, (X,)), "t").checks]
        assert names == ["capture", "reload", "device", "shapes", "twins", "state", "lint"]
        case = ModelCase(Broken, (X,), loss=lambda result: result.sum())
        assert "training" in [check.name for check in runner.check_object(case, "t").checks]


def test_a_capture_without_end_keeps_the_other_checks(tight):
    result = tight.check_object(ModelCase(Forked, (X,), inputs2=(torch.ones(4, 3),)), "t")
    capture = check(result, "capture")
    assert (capture.outcome, capture.findings[0].rule) == ("timed_out", "EXP003")
    assert capture.findings[0].line == at("export sleeps")
    shapes = check(result, "shapes")
    assert (shapes.outcome, shapes.reason) == ("not_checked", "the model is not captured")


def test_a_check_that_runs_out_of_time_is_not_tried_again(tight, tmp_path):
    class Slow(nn.Module):
        def forward(self, x):
            with (tmp_path / "calls").open("a") as calls:
                calls.write("call\n")
            time.sleep(600)
            return x

    capture = check(tight.check_object(ModelCase(Slow, (X,)), "t"), "capture")
    assert capture.outcome == "timed_out"
    assert (tmp_path / "calls").read_text() == "call\n"


def test_time_spent_on_looking_further_does_not_hide_what_was_found(tight):
    class Inner(nn.Module):
        def forward(self, x):
            if torch.compiler.is_exporting():
                time.sleep(600)
            return x

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            if x.sum() > 0:  # at: branch
                return self.inner(x)
            return x

    capture = check(tight.check_object(ModelCase(Outer, (X,)), "t"), "capture")
    assert capture.outcome == "failed"
    assert place(capture) == ("EXP101", HERE.name, at("branch"))
    assert any("cut short: the process did not end in time" in note for note in capture.notes)


@pytest.mark.parametrize("isolation", ["auto", "fork", "server"])
def test_a_case_whose_class_is_local_to_a_test(isolation):
    offset = torch.randn(3)

    class Local(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x):
            return [x * self.weight + offset, x.shape[0]]

    options = Options(checks=("capture", "shapes"), examples=3, isolation=isolation)
    with Runner(options) as runner:
        case = ModelCase(Local, (X,), inputs2=(torch.ones(5, 3),), expected_failures={"shapes": "not so"})
        result = runner.check_object(case, "tests/some.py")
        assert (result.name, result.target) == ("Local", "tests/some.py")
        assert [c.outcome for c in result.checks] == ["passed", "failed"]
        assert check(result, "shapes").reason.startswith("passes although it is expected to fail (not so)")
        assert runner.notes == []


def test_a_case_in_the_callers_own_process():
    """The same outcomes, and the caller's model is as it was."""

    class Local(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            self.calls += 1
            return torch.arange(int(x.shape[0])) + x.sum()  # at: frozen

    outcomes = []
    for isolation in ("fork", "none"):
        model = Local()
        with Runner(Options(checks=("capture", "shapes"), examples=3, isolation=isolation)) as runner:
            result = runner.check_object(ModelCase(model, (X,), inputs2=(torch.ones(5, 3),)), "t")
        outcomes.append([(c.name, c.outcome, [(f.rule, f.line) for f in c.findings]) for c in result.checks])
        assert model.calls == 0
    assert outcomes[0] == outcomes[1]
    shapes = outcomes[0][1]
    assert shapes[1:] == ("failed", [("EXP301", at("frozen"))])


def test_an_object_given_after_a_big_matmul_and_a_backward():
    weight = torch.randn(2000, 2000, requires_grad=True)
    (weight @ weight).sum().backward()
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    with Runner(Options(checks=("capture",), timeout=20)) as runner:
        result = runner.check_object(ModelCase(model, (torch.randn(512, 64),)), "t")
    assert check(result, "capture").outcome == "passed"


def test_jobs_of_a_forked_runner_do_not_reach_the_callers_model(tight):
    class Counting(nn.Module):
        seen: list = []  # noqa: RUF012 - shared on purpose

        def forward(self, x):
            Counting.seen.append(os.getpid())
            return x

    tight.check_object(ModelCase(Counting, (X,)), "t")
    assert Counting.seen == []


def test_a_case_that_is_gone_when_it_is_checked(tight, source):
    file = source(
        "import torch\n\ndef build():\n    return torch.nn.ReLU()\n\ndef inputs():\n    return (torch.ones(2),)\n"
    )
    (case,) = tight.list_cases(str(file))
    assert case.label == str(file)
    file.unlink()
    with pytest.raises(LoadError, match="does not exist"):
        tight.check_named(case)


@pytest.mark.parametrize(
    ("target", "name", "alone", "label"),
    [
        ("a.py", "a", True, "a.py"),
        ("a.py", "b", False, "a.py:b"),
        ("a.py:b", "b", True, "a.py:b"),
        ("p.m", "m", True, "p.m"),
        ("p.m:x", "x", True, "p.m:x"),
        ("a.py:variable", "name", True, "a.py:name"),
        ("a.py:variable", "name", False, "a.py:name"),
    ],
)
def test_label(target, name, alone, label):
    assert NamedCase(target, name, {}, alone).label == label
