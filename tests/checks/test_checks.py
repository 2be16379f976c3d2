"""The checks capture, shapes and reload on small models, in forked workers."""

from __future__ import annotations

import functools
import inspect
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from commands import marked
from torch import nn
from torch.export import Dim

from exportlint import Method, ModelCase, Tolerance
from exportlint.checks.runner import Options, Runner

HERE = Path(__file__)
X, X5 = torch.randn(4, 3), torch.randn(5, 3)
ROWS = {"x": {0: Dim("rows", min=1, max=32)}}


def run(case: ModelCase, *checks: str, examples: int = 12):
    with Runner(Options(checks=checks, examples=examples)) as runner:
        return {check.name: check for check in runner.check_object(case, "t").checks}


def found(check):
    """Rule and line, or words where no line of this file is meant."""
    return [(f.rule, f.line if f.file and f.file.endswith(HERE.name) else f.file) for f in check.findings]


def module(forward, **attributes):
    return type(forward.__name__.title(), (nn.Module,), {"forward": forward, **attributes})


# ---- capture --------------------------------------------------------------------------------------------------------


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 30)

    def forward(self, x):
        x = self.first(x)
        if x.sum() > 0:  # at: first branch
            x = x + 1
        if x.mean() > 9:  # at: second branch
            x = x - 1
        return self.second(x)


class Reserved(nn.Module):
    def __init__(self):
        super().__init__()
        self.code = nn.Linear(3, 3)  # at: reserved

    def forward(self, x):
        return self.code(x)


def identity_of_arguments(self, x):
    import time

    return x + (time.time() if not torch.compiler.is_exporting() else 0.0)  # at: sum with the time


def narrow(self, x):
    return x + torch.ones(int(x.shape[0]), 1)  # at: narrow


def test_all_that_fails_is_listed_and_what_does_export_is_named():
    capture = run(ModelCase(Branching, (X,)), "capture")["capture"]
    assert capture.outcome == "failed"
    assert found(capture) == [("EXP101", marked(HERE, "first branch")), ("EXP101", marked(HERE, "second branch"))]
    assert "these submodules do export by themselves: second, first" in capture.notes


def test_a_reserved_name():
    capture = run(ModelCase(Reserved, (X,)), "capture")["capture"]
    assert found(capture) == [("EXP602", marked(HERE, "reserved"))]


def test_a_program_that_answers_something_else():
    capture = run(ModelCase(module(identity_of_arguments), (X,)), "capture")["capture"]
    assert (capture.outcome, found(capture)) == ("failed", [("EXP004", marked(HERE, "sum with the time"))])
    assert "values differ" in capture.findings[0].evidence


def test_dynamic_shapes_that_are_refused():
    capture = run(ModelCase(module(narrow), (X,), dynamic_shapes=ROWS), "capture", "shapes")
    assert found(capture["capture"]) == [("EXP301", marked(HERE, "narrow"))]
    assert (capture["shapes"].outcome, capture["shapes"].reason) == ("not_checked", "the model is not captured")


def test_random_operators_and_dropout_are_no_difference():
    def noisy(self, x):
        return nn.functional.dropout(x, 0.5) + torch.randn_like(x)

    assert run(ModelCase(module(noisy), (X,)), "capture")["capture"].outcome == "passed"


# ---- shapes ---------------------------------------------------------------------------------------------------------


def good(self, x):
    return x / x.sum(dim=1, keepdim=True).clamp(min=1e-3), x.shape[0]


def bounded(self, x):
    if x.shape[0] > 6:  # at: bounded
        return x[:6]
    return x


def wrong_for_others(self, x):
    if torch.compiler.is_exporting():
        return x * 2
    if x.shape[0] == 7:  # at: seven
        return x * 3
    return x * 2


def picky(self, x):
    if not torch.compiler.is_exporting() and float(x.sum()) != float(X.sum()):
        raise ValueError("only this one")
    return x


def frozen(self, x):
    return torch.zeros(int(x.shape[0])) + x.sum()  # at: frozen


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return x + self.calls


AUTO = {"x": {0: Dim.AUTO}}
DYNAMIC = {"x": {0: Dim.DYNAMIC}}


