"""Programs of quantised models: parity, the gap to the float model, and what loading needs.

Those that need torchao are skipped where that is not installed.
"""

from __future__ import annotations

import importlib.util

import pytest
import torch
from torch import nn
from torch.export import Dim

from exportlint.checks import quantised
from exportlint.checks.case import ModelCase
from exportlint.checks.context import Context, Settings

X = torch.linspace(-1, 1, 4 * 64).view(4, 64)
HAS_TORCHAO = importlib.util.find_spec("torchao") is not None
needs_torchao = pytest.mark.skipif(not HAS_TORCHAO, reason="torchao is not installed")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(64, 64), nn.Linear(64, 16)

    def forward(self, x):
        return self.last(self.first(x).relu())


class Double(nn.Module):
    def forward(self, x):
        return x * 2


class Branches(Net):
    def forward(self, x):
        return self.last(x) if x.sum() > 0 else x


class Odd(Net):
    """Is captured otherwise than it runs."""

    def forward(self, x):
        return super().forward(x) * (2 if type(x) is torch.Tensor else 1)


def rounds(ctx):
    model = ctx.build()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_((parameter * 16).round() / 16)
    return model


def is_refused(_):
    raise quantised.NotHadError("this machine cannot")


def becomes_odd(ctx):
    model = Odd()
    model.load_state_dict(ctx.build().state_dict())
    return model


def becomes_uncapturable(_):
    return Branches()


def check(tmp_path, model, **settings):
    case = ModelCase(model, (X,), name="net", **settings)
    return quantised.run(Context(case, Settings((), workdir=str(tmp_path)), announce=lambda _: None))


@pytest.fixture
def ways(monkeypatch):
    """Quantise in these ways, as if torchao were there."""

    def choose(**made):
        monkeypatch.setattr(quantised, "WAYS", made)
        monkeypatch.setattr(quantised, "LIBRARY", "torch")
        monkeypatch.setattr(quantised, "is_quantised", lambda _: False)

    return choose


@pytest.mark.skipif(HAS_TORCHAO, reason="torchao is installed")
def test_without_torchao_nothing_is_checked(tmp_path):
    result = check(tmp_path, Net)
    assert (result.outcome, result.reason) == ("not_checked", "torchao is not installed")


def test_parity_and_the_gap_are_two_lines(tmp_path, ways):
    ways(rounded=rounds, other=is_refused)
    result = check(tmp_path, Net, dynamic_shapes={"x": {0: Dim.DYNAMIC}})
    assert (result.outcome, result.reason, result.findings) == ("passed", "rounded", ())
    parity, gap, loads, refused = result.notes
    assert parity == "rounded: the program gives what the quantised model gives"
    assert gap.startswith("rounded: at most 0.")
    assert gap.endswith("% of its largest value")
    assert loads == "rounded: torch alone loads the program"
    assert refused == "other: not checked: this machine cannot"


def test_the_gap_in_numbers():
    wanted, found = [torch.tensor([4.0, -8.0]), torch.tensor([1])], [torch.tensor([4.5, -8.0]), torch.tensor([1])]
    assert quantised.gap(wanted, found) == "at most 0.5 from the float model, 6.2 % of its largest value"


@pytest.mark.parametrize(
    ("make", "rule", "words"),
    [
        (becomes_odd, "EXP004", "computes something else than that"),
        (becomes_uncapturable, "EXP003", "is not captured, and the float one is"),
    ],
)
def test_what_is_wrong_with_the_program(tmp_path, ways, make, rule, words):
    ways(made=make)
    result = check(tmp_path, Net)
    (found,) = result.findings
    assert (result.outcome, found.rule, found.severity) == ("failed", rule, "error")
    assert words in found.message


@pytest.mark.parametrize(
    ("own", "severity"), [(quantised.ITS_OWN, "warning"), ("int8 weight-only", "info")], ids=["own", "made here"]
)
def test_what_cannot_be_loaded_counts_where_the_model_is_the_users(tmp_path, ways, monkeypatch, own, severity):
    ways(**{own: rounds})
    error = "load: ModuleNotFoundError: No module named 'torchao'"
    monkeypatch.setattr(quantised, "_loaded", lambda *_: error)
    (found,) = check(tmp_path, Net).findings
    assert (found.rule, found.severity, found.evidence, found.rewrite) == ("EXP701", severity, error, quantised.KEEP)


def test_a_load_that_does_not_end_is_told(tmp_path, ways, monkeypatch):
    ways(rounded=rounds)
    monkeypatch.setattr(quantised, "MOST_SECONDS", 0.01)
    (found,) = check(tmp_path, Net).findings
    assert (found.rule, found.evidence) == ("EXP701", "the process that loads it does not end within 0.01 seconds")


def test_a_way_that_none_can_go(tmp_path, ways):
    ways(other=is_refused)
    result = check(tmp_path, Net)
    assert (result.outcome, result.reason) == ("not_checked", "this machine cannot")


@needs_torchao
def test_int8_weights_need_torchao_unless_they_are_unwrapped(tmp_path):
    result = check(tmp_path, Net, dynamic_shapes={"x": {0: Dim.DYNAMIC}})
    assert result.outcome == "passed"
    assert "int8 weight-only: the program gives what the quantised model gives" in result.notes
    found = {f.message: f for f in result.findings}
    int8 = found["the program of the quantised model (int8 weight-only) needs torchao where it is loaded"]
    pt2e = found["the program of the quantised model (pt2e) needs operators quantized_decomposed where it is loaded"]
    assert (int8.severity, int8.rewrite) == ("info", quantised.UNWRAP)
    assert (pt2e.severity, pt2e.rewrite) == ("info", quantised.IMPORT)
    assert any(note.startswith("NVFP4: not checked: ") for note in result.notes)


@needs_torchao
def test_a_model_that_the_case_quantises_counts(tmp_path):
    def made():
        from torchao.quantization import Int8WeightOnlyConfig, quantize_

        model = Net().eval()
        quantize_(model, Int8WeightOnlyConfig())
        return model

    result = check(tmp_path, made)
    (found,) = result.findings
    assert (result.outcome, found.rule, found.severity) == ("failed", "EXP701", "warning")
    assert found.evidence == "load: ModuleNotFoundError: No module named 'torchao'"


@needs_torchao
def test_what_has_no_layer_to_quantise_is_not_checked(tmp_path):
    result = check(tmp_path, Double)
    assert (result.outcome, result.reason) == ("not_checked", quantised.NOTHING)
