"""Devices other than the second one: without numbers, real ones as far as they are there."""

from __future__ import annotations

import pytest
import torch
from device_kinds import load, model
from forking import in_fork

from exportlint.checks import device, device_elsewhere
from exportlint.checks.context import Context, Settings
from exportlint.checks.device_elsewhere import Elsewhere
from exportlint.checks.device_report import Report

FOLLOWS = model("return self.f(x) + torch.ones(4, device=x.device)", "self.f = nn.Linear(4, 4)")
MISSING = model("m = torch.ones(4)\nreturn self.f(x) + m", "self.f = nn.Linear(4, 4)")
READS = model("return x * x.sum().item()")


def alarms(result):
    return [finding for finding in result["findings"] if finding[1] != "info"]


def check(case, *devices):
    result = device.run(Context(case, Settings(("device",), devices=devices), lambda _: None))
    findings = [(f.rule, f.severity, f.file.rpartition("/")[2], f.line, f.message) for f in result.findings]
    return {"outcome": result.outcome, "reason": result.reason, "findings": findings, "notes": list(result.notes)}


@pytest.mark.parametrize("name", ["meta"])
def test_a_device_without_numbers(tmp_path, name):
    good = in_fork(lambda: check(load(FOLLOWS, tmp_path, "follows"), name))
    assert (good["outcome"], alarms(good), good["notes"]) == ("passed", [], [])
    bad = in_fork(lambda: check(load(MISSING, tmp_path, "missing"), name))
    assert [(rule, severity, line) for rule, severity, _, line, _ in alarms(bad)] == [("EXP202", "warning", 8)]


def test_what_meta_cannot_run_is_not_checked(tmp_path):
    result = in_fork(lambda: check(load(READS, tmp_path, "reads"), "meta"))
    assert (result["outcome"], alarms(result)) == ("not_checked", [])
    assert result["reason"].startswith(
        "meta cannot run the model: RuntimeError: Tensor.item() cannot be called on meta"
    )


def test_fake_cuda(tmp_path):
    bad = in_fork(lambda: check(load(MISSING, tmp_path, "missing"), "fake-cuda"))
    assert [(rule, line) for rule, _, _, line, _ in alarms(bad)] == [("EXP202", 8)]
    good = in_fork(lambda: check(load(FOLLOWS, tmp_path, "follows"), "fake-cuda"))
    assert (good["outcome"], alarms(good)) == ("passed", [])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a cuda device")
def test_a_device_that_is_not_there_is_not_checked(tmp_path):
    result = in_fork(lambda: check(load(FOLLOWS, tmp_path, "follows"), "second", "cuda", "xpu"))
    assert (result["outcome"], alarms(result)) == ("not_checked", [])
    assert result["reason"] == "cuda: this machine, or this build of torch, has no such device"
    assert result["notes"] == ["xpu: this machine, or this build of torch, has no such device"]


CPU = Elsewhere("cpu", "cpu", numbers=True)


def on_the_cpu(case):
    """What the steps for a real device say, on the one that every machine has."""
    report = Report()
    device_elsewhere.run_on(Context(case, Settings(("device",)), lambda _: None), report, CPU)
    return report


def test_the_steps_on_a_real_device(tmp_path):
    report = on_the_cpu(load(FOLLOWS, tmp_path, "follows"))
    assert (report.findings, report.notes, report.unchecked) == ({}, [], None)


def test_a_program_that_differs_from_eager_there_is_a_note(tmp_path):
    text = model("if torch.compiler.is_exporting():\n    return x\nreturn x + 1")
    report = on_the_cpu(load(text, tmp_path, "differs"))
    assert [note.partition(",")[0] + note.partition(": ")[2][:10] for note in report.notes] == [
        "the programoutput[0]:"
    ] * 2
    assert "exported on cpu" in report.notes[0]
    assert "moved to cpu" in report.notes[1]
