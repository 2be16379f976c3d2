"""The fixture `export_check`: what passes, and what each kind of failure says."""

from __future__ import annotations

import re

import pytest
from plugin_runs import line_of, run
from pytest_exportlint.fixtures import USAGE
from pytest_exportlint.options import CHECKS

TESTS = """
from pytest_exportlint.options import DEFAULT_CHECKS

def test_passes(export_check):
    class Inside(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 4)

        def forward(self, x):
            return self.linear(x) + torch.arange(4, device=x.device)

    result = export_check(ModelCase(Inside, X, dynamic_shapes=ROWS))
    asked = tuple(name for name in DEFAULT_CHECKS if name not in ("steps", "methods", "training"))
    assert tuple(check.name for check in result.checks) == asked
    assert {check.outcome for check in result.checks} == {"passed"}
    assert (result.name, result.target) == ("Inside", "test_models.py::test_passes")

def test_error(export_check):
    export_check(Gate, X, checks=("capture",))

def test_later_lines_run_no_more(export_check):
    export_check(Gate, X, checks=("capture",))
    raise RuntimeError("not reached")

def test_two_findings(export_check):
    class Two(nn.Module):
        def forward(self, x):
            mask = torch.ones(
                x.shape[1],
                device="cpu",
            )
            return x * mask.view(1, int(x.shape[1])) + x.new_zeros(int(x.shape[0]), 1)

    export_check(Two(), X, checks=("device", "shapes"), inputs2=(torch.ones(5, 3),))

def test_factory_raises(export_check):
    def broken():
        raise OSError("no such weights")

    export_check(broken, X)

def test_abort(export_check):
    class Abort(nn.Module):
        def forward(self, x):
            if torch.compiler.is_exporting():
                os.abort()
            return x

    export_check(Abort, X, checks=("capture", "device"))

def test_after_the_abort(export_check):
    assert not export_check(Linear, X, checks=("capture",)).red

def test_expected(export_check):
    result = export_check(Gate, X, checks=("capture",), expected_failures={"capture": "needs its branch"})
    assert result.checks[0].expected == "needs its branch"

def test_unexpected_pass(export_check):
    export_check(Linear, X, checks=("capture",), expected_failures={"capture": "was broken"})

def test_settings_change_a_case(export_check):
    case = ModelCase(Gate, X, name="gate")
    assert export_check(case, checks="capture", expected_failures={"capture": "known"}).name == "gate"
    assert not case.expected_failures

def test_busy_parent(export_check):
    weight = torch.randn(2000, 2000, requires_grad=True)
    (weight @ weight).sum().backward()
    assert not export_check(Linear(), X, checks=("capture",)).red

def test_methods(export_check):
    class Pair(nn.Module):
        def encode(self, x):
            return x * 2

        def decode(self, x):
            return x / 2

    result = export_check(Pair, methods={"encode": X, "decode": X}, checks=("capture",))
    assert [(c.name, c.outcome) for c in result.checks] == [("encode.capture", "passed"), ("decode.capture", "passed")]
    assert result.name == "Pair"

def test_lambda(export_check):
    assert export_check(lambda: Linear(), lambda: X, checks=["capture"]).name == "test_lambda"

def test_library_model(export_check):
    export_check(nn.LSTM(3, 4), (torch.ones(2, 5, 3),), checks=["capture"],
                 dynamic_shapes=({0: Dim("batch"), 1: Dim("time")},))

def test_unknown_check(export_check):
    export_check(Linear, X, checks=("captur",))

def test_arguments_beside_a_case(export_check):
    export_check(ModelCase(Linear, X), X)

def test_tensor_for_a_tuple(export_check):
    export_check(Linear, torch.ones(2, 3))

def test_no_model(export_check):
    export_check()

def test_no_inputs(export_check):
    export_check(Gate(), checks=("capture",))

def test_no_inputs_of_a_case(export_check):
    export_check(ModelCase(lambda: Gate(), name="bare"), checks=("capture",))

def test_unknown_setting(export_check):
    export_check(Linear, X, dynamic_shape=ROWS)
"""

ONE_TENSOR = "args of case 'Linear' must be a tuple or a function, not Tensor; for one argument write (x,)"
PASSED = {
    "test_passes", "test_after_the_abort", "test_expected", "test_settings_change_a_case", "test_busy_parent",
    "test_methods", "test_lambda",
}  # fmt: skip


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    return run(tmp_path_factory.mktemp("fixtures"), TESTS)


def test_what_should_pass_passes_and_nothing_else(done):
    assert {name for name, said in done.tests.items() if said.outcome == "passed"} == PASSED
    assert len(done.tests) == TESTS.count("\ndef test_")
    assert {said.outcome for said in done.tests.values()} == {"passed", "failed"}
    assert done.status == pytest.ExitCode.TESTS_FAILED


