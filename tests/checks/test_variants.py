from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from exportlint.checks import capture, loading, steps, training
from exportlint.checks.case import Method, ModelCase, Step
from exportlint.checks.context import Context, ModelError, Settings
from exportlint.checks.runner import Options, Runner
from exportlint.checks.weightless import WeightlessContext


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, index):
        return self.linear(x)[index]

    def double(self, x):
        return self.linear(x) * 2


ARGUMENTS = (torch.ones(2, 4), torch.tensor([1]))
ALL = ("bfloat16", "float16", "autocast")


def dtypes(case):
    ctx = Context(case, Settings(("capture",)), lambda _: None)
    result = capture.run(ctx)
    assert result.outcome == "passed"
    model, (args, _) = ctx.build(), ctx.example()
    targets = {str(node.target) for node in ctx.program().graph.nodes}
    return model.linear.weight.dtype, [arg.dtype for arg in args], ctx.expected().dtype, targets


def test_one_flag_makes_cases():
    cases = ModelCase(Net, ARGUMENTS, inputs2=ARGUMENTS, variants=ALL).expand()
    assert [case.name for case in cases] == ["Net", "Net[bfloat16]", "Net[float16]", "Net[autocast]"]
    single, half, autocast = torch.float32, torch.bfloat16, "wrap_with_autocast"
    assert dtypes(cases[0])[:3] == (single, [single, torch.int64], single)
    assert dtypes(cases[1])[:3] == (half, [half, torch.int64], half)
    assert dtypes(cases[2])[:3] == (torch.float16, [torch.float16, torch.int64], torch.float16)
    weight, args, result, targets = dtypes(cases[3])
    assert (weight, args, result) == (single, [single, torch.int64], half)
    assert any(autocast in target for target in targets)
    assert cases[1].further_examples()[0][0][0].dtype == half


@pytest.mark.parametrize("variant", ["bfloat16", "autocast"])
def test_methods_have_variants_too(variant):
    methods = {"double": Method((ARGUMENTS[0],), inputs2=(ARGUMENTS[0],)), "forward": ARGUMENTS}
    case = ModelCase(Net, methods=methods, variants=(variant,), steps={"go": Step(lambda _: (), method="double")})
    cases = case.expand()
    names = ["Net.double", "Net.forward", f"Net[{variant}].double", f"Net[{variant}].forward"]
    assert [case.name for case in cases] == names
    assert [part.asks_for("steps") for part in cases] == [True, False, True, False]
    assert [part.asks_for("methods") for part in cases] == [True, False, True, False]
    for part in cases[2:]:
        assert Context(part, Settings(()), lambda _: None).expected().dtype == torch.bfloat16


@pytest.mark.parametrize("factory", [True, False])
def test_an_object_that_each_variant_gets_stays_as_it_is(factory):
    model = Net()
    weights = model.linear.weight.detach().clone()
    plain, half, autocast = ModelCase(
        (lambda: model) if factory else model, ARGUMENTS, name="net", variants=("bfloat16", "autocast")
    ).expand()
    for case in (half, autocast, plain):
        ctx = Context(case, Settings(("capture",)), lambda _: None)
        assert capture.run(ctx).outcome == "passed"
    assert type(model) is Net
    assert model.linear.weight.dtype == torch.float32
    assert torch.equal(model.linear.weight, weights)
    assert Context(plain, Settings(()), lambda _: None).expected().dtype == torch.float32


def test_a_copy_of_a_model_under_autocast_computes_with_its_own_weights():
    model = ModelCase(Net, ARGUMENTS, variants=("autocast",)).expand()[1].model()
    copied = copy.deepcopy(model)
    with torch.no_grad():
        copied.linear.weight.zero_()
        copied.linear.bias.zero_()
    assert copied(*ARGUMENTS).any().item() is False


def test_steps_are_cast_too():
    case = ModelCase(
        Net, ARGUMENTS, steps={"go": Step(lambda moment: ARGUMENTS), "reset": None}, variants=("bfloat16",)
    )
    result = steps.run(Context(case.expand()[1], Settings(("steps",), examples=2), lambda _: None))
    assert (result.outcome, result.findings) == ("passed", ())


def test_a_module_that_exists_once_stays_as_it_is():
    model = Net()
    (_, half) = ModelCase(model, ARGUMENTS, variants=("bfloat16",)).expand()
    assert Context(half, Settings(()), lambda _: None).build().linear.weight.dtype == torch.bfloat16
    assert model.linear.weight.dtype == torch.float32


FILE = """
import torch
from exportlint import ModelCase, export_case

@export_case((torch.ones(2, 4),), name="plain")
def plain():
    return torch.nn.Linear(4, 4)

both = ModelCase(plain, (torch.ones(2, 4),), name="both", variants=("autocast",))
"""