@pytest.mark.parametrize(
    ("case", "outcome", "places"),
    [
        (ModelCase(module(good), (X,), dynamic_shapes=ROWS), "passed", []),
        (ModelCase(module(good), (X,), inputs2=(X5,)), "passed", []),
        (ModelCase(module(good), (X,), dynamic_shapes=AUTO, inputs2=(X5,)), "passed", []),
        (ModelCase(Counting, (X,), dynamic_shapes=ROWS), "passed", []),
        (ModelCase(module(bounded), (X,), dynamic_shapes=DYNAMIC), "failed", [("EXP301", "bounded")]),
        (ModelCase(module(bounded), (X,), dynamic_shapes=AUTO), "failed", [("EXP301", "bounded")]),
        (ModelCase(module(bounded), (X,), inputs2=(torch.ones(9, 3),)), "failed", [("EXP301", "bounded")]),
        (ModelCase(module(frozen), (X,), inputs2=(X5,)), "failed", [("EXP301", "frozen")]),
        (ModelCase(module(frozen), (X,), dynamic_shapes=AUTO), "failed", [("EXP301", "frozen")]),
    ],
)
def test_shapes(case, outcome, places):
    shapes = run(case, "capture", "shapes")["shapes"]
    assert (shapes.outcome, found(shapes)) == (outcome, [(rule, marked(HERE, mark)) for rule, mark in places]), shapes
    assert all(f.severity == "warning" for f in shapes.findings)  # sizes that are refused: nothing is silently wrong


def test_a_wrong_answer_for_one_size_alone():
    shapes = run(ModelCase(module(wrong_for_others), (X,), dynamic_shapes=ROWS), "shapes", examples=60)["shapes"]
    assert shapes.outcome == "failed"
    (finding,) = shapes.findings
    assert finding.line == marked(HERE, "seven")
    assert "x of shape [7, 3]" in finding.evidence
    assert "they part in" in finding.evidence
    assert "first at the node" in finding.evidence


def test_the_smallest_shape_is_told():
    shapes = run(ModelCase(module(bounded), (X,), dynamic_shapes=DYNAMIC), "shapes", examples=40)["shapes"]
    assert "x of shape [7, 3] (zeros)" in shapes.findings[0].evidence


@pytest.mark.parametrize(
    ("case", "examples", "words"),
    [
        (ModelCase(module(good), (X,)), 5, "no dimension is dynamic: dynamic_shapes and inputs2 are missing"),
        (ModelCase(module(picky), (X,), dynamic_shapes=ROWS), 5, "the eager model refused every call"),
        (ModelCase(module(good), (X,), dynamic_shapes=ROWS), 0, "no call was tried: there is no inputs2"),
    ],
)
def test_shapes_that_are_not_checked(case, examples, words):
    shapes = run(case, "shapes", examples=examples)["shapes"]
    assert shapes.outcome == "not_checked"
    assert shapes.reason.startswith(words)


def test_the_second_example_is_tried_without_drawing():
    shapes = run(
        ModelCase(module(bounded), (X,), dynamic_shapes=DYNAMIC, inputs2=(torch.ones(9, 3),)), "shapes", examples=0
    )
    assert found(shapes["shapes"]) == [("EXP301", marked(HERE, "bounded"))]
    assert "x of shape [9, 3] (inputs2)" in shapes["shapes"].findings[0].evidence


def test_a_tolerance():
    def rough(self, x):
        return x * (1.001 if torch.compiler.is_exporting() else 1.0)

    case = functools.partial(ModelCase, module(rough), (X,), dynamic_shapes=ROWS)
    assert [c.outcome for c in run(case(), "capture", "shapes", examples=3).values()] == ["failed", "failed"]
    loose = run(case(tolerance=Tolerance(rtol=0.01)), "capture", "shapes", examples=3)
    assert [c.outcome for c in loose.values()] == ["passed", "passed"]


# ---- what was not compared is not passed -----------------------------------------------------------------------------


class Counted(nn.Module):
    calls = 0

    def forward(self, x):
        self.calls = self.calls + 1  # at: counted
        return x * self.calls


COUNTED = Counted()


def test_a_factory_that_returns_one_object_is_given_a_fresh_copy_each_time():
    checks = run(ModelCase(lambda: COUNTED, (X,), name="one"), "capture", "state")
    assert checks["capture"].outcome == "passed"
    assert found(checks["state"]) == [("EXP501", marked(HERE, "counted"))]
    assert COUNTED.calls == 0


