"""Cases without weights: what needs no numbers is checked, the rest says so."""

from __future__ import annotations

import time

import pytest
import torch
from torch import nn
from torch.export import Dim

from exportlint import ModelCase
from exportlint.checks import weightless
from exportlint.checks.context import Settings
from exportlint.torch_hooks import fake

IDS = (torch.ones(2, 5, dtype=torch.long),)
BATCH = Dim("batch", min=1, max=64)


class Big(nn.Module):
    """10 GiB of weights."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(100, 16384)
        self.layers = nn.ModuleList([nn.Linear(16384, 16384) for _ in range(10)])

    def forward(self, ids):
        x = self.table(ids)
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


class Frozen(Big):
    def forward(self, ids):
        return self.table(ids)[:, : int(ids.shape[1])] + torch.arange(16384)


class Gate(nn.Module):
    def forward(self, ids):
        return ids if ids.sum() > 0 else -ids


class NeedsNumbers(nn.Module):
    def __init__(self):
        super().__init__()
        self.rates = [rate.item() for rate in torch.linspace(0, 1, 3)]

    def forward(self, ids):
        return ids * self.rates[1]


def context(model, **settings) -> weightless.WeightlessContext:
    case = ModelCase(model, IDS, weights="fake", name="case", **settings)
    return weightless.WeightlessContext(case, Settings(("capture",)), announce=lambda stage: None)


def test_fakes_are_there():
    assert fake.why_not() is None


def test_a_large_model_is_captured_without_memory(monkeypatch):
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ctx = context(Big, dynamic_shapes={"ids": {0: BATCH}})
    began = time.process_time()
    result = weightless.run("capture", ctx)
    assert time.process_time() - began < 10  # seconds of computing
    assert (result.outcome, result.reason) == ("passed", "numbers not checked")
    assert (result.notes, result.numbers) == (("numbers are not checked: no weights",), False)
    size = sum(p.numel() * p.element_size() for p in ctx.build().parameters())
    assert size > 10 * 2**30
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**20  # in KiB: less than 1 GiB
    assert weightless.run("shapes", ctx).outcome == "passed"


def test_a_size_that_became_a_constant_is_found_at_its_line():
    result = weightless.run("shapes", context(Frozen, dynamic_shapes={"ids": {0: BATCH, 1: Dim.AUTO}}))
    assert result.outcome == "failed"
    (found,) = result.findings
    assert found.source == "return self.table(ids)[:, : int(ids.shape[1])] + torch.arange(16384)"
    assert found.message == "ids.shape[1] should be dynamic and became the constant 5"


def test_a_branch_on_a_tensor_is_found():
    result = weightless.run("capture", context(Gate))
    assert (result.outcome, result.findings[0].rule) == ("failed", "EXP101")


def test_a_factory_that_needs_numbers_is_not_checked():
    result = weightless.run("capture", context(NeedsNumbers))
    assert result.outcome == "not_checked"
    assert result.reason.startswith("the build needs numbers, and there are no weights: DataDependentOutputException")


OTHER = (torch.zeros(5, 7, dtype=torch.long),)


def test_sizes_that_differ_between_two_calls_declare_dimensions():
    result = weightless.run("shapes", context(Big, inputs2=OTHER))
    assert (result.outcome, result.reason) == ("passed", "numbers not checked")
    frozen = weightless.run("shapes", context(Frozen, inputs2=OTHER))
    assert frozen.outcome == "failed"
    assert frozen.findings[0].source == "return self.table(ids)[:, : int(ids.shape[1])] + torch.arange(16384)"


class OfTwoRows(nn.Linear):
    def __init__(self):
        super().__init__(4, 4)

    def forward(self, ids):
        return super().forward(ids.float().view(2, -1)[:, :4])


def test_a_second_call_that_the_model_does_not_take_is_no_fault_of_the_program():
    result = weightless.run("shapes", context(OfTwoRows, inputs2=(torch.zeros(5, 3, dtype=torch.long),)))
    assert (result.outcome, result.reason) == ("not_checked", "the model does not run: the second call fails")


def test_lint_goes_by_the_lines_that_fake_tensors_run():
    from exportlint.checks.runner import Options, Runner

    case = ModelCase(Frozen, IDS, weights="fake", name="case")
    with Runner(Options(checks=("capture", "device", "lint"), isolation="fork")) as runner:
        result = runner.check_object(case, "target").checks[-1]
    assert (result.name, result.outcome) == ("lint", "failed")
    verdicts = {finding.rule: finding.verdict for finding in result.findings if finding.counts}
    assert verdicts["EXP202"] == "confirmed"
    assert "refuted" not in verdicts.values()
    branch = weightless.run("lint", context(Gate))
    assert branch.outcome == "not_checked"
    assert branch.reason.startswith("the call needs numbers, and there are no weights")


def test_a_module_has_weights():
    result = weightless.run("capture", context(Gate()))
    assert result.outcome == "errored"
    assert "this case has a module, which has weights" in result.reason


@pytest.mark.parametrize("check", ["reload", "twins", "state"])
def test_what_needs_numbers_is_not_checked(check):
    result = weightless.run(check, context(Gate))
    assert (result.outcome, result.reason) == ("not_checked", "no weights")


def test_no_dimension_is_dynamic():
    assert weightless.run("shapes", context(Gate)).reason == "no dimension is dynamic"


def test_other_weights_are_refused():
    with pytest.raises(ValueError, match="weights of case 'case' must be one of real, fake, not 'none'"):
        ModelCase(Gate, IDS, name="case", weights="none")


def test_what_mixes_devices_is_found_in_a_process_of_its_own():
    from exportlint.checks.runner import Options, Runner

    case = ModelCase(Frozen, IDS, weights="fake", name="case")
    with Runner(Options(checks=("device",), isolation="fork")) as runner:
        (result,) = runner.check_object(case, "target").checks
    assert result.outcome == "failed"
    (found,) = result.findings
    assert (found.rule, found.source) == (
        "EXP202",
        "return self.table(ids)[:, : int(ids.shape[1])] + torch.arange(16384)",
    )