def test_an_error_is_told_with_its_line_rule_and_rewrite(done):
    line = line_of("if x.sum() > 0")
    text = done.tests["test_error"].lines
    assert text[:7] == [
        f"Gate: capture failed: EXP101 at test_models.py:{line}",
        "",
        f"test_models.py:{line}: EXP101 branch-on-tensor (error, seen by capture)",
        ">           if x.sum() > 0:",
        "  Python asks for the truth value of a tensor, which has none while the model is captured",
        text[5],
        text[6],
    ]
    assert text[5].startswith("  why: ")
    assert text[6].startswith("  rewrite: ")
    assert any(line.startswith("  evidence: GuardOnDataDependentSymNode") for line in text)


def test_only_the_message_is_shown_and_no_stack(done):
    said = done.tests["test_error"]
    assert "Traceback" not in said.text
    assert "pytest_exportlint" not in said.text
    assert said.captured == ""  # what torch logs in the child is not the test's output


def test_a_failure_ends_the_test(done):
    assert "not reached" not in done.tests["test_later_lines_run_no_more"].text


def test_each_finding_has_its_own_message(done):
    text = done.tests["test_two_findings"].text
    assert text.startswith("Two: device failed, shapes failed: EXP201 at test_models.py:")
    assert "EXP201 device-literal (warning, seen by device)\n>               mask = torch.ones(\n" in text
    assert '>                   device="cpu",\n>               )\n' in text
    assert "EXP301 size-frozen (" in text
    assert ">               return x * mask.view" in text


def test_a_model_that_cannot_be_built(done):
    said = done.tests["test_factory_raises"]
    assert said.lines[0].startswith("broken: capture errored: EXP002 at test_models.py:")
    assert '>           raise OSError("no such weights")' in said.lines
    assert "  evidence: OSError: no such weights" in said.lines
    for check in ("reload", "device", "shapes"):
        assert f"broken: {check} not checked: the model does not run" in said.section


@pytest.mark.parametrize(("name", "case"), [("test_no_inputs", "Gate"), ("test_no_inputs_of_a_case", "bare")])
def test_a_case_without_inputs_is_told_to_give_some(done, name, case):
    lines = done.tests[name].lines
    assert re.fullmatch(rf"{case}: capture errored: EXP002 at test_models\.py:\d+", lines[0])
    assert "  the case gives no inputs, and the model takes some" in lines
    words = "Give the case an example call beside the model: args, a tuple such as (x,), or kwargs, a mapping."
    assert f"  rewrite: {words}" in lines
    assert "factory" not in done.tests[name].text


def test_an_abort_is_a_failure_of_its_test(done):
    text = done.tests["test_abort"].text
    assert text.startswith("Abort: capture crashed: EXP003 at test_models.py:")
    assert "the process was killed by SIGABRT during the export" in text
    assert ">                   os.abort()" in text
    assert "Current thread" not in done.out


def test_checks_that_did_not_run_are_mentioned(done):
    assert done.tests["test_passes"].section.startswith("Inside: info EXP205 device-baked: ")
    assert done.tests["test_after_the_abort"].section == ""
    assert "Gate: capture failed, as expected (needs its branch)" in done.tests["test_expected"].section


def test_an_unexpected_pass_fails(done):
    assert done.tests["test_unexpected_pass"].lines == [
        "Linear: capture failed",
        "",
        "capture failed: passes although it is expected to fail (was broken): remove the expectation",
        "",
        "repeat: pytest test_models.py::test_unexpected_pass",
    ]


def test_the_test_itself_is_not_blamed_for_a_library(done):
    text, _, again = done.tests["test_library_model"].text.partition("repeat: ")
    assert "test_models.py:" not in text
    assert again == "pytest test_models.py::test_library_model"


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("test_unknown_check", f"ValueError: 'captur' is no check; known: {', '.join(CHECKS)}; or all"),
        (
            "test_arguments_beside_a_case",
            "TypeError: a ModelCase holds its own arguments: args and kwargs are not taken beside it",
        ),
        ("test_tensor_for_a_tuple", f"TypeError: {ONE_TENSOR}"),
        (
            "test_no_model",
            f"TypeError: {USAGE}",
        ),
        ("test_unknown_setting", "TypeError: a model case takes no 'dynamic_shape'; did you mean 'dynamic_shapes'?"),
    ],
)
def test_bad_input_is_one_line_at_the_call(done, name, error):
    lines = done.tests[name].lines
    assert [line for line in lines if line.startswith("E ")] == [f"E       {error}"]
    assert lines[-1].startswith("test_models.py:")
