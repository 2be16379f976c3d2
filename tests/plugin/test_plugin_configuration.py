"""The configuration [tool.exportlint.pytest], and failures that are expected."""

from __future__ import annotations

import pytest
from plugin_runs import run
from pytest_exportlint import expectations, options

from exportlint import config

pytest_plugins = ["pytester"]

FULL = """
[tool.exportlint.pytest]
checks = ["capture", "device", "shapes"]
devices = ["second", "meta"]
examples = 7
timeout = 60
memory = 4.5
isolation = "fork"
cache-dir = ".verdicts"
observe-limit = 9
tolerance = { rtol = 1e-4, atol = 0 }

[[tool.exportlint.pytest.expected-failures]]
case = "test_models.py::Gate"
check = "capture"
reason = "branches"
torch = ">=2.10"
"""


def read(pytester, *arguments: str) -> options.Settings:
    return pytester.parseconfigure(*arguments).stash[options.KEY]


def test_everything_can_be_configured_and_the_command_line_wins(pytester):
    pytester.makepyprojecttoml(FULL)
    settings = read(pytester)
    assert settings == options.Settings(
        checks=("capture", "device", "shapes"),
        devices=("second", "meta"),
        examples=7,
        timeout=60.0,
        memory=4.5,
        isolation="fork",
        tolerance=(1e-4, 0.0),
        cache=pytester.path / ".verdicts",
        observe_limit=9,
        expected=(
            expectations.Expectation(
                case="test_models.py::Gate",
                check="capture",
                reason="branches",
                torch=">=2.10",
                place=str(pytester.path / "pyproject.toml"),
            ),
        ),
    )
    assert settings.labels == ("capture", "device-second", "device-meta", "shapes")
    given = read(pytester, "--export-checks=twins", "--export-timeout=5", "--export-cache-dir=here")
    assert (given.checks, given.timeout, given.examples) == (("twins",), 5.0, 7)
    assert given.cache == pytester.path / "here"


def test_a_file_of_its_own_is_read_too(pytester):
    (pytester.path / "exportlint.toml").write_text("[pytest]\nexamples = 3\n")
    assert read(pytester).examples == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("chekcs = []", "pyproject.toml:2: chekcs in [tool.exportlint.pytest] is not known; did you mean 'checks'?"),
        ("\nzzz = 1", "pyproject.toml:3: zzz in [tool.exportlint.pytest] is not known; known: cache-dir, checks,"),
        ("checks = ['captur']", "pyproject.toml:2: checks in [tool.exportlint.pytest] is wrong: 'captur' is no check;"),
        ("cache-dir = 'pyproject.toml'", "exportlint: cache-dir: 'pyproject.toml' is no folder"),
        ("checks = 'capture'", "checks in [tool.exportlint.pytest] must be a list of strings, not a string"),
        ("devices = [1]", "devices in [tool.exportlint.pytest] must be a list of strings"),
        ("examples = 1.5", "examples in [tool.exportlint.pytest] is wrong: '1.5' is no whole number of at least 0"),
        ("examples = true", "examples in [tool.exportlint.pytest] must be a number, not a truth value"),
        ("memory = 1e300", "memory in [tool.exportlint.pytest] is wrong: '1e+300' is no number of GiB above 0"),
        ("memory = nan", "memory in [tool.exportlint.pytest] is wrong: 'nan' is no number of GiB above 0"),
        ("memory = 0", "memory in [tool.exportlint.pytest] is wrong: '0' is no number of GiB above 0"),
        (
            "tolerance = { rtol = -1 }",
            "rtol in [tool.exportlint.pytest.tolerance] must be finite and at least 0, not -1",
        ),
        ("expected-failures = 1", "expected-failures in [tool.exportlint.pytest] must be an array of tables, not 1"),
        (
            "expected-failures = [{ case = 'a', check = 'capture' }]",
            "expected-failures in [tool.exportlint.pytest] needs a reason, which is a string",
        ),
        (
            "expected-failures = [{ case = 'a', check = 'b', reason = 'c' }]",
            "expected-failures in [tool.exportlint.pytest] is wrong: 'b' is no check;",
        ),
        (
            "expected-failures = [{ case = 'a', check = 'capture', reason = 'c', torch = 'new' }]",
            "expected-failures in [tool.exportlint.pytest] is wrong: 'new' is no range of versions such as",
        ),
    ],
)
def test_a_mistake_is_one_line_with_its_place(pytester, text, words):
    pytester.makepyprojecttoml("").write_text(f"[tool.exportlint.pytest]\n{text}\n")
    pytester.makeini("")
    ran = pytester.runpytest_inprocess()
    assert ran.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in ran.errlines if line]
    assert words in line


