"""The class ExportSuite, and models that the command line names."""

from __future__ import annotations

import subprocess

import pytest
from plugin_runs import HEAD, command, run

from exportlint.findings import CHECKS

SUITE = """
import pytest
from exportlint import export_case
from pytest_exportlint import ExportSuite

CASES = [ModelCase(Linear, X, name="linear"), ModelCase(Gate, X, name="gate")]

@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
class TestModels(ExportSuite):
    pass

class TestOne(ExportSuite):
    @pytest.fixture
    def case(self):
        return ModelCase(Linear(), X, name="one")

class TestWrong(ExportSuite):
    @pytest.fixture
    def case(self):
        return Linear()

class TestOfMethods(ExportSuite):
    @pytest.fixture
    def case(self):
        return ModelCase(Linear, methods={"forward": X})
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    return run(tmp_path_factory.mktemp("suite"), SUITE, "--export-checks=capture,reload,twins", "-v")


def test_each_check_of_each_case_is_a_test(done):
    outcomes = {
        name: said.outcome for name, said in done.tests.items() if "Wrong" not in name and "Methods" not in name
    }
    assert outcomes == {
        "TestModels::test_capture[linear]": "passed",
        "TestModels::test_reload[linear]": "passed",
        "TestModels::test_twins[linear]": "passed",
        "TestModels::test_capture[gate]": "failed",
        "TestModels::test_reload[gate]": "skipped",
        "TestModels::test_twins[gate]": "skipped",
        "TestOne::test_capture": "passed",
        "TestOne::test_reload": "passed",
        "TestOne::test_twins": "passed",
    }


def test_the_tests_of_a_case_run_one_after_the_other(done):
    lines = [line.split(" ")[0] for line in done.out.splitlines() if line.startswith("test_models.py::TestModels::")]
    assert [line.partition("[")[2] for line in lines[:6]] == ["linear]"] * 3 + ["gate]"] * 3


def test_checks_that_were_not_asked_for_are_deselected(done):
    assert not any("test_state" in name for name in done.tests)
    assert "deselected" in done.out


def test_a_failure_is_the_message_alone(done):
    text = done.tests["TestModels::test_capture[gate]"].text
    assert text.startswith("gate: capture failed: EXP101 at test_models.py:")
    assert "During handling" not in text
    assert "repeat: pytest 'test_models.py::TestModels::test_capture[gate]'" in text


def test_what_is_no_case_is_said(done):
    assert "TypeError: case must be a ModelCase, not Linear" in done.tests["TestWrong::test_capture"].text
    assert "parametrise with case.expand()" in done.tests["TestOfMethods::test_capture"].text


MODELS = """
import torch
from torch import nn

class Image(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, pixels):
        return self.conv(pixels)

def build():
    return Image()

def inputs():
    return (torch.ones(1, 3, 8, 8),)
"""


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    folder = tmp_path_factory.mktemp("named")
    (folder / "nets.py").write_text(MODELS)
    models = ("--export-model=nets.py", "--export-model=nets:Image")
    return folder, run(
        folder, "def test_nothing(): raise RuntimeError", *models, "--export-checks=capture,state", "-rs"
    )


def test_models_of_the_command_line_are_checked_and_no_test_is_run(named):
    _, done = named
    assert {name: said.outcome for name, said in done.tests.items()} == {
        "nets.py[capture]": "passed",
        "nets.py[state]": "passed",
        "nets:Image[capture]": "passed",
        "nets:Image[state]": "passed",
    }


def test_inferred_inputs_are_said(named):
    folder, _ = named
    done = run(folder, "", "--export-model=nets:Image", "--export-checks=capture", "--export-report=r.json")
    assert done.status == 0
    from exportlint.report import read

    (case,) = read(folder / "r.json").cases
    words = "inputs inferred from the first layer, Conv2d and tried out: (2, 3, 32, 32); and once more with 3 rows"
    assert case.checks[0].notes == (words,)
    assert case.checks[0].cached


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("nowhere.py", "nowhere.py does not exist"),
        ("hf:", "'hf:' names no model: write hf:NAME, or hf:* for all"),
        ("no_such_package.models:build", "neither a file, a folder nor a module that can be found"),
    ],
)
def test_a_model_that_cannot_be_found_is_one_line_and_status_4(tmp_path, spec, words):
    (tmp_path / "test_models.py").write_text(HEAD)
    done = subprocess.run(
        command(f"--export-model={spec}"), cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
    assert len(lines) == 1
    assert words in lines[0]


@pytest.mark.slow
def test_a_model_type_of_transformers(tmp_path):
    pytest.importorskip("transformers")
    done = run(tmp_path, "", "--export-model=hf:bert", "--export-checks=capture")
    assert {name: said.outcome for name, said in done.tests.items()} == {"hf:bert[capture]": "passed"}
    assert done.status == 0
    unknown = subprocess.run(
        command("--export-model=hf:bertt"), cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert unknown.returncode == pytest.ExitCode.USAGE_ERROR
    assert "transformers has no model 'bertt'; did you mean bert" in unknown.stderr


NO_CASE = """
import pytest
from pytest_exportlint import ExportSuite

class TestNothing(ExportSuite):
    pass

@pytest.fixture
def case():
    return ModelCase(Linear, X, name="of the module")

class TestOther(ExportSuite):
    def test_own(self, missing):
        pass
"""


def test_a_suite_without_a_case_says_what_to_write(tmp_path):
    without = NO_CASE.replace("def case():", "def another():")
    done = run(tmp_path, without, "--export-checks=capture")
    said = done.tests["TestNothing::test_capture"]
    assert said.outcome == "error"
    assert said.text.splitlines()[0] == "TestNothing has no case: write what it checks above the class, as in"
    assert '@pytest.mark.parametrize("case", [ModelCase(...)], ids=lambda case: case.name)' in said.text
    assert "fixture 'missing' not found" in done.tests["TestOther::test_own"].text  # pytest's own words


def test_a_case_may_come_from_a_fixture_of_the_module(tmp_path):
    done = run(tmp_path, NO_CASE, "--export-checks=capture")
    assert done.tests["TestNothing::test_capture"].outcome == "passed"


SIZES = """
import pytest
from pytest_exportlint import ExportSuite

def test_alone(export_check):
    export_check(Linear, X, checks=("capture",))

@pytest.mark.parametrize("rows", [2, 3])
class TestSizes(ExportSuite):
    @pytest.fixture
    def case(self, rows):
        return ModelCase(Linear, (torch.ones(rows, 3),))
"""


def test_cases_of_one_name_are_told_apart_and_tests_that_are_left_out_explained(tmp_path):
    done = run(tmp_path, SIZES, "--export-checks", "capture")
    assert done.status == pytest.ExitCode.OK
    for name in ("Linear (test_alone)", "Linear (TestSizes[2])", "Linear (TestSizes[3])"):
        assert f"{name} capture" in done.out  # among the slowest
    (line,) = [line for line in done.out.splitlines() if "of suites deselected" in line]
    number = len(CHECKS) - 1
    assert line.startswith(f"{2 * number} tests of suites deselected, whose checks were not asked for: ")
    assert f"{2 * number} deselected" in done.out
