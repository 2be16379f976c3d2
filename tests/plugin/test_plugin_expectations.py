"""Failures that the configuration expects: those that are used count, and those about nothing are reported."""

from __future__ import annotations

import pytest
from plugin_runs import run
from pytest_exportlint import expectations, ledger, options

pytest_plugins = ["pytester"]


def expecting(*cases: tuple[str, str], checks: str = "") -> str:
    tables = [
        f'[[tool.exportlint.pytest.expected-failures]]\ncase = "{case}"\ncheck = "{check}"\nreason = "known"'
        for case, check in cases
    ]
    return "\n".join(["[tool.exportlint.pytest]", checks, *tables])


USED = """
from pytest_exportlint import ExportSuite

def test_of_a_fixture(export_check):
    export_check(Gate, X)

def test_observed():
    Gate()(torch.ones(2, 3))

class TestModels(ExportSuite):
    @pytest.fixture
    def case(self):
        return ModelCase(Gate, X)
"""


@pytest.mark.slow
def test_expectations_that_are_used_by_a_fixture_an_observer_and_a_suite_fail_nothing(tmp_path):
    used = [
        ("test_models.py::test_of_a_fixture", "capture"),
        ("export-observe::Gate", "capture"),
        ("test_models.py::TestModels", "capture"),
    ]
    (tmp_path / "pyproject.toml").write_text(expecting(*used, checks='checks = ["capture"]'))
    done = run(tmp_path, "import pytest\n" + USED, "--export-observe")
    assert "expected-failures" not in done.out
    assert done.status == pytest.ExitCode.OK
    assert done.tests["Gate[capture]"].outcome == "skipped"
    (tmp_path / "pyproject.toml").write_text(
        expecting(*used, ("export-observe::Gat", "capture"), checks='checks = ["capture"]')
    )
    wrong = run(tmp_path, "import pytest\n" + USED, "--export-observe")
    assert wrong.out.count("pyproject.toml: expected-failures: ") == 1
    assert "pyproject.toml: expected-failures: export-observe::Gat is no case" in wrong.out
    assert wrong.status == pytest.ExitCode.TESTS_FAILED


# No test calls the fixture, so nothing of torch is needed.
FILES = {
    "tests/test_a.py": "def test_a(export_check): ...\n\ndef test_b(export_check): ...\n\ndef test_plain(): ...\n",
    "tests/test_skipped.py": "import pytest\npytest.skip('not here', allow_module_level=True)\n",
    "more/test_c.py": "def test_c(export_check): ...\n",
}


@pytest.fixture
def repository(pytester):
    for name, text in FILES.items():
        file = pytester.path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return pytester


def unmatched(pytester, cases, *arguments) -> list[str]:
    pytester.path.joinpath("pyproject.toml").write_text(
        expecting(*((case, "capture") for case in cases))
        + '\n[tool.pytest.ini_options]\ntestpaths = ["tests", "more"]\n'
    )
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider", *arguments)
    found = [line.partition("expected-failures: ")[2] for line in done.outlines if "expected-failures: " in line]
    assert (done.ret == pytest.ExitCode.TESTS_FAILED) is bool(found), done.outlines
    told = [line for line in done.outlines if line.startswith(("error: ", "the run fails"))]
    assert len(told) == len(found) + bool(found)
    return [line.removesuffix(" is no case") for line in found]


def test_tests_that_use_the_fixture_are_cases_and_others_are_none(repository):
    cases = [
        "tests/test_a.py::test_a",
        "tests/test_a.py::test_plain",
        "tests/test_a.py::test_gone",
        "more/test_c.py::*",
    ]
    assert unmatched(repository, cases) == ["tests/test_a.py::test_plain", "tests/test_a.py::test_gone"]


