from __future__ import annotations

import dataclasses
import io
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from readiness_samples import passing, readinesses, sample, shared
from rich.console import Console

from exportlint.findings import DEFAULT_CHECKS, CaseResult, CheckResult, Readiness
from exportlint.report import markdown
from exportlint.report.comparing import compare
from exportlint.report.terminal import render, render_comparison


def printed(readiness, *, verbose=False, **options):
    file = io.StringIO()
    render(readiness, Console(file=file, **options), verbose=verbose)
    return file.getvalue()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(readinesses, st.sampled_from([10, 40, 80, 200]), st.booleans(), st.booleans())
def test_any_run_prints(readiness, width, verbose, terminal):
    text = printed(readiness, verbose=verbose, width=width, force_terminal=terminal)
    text.encode("utf-8")
    if not terminal:
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\ud800-\udfff]", text)
    # Only rich's own colours: no hyperlink, no cursor movement, nothing that a model printed.
    assert not re.search(r"\x1b(?!\[[0-9;]*m)", text)


def test_markup_is_shown_as_it_is():
    readiness = sample()
    case = readiness.cases[0]
    object.__setattr__(case, "name", "[bold]x[/] :smile:")
    assert "[bold]x[/] :smile:" in printed(readiness, width=120)


def test_findings_can_be_acted_on():
    text = printed(sample(), width=100)
    assert "models/decoder.py:21  error  EXP101 branch-on-tensor\n" in text
    assert "      if not keep.all():\n" in text
    assert "  rewrite: Mask without asking.\n" in text
    assert "  seen by decoder (capture, device)\n" in text
    # The warning has no rewrite of its own: the rule's is shown.
    assert "rewrite: Take the device from a tensor at hand" in text
    assert text.index("EXP101") < text.index("EXP201") < text.index("EXP205")
    assert "third line" in text
    assert "fourth line" not in text


def test_lines_that_break_several_cases_come_before_the_findings():
    text = printed(shared(), width=100)
    assert "root causes\n  2 cases  models/mask.py:7  EXP201 device-literal\n" in text
    assert "not exercised" not in text
    assert "EXP201: 1 confirmed, 0 refuted, 0 missed, 0 not exercised; precision 100 %, recall 100 %\n" in printed(
        shared(), width=100, verbose=True
    )


def test_what_changed_is_printed_worst_first():
    file = io.StringIO()
    render_comparison(compare(passing(), sample()), Console(file=file, width=100))
    text = file.getvalue()
    assert text.startswith("regressions\n  nowhere.py  load  no such file\n")
    assert "  decoder  capture  failed: EXP101 at models/decoder.py:21\n" in text
    assert "cases that are gone\n  model (model.py)\n" in text
    assert text.endswith("since the run before: 6 regressions, 4 new cases, 1 case gone\n")


def test_reasons_are_told_once_and_only_where_no_finding_tells_them():
    text = printed(sample(), width=100)
    assert "decoder  reload, shapes  not checked\n  the capture failed\n" in text
    assert "torch's words" not in text
    assert "torch's words" in printed(sample(), width=100, verbose=True)
    assert "nowhere.py\n  no such file\n" in text


@pytest.mark.parametrize("check", ["shapes", "twins"])
def test_a_pass_says_what_it_left_out(check):
    notes = ("x.shape[0] was drawn up to 8, not 64", f"branches: {'a.py:1, ' * 100}", "third", "fourth", "fifth")
    results = (CheckResult(name=check, outcome="passed", reason="7 calls", notes=notes),)
    run = Readiness(environment=sample().environment, cases=(CaseResult(name="m", target="m.py", checks=results),))
    text = printed(run, width=400)
    told = check == "shapes"
    assert ("m  shapes  passed\n  x.shape[0] was drawn up to 8, not 64\n" in text) == told
    assert ("and 2 more notes" in text) == told
    assert "fifth" not in text
    assert "fifth" in printed(run, width=400, verbose=True)
    assert max(map(len, text.splitlines())) < 400
    assert ("  * third" in markdown.render(run)) == told


def test_notes_are_one_short_block():
    text = printed(sample(), width=100)
    assert text.count("EXP205") == 1
    assert "info  EXP205 device-baked  24 places\n" in text
    assert "library/part1.py:1, 7, 13, 19" in text
    assert "and 2 more files" in text
    assert "and 2 more files" not in printed(sample(), width=100, verbose=True)


def test_closing_line():
    assert printed(passing(), width=100).endswith("1 case, 2 checks: 2 passed\n")
    last = printed(sample(), width=100).rstrip("\n").split("\n")[-1]
    assert last == (
        "4 cases, 10 checks: 2 passed, 2 failed, 1 errored, 1 crashed, 1 timed out, 2 not checked, "
        "1 expected failure; 1 error, 1 warning, 24 notes; 1 target could not be loaded"
    )


@pytest.mark.parametrize("width", [30, 39])
def test_narrow_terminals_get_a_list(width):
    text = printed(passing(), width=width, force_terminal=True, no_color=True, legacy_windows=False)
    assert "│" not in text
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert "capture: passed" in plain
    assert max(map(len, plain.split("\n"))) <= width


def test_many_checks_fit_a_usual_terminal():
    names = [name for name in DEFAULT_CHECKS if name not in ("steps", "methods", "training")]  # few cases ask for these
    outcomes = ("passed", "failed", "crashed", "not_checked", "timed_out", "errored", "passed")
    checks = tuple(CheckResult(name=name, outcome=word) for name, word in zip(names, outcomes, strict=True))
    readiness = dataclasses.replace(passing(), cases=(CaseResult(name="model", target="model.py", checks=checks),))
    lines = printed(readiness, width=80).split("\n")
    head = next(i for i, line in enumerate(lines) if line.split() == ["case", *names])
    assert lines[head + 2].split() == ["model", "ok", "FAILED", "CRASHED", "-", "TIME", "ERROR", "ok"]
    assert max(map(len, lines[: head + 3])) <= 80


def test_no_color(monkeypatch):
    colours = r"\x1b\[(?:[0-9;]*;)?[349][0-9]m"
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert re.search(colours, printed(sample(), width=100, force_terminal=True, color_system="standard"))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(colours, printed(sample(), width=100, force_terminal=True, color_system="standard"))


def test_log_lines_are_not_broken():
    text = printed(sample(), width=40)
    assert "  The branch asks a tensor for its truth value.\n" in text