def appends(self, items):
    items.append(items[0] + 1)
    return items[0] * 2


def test_inputs_that_the_program_leaves_as_they_are():
    capture = run(ModelCase(module(appends), ([X],)), "capture")["capture"]
    assert capture.outcome == "failed"
    assert "changes its inputs" in capture.reason


@pytest.mark.parametrize("args", [(X, X), ()])
def test_a_call_that_forward_does_not_take_is_placed_where_forward_begins(args):
    (finding,) = run(ModelCase(AsksForTraining, args), "capture")["capture"].findings
    assert (finding.rule, finding.source) == ("EXP002", "def forward(self, x):")
    assert finding.line == inspect.getsourcelines(AsksForTraining.forward)[1]


class AsksForTraining(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x, 0.5, self.training)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (nn.Dropout, "Dropout"),
        (lambda: nn.Dropout(0.0), ""),
        (lambda: nn.BatchNorm1d(3), "BatchNorm1d"),
        (nn.RReLU, "RReLU"),
        (AsksForTraining, "AsksForTraining"),
        (lambda: AsksForTraining().eval(), ""),
        (lambda: nn.MultiheadAttention(3, 1), ""),
        (lambda: nn.LSTM(3, 3, 2, dropout=0.5), "LSTM"),
        (nn.ReLU, ""),
    ],
)
def test_training_mode_is_noted_where_it_matters(make, named):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = make()

        def forward(self, x):
            if isinstance(self.part, nn.MultiheadAttention):
                return self.part(x, x, x)[0]
            return self.part(x[:, :3])

    notes = run(ModelCase(Net, (torch.randn(5, 3),)), "capture")["capture"].notes
    wanted = (f"captured in training mode, which matters to {named}: call eval() first",) if named else ()
    assert tuple(note for note in notes if "training" in note) == wanted


def writes(self, x):
    x[0] = 0
    return x * 2


def test_inputs_that_both_change_alike():
    assert run(ModelCase(module(writes), (X,)), "capture")["capture"].outcome == "passed"


def optional(self, x, mask=None):
    return x if mask is None else x * mask


def test_a_second_call_of_another_structure_is_not_checked():
    shapes = run(ModelCase(module(optional), (X,), inputs2=(X, X > 0)), "capture", "shapes")["shapes"]
    assert (shapes.outcome, shapes.findings) == ("not_checked", ())
    assert "structure of the example" in shapes.reason


def test_a_second_call_that_the_model_refuses_is_the_cases_fault():
    case = ModelCase(lambda: nn.Linear(3, 3), (X,), inputs2=(torch.ones(2, 4),), name="linear")
    shapes = run(case, "capture", "shapes")["shapes"]
    assert (shapes.outcome, [f.rule for f in shapes.findings]) == ("errored", ["EXP002"])
    assert "further call" in shapes.reason


def test_a_range_of_values_for_an_input_that_there_is_not():
    case = ModelCase(module(good), (X,), dynamic_shapes=ROWS, value_ranges={"y": (0, 3)})
    shapes = run(case, "capture", "shapes")["shapes"]
    assert shapes.outcome == "errored"
    assert "value_ranges names 'y', which is no tensor input; there are: x" in shapes.reason


def test_twins_that_were_not_compared():
    twins = run(ModelCase(module(good), (torch.arange(6).reshape(2, 3),)), "twins")["twins"]
    assert (twins.outcome, twins.findings) == ("not_checked", ())


def prints(self, x):
    torch.ops.aten._print("hello")
    return x * 2


def test_a_program_that_prints_is_loaded_in_a_fresh_interpreter():
    reload = run(ModelCase(module(prints), (X,)), "reload")["reload"]
    assert "in a fresh interpreter" in reload.notes
    assert reload.outcome == "passed", reload


def test_a_module_that_cannot_be_copied_needs_a_factory():
    model = nn.Linear(3, 3)
    model.lock = threading.Lock()
    capture = run(ModelCase(model, (X,)), "capture")["capture"]
    assert capture.outcome == "errored"
    assert "pass a factory that makes a new one" in capture.reason