GONE = ["tests/test_a.py::gone", "tests/test_gone.py::gone", "more/test_c.py::gone", "more/*::gone", "gone.py::x"]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ((), GONE),
        (("tests",), GONE[:2]),
        (("tests/test_a.py",), GONE[:1]),
        (("tests/test_a.py::test_a",), []),
        (("-k", "test_a"), GONE),  # which deselects, but everything was collected
        (("--ignore=tests/test_a.py",), GONE[1:]),
        (("--lf",), []),
        (("--collect-only",), []),
    ],
)
def test_what_is_looked_for_where_all_of_it_was_collected_is_missed(repository, arguments, found):
    if "--lf" in arguments:
        arguments = (*arguments, "-p", "cacheprovider")
    assert unmatched(repository, GONE, *arguments) == found


def test_a_file_that_was_skipped_may_hold_any_case(repository):
    assert unmatched(repository, ["tests/test_skipped.py::Net", "tests/test_skip*::Net"]) == []


def test_observed_and_named_models_are_looked_for_only_where_they_were_asked_for(repository):
    assert unmatched(repository, ["export-observe::Net", "export-model::hf:bert"]) == []
    assert unmatched(repository, ["export-observe::Net"], "--export-observe=Other") == []
    assert unmatched(repository, ["export-observe::Net"], "--export-observe", "-k", "a") == []
    assert unmatched(repository, ["export-observe::Net"], "--export-observe") == ["export-observe::Net"]


SUITE = """
import pytest
from pytest_exportlint import ExportSuite

class TestModels(ExportSuite):
    @pytest.fixture
    def case(self):
        pytest.skip("not built")
"""


@pytest.mark.parametrize(
    ("check", "arguments", "missing"),
    [
        ("capture", (), False),
        ("device", (), False),
        ("device-second", (), False),
        ("device-cuda", (), True),
        ("device-cuda", ("--export-devices=meta",), False),
        ("steps", (), True),
        ("twins", ("--export-checks=capture",), False),
    ],
)
def test_a_check_that_no_item_of_the_case_has_is_reported(pytester, check, arguments, missing):
    pytester.makepyfile(test_suite=SUITE)
    pytester.path.joinpath("pyproject.toml").write_text(expecting(("test_suite.py::TestModels", check)))
    done = pytester.runpytest_inprocess(*arguments)
    told = any(
        line.endswith(f"expected-failures: test_suite.py::TestModels has no check {check}") for line in done.outlines
    )
    assert told is missing
    assert (done.ret == pytest.ExitCode.TESTS_FAILED) is missing


def test_workers_of_xdist_tell_what_they_met(pytester):
    pytester.makepyprojecttoml(expecting(("a.py::x", "capture"), ("a.py::y", "state")))
    settings = pytester.parseconfigure().stash[options.KEY]
    first, second, whole = (ledger.Ledger(settings) for _ in range(3))
    first.meet("a.py::x")
    second.meet("a.py::x", ["capture"])
    second.meet("a.py::unexpected", ["capture"])
    second.uncollected.add("b.py")
    for sent in (first.plain(), second.plain()):
        whole.merge(sent)
    assert whole.cases == {"a.py::x": {"capture"}}
    assert whole.uncollected == {"b.py"}


@pytest.mark.parametrize("check", ["device-cdua", "device-", "device-cpu"])
def test_devices_that_torch_does_not_know_are_refused(check):
    with pytest.raises(ValueError, match=r"is no device; known: second, meta"):
        expectations.validate(check, "")


def test_devices_that_torch_knows_are_taken(monkeypatch):
    monkeypatch.setattr("exportlint.checks.device_names._types", lambda: {"mtia"})
    expectations.validate("device-mtia", "")


def test_a_check_of_one_device_is_expected_under_its_own_name_too():
    known = [expectations.Expectation(case="a", check="device-second", reason="because")]
    assert expectations.reasons(known, expectations.label_of("device", ["second"])) == "because"
    assert expectations.reasons(known, expectations.label_of("device", ["second", "meta"])) is None