def test_variants_that_are_asked_for(tmp_path):
    (tmp_path / "nets.py").write_text(FILE)
    path = str(tmp_path / "nets.py")

    def names(target, *asked):
        return sorted(case.name for case in loading.cases_of(target, asked))

    assert names(path, "bfloat16") == ["both", "both[autocast]", "both[bfloat16]", "plain", "plain[bfloat16]"]
    assert names(f"{path}:plain", "bfloat16", "autocast") == ["plain", "plain[autocast]", "plain[bfloat16]"]
    assert names(f"{path}:both[autocast]") == ["both[autocast]"]
    assert names("hf:bert", "autocast") == ["hf:bert", "hf:bert[autocast]"]


def test_a_run_with_variants(tmp_path):
    (tmp_path / "nets.py").write_text(FILE)
    options = Options(checks=("capture",), variants=("bfloat16",), isolation="none")
    with Runner(options) as runner:
        cases = [*runner.list_cases(f"{tmp_path}/nets.py:plain"), *runner.list_cases("hf:bert")]
        found = {case.label.rpartition("/")[2]: runner.check_named(case).checks[0].outcome for case in cases}
    assert found == dict.fromkeys(
        ["nets.py:plain", "nets.py:plain[bfloat16]", "hf:bert", "hf:bert[bfloat16]"], "passed"
    )


class Mixes(nn.Module):
    """Writes what autocast and smaller dtypes compute into a tensor of float32."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        out = torch.zeros(2, 4)
        out[torch.tensor([0, 1])] = self.linear(x)
        return out

    def double(self, x):
        return self(x) * 2


class Breaks(Mixes):
    def forward(self, x):
        return super().forward(x[:, :3])


@pytest.mark.parametrize("variant", ALL)
@pytest.mark.parametrize("methods", [{}, {"double": (ARGUMENTS[0],)}])
def test_a_model_that_runs_outside_of_its_variant_only(variant, methods):
    case = ModelCase(Mixes, (ARGUMENTS[0],), methods=methods, variants=(variant,), loss=lambda result: result.sum())
    plain, other = (Context(part, Settings(("capture",)), lambda _: None) for part in case.expand())
    assert capture.run(plain).outcome == "passed"
    for check in (capture, training):
        (finding,) = check.run(other).findings
        assert finding.rule == "EXP002"
        assert finding.message.endswith(f"fails in the variant {variant}, and not without it")
        assert finding.rewrite.endswith("or leave the variant out.")
        assert finding.rewrite.startswith("Let the model run under autocast") == (variant == "autocast")


def test_a_step_that_fails_in_its_variant_only():
    call = (ARGUMENTS[0], torch.zeros(2, 4))
    again = Step(lambda moment: call if moment.last is None else (call[0], moment.last))

    class Joins(Net):
        def forward(self, x, kept):
            joined = torch.zeros(2, 4)
            if kept.dtype == self.linear.weight.dtype:
                joined[torch.tensor([0, 1])] = kept
            else:
                joined[torch.tensor([0, 1])] = kept  # of bfloat16 into float32
            return self.linear(joined)

    case = ModelCase(Joins, call, steps={"go": again, "on": again}, variants=("autocast",)).expand()
    plain, other = (steps.run(Context(part, Settings(("steps",), examples=2), lambda _: None)) for part in case)
    assert (plain.outcome, other.outcome) == ("passed", "errored")
    (finding,) = other.findings
    assert finding.message.endswith("cannot be made in the variant autocast, and not without it")
    assert finding.source.endswith("# of bfloat16 into float32")
    assert finding.rewrite.startswith("Let the model run under autocast")


def test_a_variant_without_weights_is_laid_beside_a_case_without_weights():
    built = []

    class Sees(Mixes):
        def __init__(self):
            super().__init__()
            built.append(type(self.linear.weight.data))

    case = ModelCase(Sees, (ARGUMENTS[0],), variants=("bfloat16",), weights="fake").expand()[1]
    result = capture.model_failure(
        WeightlessContext(case, Settings(("capture",)), lambda _: None), ModelError("eager call")
    )
    assert built
    assert torch.Tensor not in built
    assert result.outcome == "errored"


def test_a_model_that_never_runs_is_not_the_fault_of_a_variant():
    case = ModelCase(Breaks, (ARGUMENTS[0],), variants=ALL)
    for part in case.expand():
        (finding,) = capture.run(Context(part, Settings(("capture",)), lambda _: None)).findings
        assert finding.message == "the eager call fails"
        assert finding.rewrite.startswith("Give the case an example call")