def test_a_file_that_is_no_toml_is_one_line(pytester):
    (pytester.path / "exportlint.toml").write_text("[pytest]\nchecks = [\n")
    ran = pytester.runpytest_inprocess()
    assert ran.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in ran.errlines if line]
    assert "exportlint.toml is no TOML: " in line


def test_no_configuration_is_an_empty_table(tmp_path):
    assert config.read(tmp_path).values == {}
    (tmp_path / "pyproject.toml").write_text("[tool.other]\nexportlint = 1\n")
    assert config.read(tmp_path).values == {}


@pytest.mark.parametrize(
    ("torch", "holds"), [("", True), (">=2.10", True), ("<2.10", False), (">=2.13,<2.14", True), ("==2.14.*", False)]
)
def test_expectations_hold_for_a_range_of_torch(monkeypatch, torch, holds):
    monkeypatch.setattr(expectations, "torch_version", lambda: "2.13.0")
    known = expectations.Expectation(case="a.py::b*", check="device", reason="because", torch=torch)
    assert known.about("a.py::bc")
    assert not known.about("a.py::c")
    assert expectations.reasons([known], "device-cuda") == ("because" if holds else None)
    assert expectations.reasons([known], "capture") is None


EXPECTING = """
[tool.exportlint.pytest]
checks = ["capture"]

[[tool.exportlint.pytest.expected-failures]]
case = "test_models.py::gate"
check = "capture"
reason = "branches on purpose"

[[tool.exportlint.pytest.expected-failures]]
case = "test_models.py::fine"
check = "capture"
reason = "was broken"

[[tool.exportlint.pytest.expected-failures]]
case = "test_models.py::gone"
check = "capture"
reason = "was removed"
"""

TESTS = """
from exportlint import export_case

@export_case(X)
def gate():
    return Gate()

@export_case(X)
def fine():
    return Linear()
"""


def test_an_unexpected_pass_fails_and_an_expectation_about_nothing_is_reported(tmp_path):
    (tmp_path / "pyproject.toml").write_text(EXPECTING)
    done = run(tmp_path, TESTS, "--export-github")
    annotation = "::error file=pyproject.toml,title=exportlint::expected-failures: test_models.py::gone is no case"
    assert annotation in done.out
    assert "::error file=test_models.py,title=fine%3A capture " in done.out
    assert {name: said.outcome for name, said in done.tests.items()} == {
        "gate[capture]": "skipped",
        "fine[capture]": "failed",
    }
    assert "1 xfailed" in done.out
    assert "passes although it is expected to fail (was broken): remove the expectation" in done.out
    assert "expected-failures: test_models.py::gone is no case" in done.out
    part = run(tmp_path, TESTS, "test_models.py::gate[capture]")
    assert "is no case" not in part.out
    assert part.status == pytest.ExitCode.OK
    (tmp_path / "pyproject.toml").write_text(EXPECTING.replace("::fine", "::gone"))
    assert run(tmp_path, TESTS).status == pytest.ExitCode.TESTS_FAILED  # for what is no case, and nothing else