def test_what_an_expected_failure_confirms_is_expected():
    case = ModelCase(Branching, (X,), expected_failures={"capture": "has branches"})
    checks = run(case, "capture", "lint")
    assert {f.verdict for f in checks["lint"].findings if f.counts} == {"confirmed"}
    assert not any(check.red for check in checks.values())


class Both(nn.Module):
    def forward(self, x):
        return x * 2

    def twice(self, x):
        return self.forward(self.forward(x))


def test_a_method_that_calls_forward():
    (case,) = ModelCase(Both, methods={"twice": Method((X,), dynamic_shapes=ROWS)}).expand()
    checks = run(case, "capture", "shapes")
    assert [(c.outcome, c.findings) for c in checks.values()] == [("passed", ())] * 2


# ---- reload ---------------------------------------------------------------------------------------------------------


@dataclass
class Output:
    logits: torch.Tensor


def register() -> None:
    if Output not in torch.utils._pytree.SUPPORTED_NODES:
        torch.export.register_dataclass(Output, serialized_type_name="exportlint_tests.Output")


def returns_dataclass(self, x):
    register()
    return Output(x * 2)  # at: own class


def test_a_program_that_needs_its_source_to_be_loaded():
    reload = run(ModelCase(module(returns_dataclass), (X,)), "capture", "reload")["reload"]
    assert reload.outcome == "failed"
    assert found(reload) == [("EXP701", marked(HERE, "own class"))]


@dataclass
class Sample:  # at: input class
    x: torch.Tensor


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


def doubled(self, sample):
    return sample.x * 2


def returns_pair(self, x):
    return Pair(x, x * 2)  # at: named tuple


def test_a_class_of_the_inputs_is_the_callers_to_have():
    torch.export.register_dataclass(Sample, serialized_type_name="exportlint_tests.Sample")
    reload = run(ModelCase(module(doubled), (Sample(X),)), "capture", "reload")["reload"]
    assert reload.outcome == "passed"
    assert [f.severity for f in reload.findings] == ["info"]
    assert found(reload) == [("EXP701", marked(HERE, "input class"))]


def test_what_torch_itself_cannot_save_is_not_checked():
    reload = run(ModelCase(module(returns_pair), (X,)), "capture", "reload")["reload"]
    assert reload.outcome == "not_checked"
    assert reload.reason.startswith("the program cannot be saved: NotImplementedError: ")
    assert [f.severity for f in reload.findings] == ["info"]
    assert found(reload) == [("EXP701", marked(HERE, "named tuple"))]


def test_a_program_that_can_be_loaded():
    case = ModelCase(module(good), (X,), dynamic_shapes=ROWS)
    reload = run(case, "reload")["reload"]
    assert (reload.outcome, reload.findings) == ("passed", ())
    assert reload.reason.startswith("loads in ")
    assert "in a fresh interpreter" in reload.notes


def test_a_model_that_is_not_captured_is_not_loaded():
    checks = run(ModelCase(Branching, (X,)), "capture", "reload")
    assert checks["reload"].outcome == "not_checked"
    assert checks["reload"].reason.startswith("the model is not captured")


# ---- silenced findings ----------------------------------------------------------------------------------------------


def on_the_cpu(self, x):
    return x * torch.ones(3, device="cpu")  # exportlint: ignore[EXP201]


def on_the_cpu_too(self, x):
    return x * torch.ones(3, device="cpu")  # noqa: EXP203


def test_what_a_comment_silences_does_not_count():
    device = run(ModelCase(module(on_the_cpu), (X,)), "device")["device"]
    assert (device.outcome, [f.severity for f in device.findings]) == ("passed", ["info"])
    assert device.findings[0].evidence == "silenced by a comment on the line"


def test_a_comment_about_another_rule_silences_nothing():
    device = run(ModelCase(module(on_the_cpu_too), (X,)), "device")["device"]
    assert (device.outcome, [f.severity for f in device.findings]) == ("failed", ["warning"])


class Two(nn.Module):
    def forward(self, x):
        return x * 2


def test_predictions_about_what_did_not_run_are_information():
    lint = run(ModelCase(Two, (X,)), "capture", "lint")["lint"]
    elsewhere = [f for f in lint.findings if f.line == marked(HERE, "first branch")]
    assert [(f.severity, f.verdict, f.evidence) for f in elsewhere] == [
        ("info", "not_exercised", "the line did not run")
    ]
    assert lint.outcome == "passed"
