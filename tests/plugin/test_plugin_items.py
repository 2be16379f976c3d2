"""Decorated factories are collected as one item for each check; the items of a case share one export."""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ET

import pytest
from plugin_runs import command, run, write

pytest_plugins = ["pytester"]

TESTS = """
import pathlib
import pytest
from exportlint import Method, export_case

EXPORTS = pathlib.Path(__file__).with_name("exports.txt")

@export_case(X, inputs2=(torch.ones(5, 3),))
class Counted(Linear):
    def forward(self, x):
        if torch.compiler.is_exporting():
            with EXPORTS.open("a") as file:
                print(os.getpid(), file=file)
        return super().forward(x)

@export_case(X)
@pytest.mark.export_xfail(check="capture", reason="branches on purpose")
def gate():
    return Gate()

@export_case(X, expected_failures={"capture": "aborts"})
class Abort(nn.Module):
    def forward(self, x):
        if torch.compiler.is_exporting():
            os.write(2, b"out of luck\\n")
            os.abort()
        return x

@export_case(X, name="bad")
class Bad(nn.Module):
    def forward(self, x):
        return x + torch.ones(3, device="cpu")[:, None].sum()

@pytest.mark.skip(reason="not today")
@export_case(X)
def skipped():
    raise RuntimeError

@export_case(methods={"encode": X, "decode": Method(X)})
class Pair(nn.Module):
    def encode(self, x):
        return x * 2

    def decode(self, x):
        return x / 2

def test_other():
    assert True
"""

MODEL_FILE = """
import torch
from exportlint import export_case

class NotCollected:
    pass

def test_of_a_model_file():
    raise RuntimeError("a model file holds no tests")

@export_case((torch.ones(2, 3),))
def doubling():
    class Double(torch.nn.Module):
        def forward(self, x):
            return x * 2
    return Double()
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("items")
    (folder / "nets.py").write_text(MODEL_FILE)
    checks = "--export-checks=capture,reload"
    return folder, run(folder, TESTS, checks, "--junitxml=junit.xml", "--durations=3", "--export-report=r.json", "-rs")


def outcomes(result) -> dict[str, str]:
    return {name: said.outcome for name, said in result.tests.items()}


def test_each_check_is_an_item_with_an_outcome_of_its_own(done):
    _, result = done
    assert outcomes(result) == {
        "Counted[capture]": "passed",
        "Counted[reload]": "passed",
        "gate[capture]": "skipped",  # xfailed
        "gate[reload]": "skipped",
        "Abort[capture]": "skipped",
        "Abort[reload]": "skipped",
        "bad[capture]": "passed",
        "bad[reload]": "passed",
        "skipped[capture]": "error",
        "skipped[reload]": "error",
        "Pair.encode[capture]": "passed",
        "Pair.encode[reload]": "passed",
        "Pair.decode[capture]": "passed",
        "Pair.decode[reload]": "passed",
        "test_other": "passed",
        "doubling[capture]": "passed",
        "doubling[reload]": "passed",
    }
    assert "2 xfailed" in result.out


def test_the_items_of_a_case_share_one_export(done):
    folder, _ = done
    assert len((folder / "exports.txt").read_text().splitlines()) == 1


def test_a_check_that_did_not_run_is_skipped_with_the_reason(done):
    _, result = done
    assert "not checked: the model is not captured" in result.out


def test_the_summary_has_the_table_the_slowest_and_what_was_not_checked(done):
    _, result = done
    out = result.out[result.out.index("export readiness") :]
    assert "7 cases, 14 checks: " in out
    assert "\nslowest: " in out
    assert "\n0 verdicts of 14 kept from an earlier run" in out
    assert "\nnot checked: reload of gate, Abort: the model is not captured" in out


def test_junit_and_durations_have_the_time_of_each_check(done):
    folder, _ = done
    times = {case.get("name"): float(case.get("time")) for case in ET.parse(folder / "junit.xml").iter("testcase")}
    assert len(times) == 17
    assert 0 < times["Counted[capture]"] < 30
    assert times["Counted[reload]"] > 0


def test_the_report_holds_all_cases(done):
    folder, _ = done
    from exportlint.report import read

    readiness = read(folder / "r.json")
    assert {case.name: case.target for case in readiness.cases if case.name in ("doubling", "bad", "Pair.encode")} == {
        "doubling": "nets.py::doubling",
        "bad": "test_models.py::bad",
        "Pair.encode": "test_models.py::Pair.encode",
    }
    assert not any(case.red for case in readiness.cases)


def test_verdicts_are_kept_and_a_subset_uses_them(done):
    folder, _ = done
    again = run(folder, TESTS, "--export-checks=capture,reload", "-k", "Counted or doubling")
    assert "4 verdicts of 4 kept from an earlier run" in again.out
    assert set(outcomes(again).values()) == {"passed"}
    assert len((folder / "exports.txt").read_text().splitlines()) == 1


FAILING = """
from exportlint import export_case

