"""Every failure says the command that runs it again, and nothing else."""

from __future__ import annotations

import shlex

import pytest
from plugin_runs import run
from pytest_exportlint import repeating

pytest_plugins = ["pytester"]

TESTS = """
import pytest

class Wide(Gate):
    pass

@pytest.mark.parametrize("n", [1, 2])
def test_fixture(export_check, n):
    export_check(Gate, X)

def test_observed():
    Wide()(torch.ones(2, 3))
"""


@pytest.mark.slow
def test_commands_of_the_fixture_and_of_observed_classes_fail_in_the_same_way(tmp_path):
    done = run(tmp_path, TESTS, "--export-observe", "--export-checks", "capture", "--export-timeout", "90")
    fixture = done.tests["test_fixture[2]"].lines[-1]
    observed = done.tests["Wide[capture]"].lines[-1]
    assert fixture == "repeat: pytest 'test_models.py::test_fixture[2]' --export-checks=capture --export-timeout=90"
    assert observed == (
        "repeat: pytest test_models.py::test_observed --export-observe=Wide --export-checks=capture --export-timeout=90"
    )
    _, _, *arguments = shlex.split(observed)
    again = run(tmp_path, TESTS, *arguments)
    assert {name: said.outcome for name, said in again.tests.items()} == {
        "test_observed": "passed",
        "Wide[capture]": "failed",
    }
    assert again.tests["Wide[capture]"].lines[-1] == observed
    assert again.tests["Wide[capture]"].lines[0] == done.tests["Wide[capture]"].lines[0]


LOOPS = """
import pytest

class Loop(nn.Module):
    def forward(self, x):
        for i in range(x.shape[1]):
            x = x + x[:, i : i + 1]
        return x

@pytest.mark.parametrize("n", [5, 5, 9])
def test_sizes(n):
    Loop()(torch.ones(2, n))

def test_another():
    pass
"""


def test_a_case_of_several_tests_is_repeated_by_all_whose_calls_made_it(tmp_path):
    done = run(tmp_path, LOOPS, "--export-observe", "--export-checks", "shapes")
    said = done.tests["Loop[shapes]"].lines
    tests = [f"test_models.py::test_sizes[{name}]" for name in ("5_0", "9")]
    assert said[-2] == f"called by {', '.join(tests)}"
    _, _, *arguments = shlex.split(said[-1])
    assert arguments == [*tests, "--export-observe=Loop", "--export-checks=shapes"]
    again = run(tmp_path, LOOPS, *arguments)
    assert again.tests["Loop[shapes]"].outcome == "failed"
    assert again.tests["Loop[shapes]"].lines[-1] == said[-1]


@pytest.mark.parametrize(
    ("case", "shown"), [("Net", "Net"), ("Net-2", "Net"), ("test_a.<locals>.Net", "'test_a.<locals>.Net'")]
)
def test_observed_classes_are_named_without_the_number_of_their_configuration(pytester, case, shown):
    config = pytester.parseconfigure("--export-examples=3")
    command = repeating.of_observed(config, ["sub/test_a.py::test_b"], case, "shapes")
    option = shlex.quote(f"--export-observe={shown.strip(chr(39))}")
    assert command == f"pytest sub/test_a.py::test_b {option} --export-checks=shapes --export-examples=3"


# Options that say what is run, which the command says in its own way, and those that change nothing that a check finds.
SAID_OTHERWISE = {"checks", "models", "observe"}
OF_NO_CONSEQUENCE = {"cache_dir", "no_cache", "reports", "github"}


def test_every_option_that_changes_what_a_check_finds_is_in_the_command(pytester):
    config = pytester.parseconfig("--export-reload-python=a/python", "--export-reload-python=b c/python")
    known = {name.removeprefix("exportlint_") for name in vars(config.option) if name.startswith("exportlint_")}
    assert known == {*repeating.GIVEN, "pythons"} | SAID_OTHERWISE | OF_NO_CONSEQUENCE
    said = shlex.split(repeating.of_observed(config, [], "Net", "reload"))
    assert said[-2:] == ["--export-reload-python=a/python", "--export-reload-python=b c/python"]
