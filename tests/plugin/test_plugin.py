"""The plugin beside a repository's own tests: it changes nothing and costs nothing until a model is checked."""

from __future__ import annotations

import json

import pytest

pytest_plugins = ["pytester"]

# Says at the end of a run what was imported.
CONFTEST = """
import json, pathlib, sys

def pytest_unconfigure(config):
    pathlib.Path("modules.json").write_text(json.dumps(sorted(sys.modules)))
"""

TESTS = """
import pytest

@pytest.fixture
def model():
    return 1

class TestOld:
    @pytest.mark.parametrize("size", [1, 2])
    def test_size(self, model, size):
        assert model < size, "too small"

def test_with_the_fixture(export_check):
    pass
"""

# A file of model cases in a repository: not a test, and not to be imported.
CASES = """
raise ImportError("only exportlint reads this")

def build(): ...
def inputs(): ...
"""

COSTLY = {
    "torch",
    "libcst",
    "hypothesis",
    "rich",
    "jinja2",
    "exportlint.checks",
    "exportlint.report",
    "exportlint.rules",
}


@pytest.fixture
def repository(pytester):
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_old=TESTS, cases=CASES)
    return pytester


def modules(repository) -> set[str]:
    return set(json.loads((repository.path / "modules.json").read_text()))


@pytest.mark.parametrize("arguments", [("--collect-only",), ("-k", "fixture"), ("--help",)], ids=lambda a: a[0])
def test_nothing_costly_is_imported_before_a_model_is_checked(repository, arguments):
    # hypothesis has a plugin of its own, which imports it
    assert repository.runpytest_subprocess("-p", "no:hypothesispytest", *arguments).ret == pytest.ExitCode.OK
    imported = modules(repository)
    assert "pytest_exportlint.plugin" in imported
    assert imported & COSTLY == set()


def test_a_repository_collects_the_same_tests_with_and_without_the_plugin(repository):
    with_plugin = repository.runpytest_subprocess("--collect-only", "-q", "-p", "no:randomly")
    without = repository.runpytest_subprocess("--collect-only", "-q", "-p", "no:randomly", "-p", "no:exportlint")
    ids = [line for line in with_plugin.outlines if "::" in line]
    assert ids == [
        "test_old.py::TestOld::test_size[1]",
        "test_old.py::TestOld::test_size[2]",
        "test_old.py::test_with_the_fixture",
    ]
    assert [line for line in without.outlines if "::" in line] == ids


def test_results_of_a_repository_are_left_alone(repository):
    repository.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=2, failed=1)


def test_the_fixture_explains_itself(repository):
    lines = repository.runpytest_subprocess("--fixtures", "-q").outlines
    assert [line.partition(" -- ")[0] for line in lines if line.startswith("export")] == ["export_check"]
