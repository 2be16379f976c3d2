"""Cases as jobs of an executor, which may be any that runs picklable jobs in other processes."""

from __future__ import annotations

import concurrent.futures
import multiprocessing

import pytest
from rich.console import Console

from exportlint.checks import elsewhere
from exportlint.checks.elsewhere import LostError, Pool
from exportlint.checks.runner import NamedCase, Options
from exportlint.cli.report_session import Session, run

CASES = """
import torch
from exportlint import ModelCase

class Branch(torch.nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x

linear = ModelCase(lambda: torch.nn.Linear(2, 2), (torch.ones(2, 2),), name="linear")
branch = ModelCase(Branch, (torch.ones(2, 2),), name="branch")
"""
OPTIONS = Options(checks=("capture",))


class Here(concurrent.futures.Executor):
    """Runs a job at once; some are lost."""

    def __init__(self, lost=()):
        self.lost, self.seen = lost, []

    def submit(self, job, case, *args):
        self.seen.append((job, case.name, *args))
        future = concurrent.futures.Future()
        if case.name in self.lost:
            future.set_exception(LostError("its worker was lost"))
        else:
            future.set_result(elsewhere.Answer(error="no answer", notes=("a note",), machine="m"))
        return future


def checked(executor, folder):
    session = Session(Console(stderr=True), pool=Pool(executor, OPTIONS, str(folder)))
    return run(("cases.py",), OPTIONS, session, None)[0]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "cases.py").write_text(CASES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_another_process_checks_them_as_this_one_would(folder):
    context = multiprocessing.get_context("spawn")
    found = checked(concurrent.futures.ProcessPoolExecutor(1, mp_context=context), folder)
    assert found.errors == ()
    outcomes = {case.name: (case.target, case.checks[0].outcome) for case in found.cases}
    assert outcomes == {"linear": ("cases.py:linear", "passed"), "branch": ("cases.py:branch", "failed")}
    assert found.environment.isolation.endswith("cases were checked by an executor, on 1 machine")


def test_one_that_is_lost_is_not_the_others_fault(folder):
    executor = Here(lost=("linear",))
    found = checked(executor, folder)
    assert {(error.target, error.message) for error in found.errors} == {
        ("cases.py:linear", "its worker was lost"),
        ("cases.py:branch", "no answer"),
    }
    assert executor.seen[0] == (elsewhere.check, "linear", OPTIONS, str(folder), None)
    assert "a note" in found.environment.isolation


def test_a_machine_without_the_folder_says_so(tmp_path):
    case = NamedCase("cases.py", "linear", {})
    answer = elsewhere.check(case, OPTIONS, str(tmp_path / "nowhere"), None)
    assert answer.case is None
    assert "cannot enter" in answer.error
    assert answer.error.endswith("No such file or directory")