@export_case(X)
class Fine(Linear):
    pass

@export_case(X)
class Broken(Gate):
    def forward(self, x):
        return super().forward(x)

@export_case(X)
class Later(Linear):
    pass
"""


@pytest.mark.slow
def test_selection_last_failed_and_stepwise(tmp_path):
    first = run(tmp_path, FAILING, "--export-checks=capture,shapes", "-x", cache=True)
    assert outcomes(first) == {"Fine[capture]": "passed", "Fine[shapes]": "skipped", "Broken[capture]": "failed"}
    last = run(tmp_path, FAILING, "--export-checks=capture,shapes", "--lf", cache=True)
    assert outcomes(last) == {"Broken[capture]": "failed"}
    stepwise = run(tmp_path, FAILING, "--export-checks=capture,shapes", "--sw", cache=True)
    assert outcomes(stepwise)["Broken[capture]"] == "failed"
    assert "Later[capture]" not in outcomes(stepwise)
    one = run(tmp_path, FAILING, "test_models.py::Broken[capture]", "-vv")
    assert outcomes(one) == {"Broken[capture]": "failed"}
    text = one.tests["Broken[capture]"].text
    assert "repeat: pytest 'test_models.py::Broken[capture]'" in text
    assert "capture, in torch's own words:\nTraceback (most recent call last):" in text
    assert "in torch's own words" not in last.tests["Broken[capture]"].text


@pytest.mark.slow
def test_workers_share_the_export_of_a_case_and_their_results_are_one_report(tmp_path):
    arguments = ("--export-checks=capture,reload", "--export-report=r.json", "--export-no-cache")
    (tmp_path / "nets.py").write_text(MODEL_FILE)
    done = run(tmp_path, TESTS, "-n", "2", *arguments)
    from exportlint.report import read

    cases = read(tmp_path / "r.json").cases
    assert {case.name for case in cases} == {
        "Counted",
        "gate",
        "Abort",
        "bad",
        "Pair.encode",
        "Pair.decode",
        "doubling",
    }
    assert all(len(case.checks) == 2 for case in cases)
    assert len((tmp_path / "exports.txt").read_text().splitlines()) == 1
    assert "7 cases, 14 checks: " in done.out
    assert done.status == 0


def test_marks_that_mean_nothing_are_a_failure_of_one_line(tmp_path):
    tests = """
import pytest
from exportlint import export_case

@pytest.mark.export_xfail(check="capture")
@export_case(X)
class Fine(Linear):
    pass
"""
    done = run(tmp_path, tests, "--export-checks=capture")
    words = "the mark export_xfail takes check=, reason= and perhaps torch=, all of them strings"
    assert done.tests["Fine[capture]"].text == words


def test_collecting_imports_neither_the_compiler_nor_a_check(tmp_path):
    done = run_collect(tmp_path)
    assert "test_models.py::Counted[capture]" in done
    assert "IMPORTED []" in done


def run_collect(folder) -> str:
    write(folder, TESTS)
    (folder / "conftest.py").write_text(
        "import sys\n"
        "def pytest_unconfigure(config):\n"
        "    print('IMPORTED', [m for m in ('torch._dynamo', 'torch.export.passes', 'libcst') if m in sys.modules])\n"
    )
    # the head of the file imports torch.export itself, which brings torch's compiler along
    file = folder / "test_models.py"
    file.write_text(
        file.read_text().replace("from torch.export import Dim\n", "").replace("ROWS = ", "ROWS = None  # ")
    )
    done = subprocess.run(command("--collect-only", "-q"), cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


BARE = """
@export_case
def bare():
    return Linear()
"""
TWICE = """
@export_case(X)
def same():
    return Linear()

@export_case(X, name="same")
def other():
    return Gate()
"""
SHARED = """
with_x = export_case(lambda: X)

@with_x
def one():
    return Linear()

again = one
"""


@pytest.mark.parametrize(
    ("tests", "words"),
    [
        (BARE, "bare: @export_case needs the example call in parentheses, such as @export_case((x,))"),
        (TWICE, "more than one model case is named 'same': give each a name of its own"),
    ],
    ids=["no parentheses", "one name"],
)
def test_a_decorator_that_would_check_nothing_or_another_model_is_an_error_of_its_file(tmp_path, tests, words):
    write(tmp_path, f"from exportlint import export_case\n{tests}")
    done = subprocess.run(command("--collect-only", "-q"), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert f"test_models.py: {words}\n" in done.stdout
    assert "Traceback" not in done.stdout
    assert done.returncode == pytest.ExitCode.INTERRUPTED


def test_a_decorator_that_is_kept_and_a_factory_of_two_names_are_one_case(tmp_path):
    write(tmp_path, f"from exportlint import export_case\n{SHARED}")
    done = subprocess.run(command("--collect-only", "-q"), cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.count("test_models.py::one[capture]") >= 1
    assert "error" not in done.stdout
