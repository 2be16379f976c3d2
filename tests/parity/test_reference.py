from __future__ import annotations

import pytest
import torch
from torch import nn

from exportlint.checks import variants
from exportlint.checks.case import ModelCase
from exportlint.checks.context import Context, Settings, call
from exportlint.parity.compare import compare
from exportlint.parity.reference import Reference


@torch.library.custom_op("exportlint_tests::halved", mutates_args=())
def halved(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.float32) / 2


@halved.register_fake
def _(x):
    return torch.empty_like(x, dtype=torch.float32)


@torch.library.custom_op("exportlint_tests::single", mutates_args=())
def single(x: torch.Tensor) -> torch.Tensor:
    if x.dtype != torch.float32:
        raise TypeError("only float32")
    return x * 2


class Norm(nn.Module):
    def __init__(self, eps=1e-6):
        super().__init__()
        self.linear, self.eps = nn.Linear(64, 64), eps
        self.shift = torch.full((64,), 0.1)  # no buffer

    def forward(self, x):
        x = self.linear(x).to(torch.float32)
        scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + torch.tensor(self.eps))
        return x * scale + self.shift + torch.zeros(64, dtype=torch.float32)


class Partly(nn.Module):
    def forward(self, x):
        return torch.ops.exportlint_tests.halved(x) + x  # partly


class Single(nn.Module):
    def forward(self, x):
        return torch.ops.exportlint_tests.single(x)


class Routed(nn.Module):
    """Takes another way in float64, where the first two are not equal."""

    def forward(self, x):
        same = (x + 1e-9) == x
        return torch.where(same, x, -x) * 1.1


X = torch.linspace(-1, 1, 4 * 64).view(4, 64)


def context(factory):
    return Context(ModelCase(factory, (X,)), Settings(()), lambda _: None)


def reference(factory):
    return context(factory).reference((((X,)), {}))


def test_casts_and_factories_inside_give_float64():
    found = reference(Norm)
    result = found.result()
    assert (result.dtype, found.partly, found.why_not) == (torch.float64, (), None)
    model = context(Norm).build()
    weight, bias, x = (t.detach().double() for t in (model.linear.weight, model.linear.bias, X))
    x = x @ weight.T + bias
    exact = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) + model.shift.double()
    assert (result - exact).abs().max() < 1e-13
    assert torch.get_default_dtype() == torch.float32


def test_what_is_computed_in_less_is_told():
    found = reference(Partly)
    assert found.result().dtype == torch.float64
    (words,) = found.partly
    assert "exportlint_tests.halved" in words
    assert "test_reference.py:" in words
    expected = call(Partly(), ((X,), {}))
    assert compare(expected, expected + 1e-7, reference=found) is None
    assert any("only partly float64" in note and "halved" in note for note in found.notes)


def test_no_float64():
    found = reference(Single)
    assert found.result() is None
    assert "only float32" in found.why_not
    assert compare(X, X + 1e-7, reference=found) is None  # what the dtype allows
    assert compare(X, X + 1e-4, reference=found) is not None
    assert any("no float64 reference" in note for note in found.notes)


def test_another_way_in_float64_is_no_yardstick():
    found, expected = reference(Routed), call(Routed(), ((X,), {}))
    assert (found.result() - expected).abs().max() > 1
    assert compare(expected, expected * 1.01, reference=found) is not None
    assert compare(expected, expected * (1 + 1e-7), reference=found) is None
    assert any("another way" in note for note in found.notes)


def test_it_is_made_once_and_only_where_bits_differ():
    calls = []
    found = Reference(lambda: calls.append(1) or X.double)
    assert compare(X, X.clone(), reference=found) is None
    assert not calls
    for shift in (1e-8, 2e-8):
        assert compare(X, X + shift, reference=found) is None
    assert calls == [1]


@pytest.mark.parametrize("eps", [2e-6, 1e-5])
def test_another_eps_is_seen(eps):
    ctx = context(Norm)
    state = ctx.build().state_dict()
    other = Norm(eps)
    other.load_state_dict(state)
    inputs = ((X * 0.3,), {})
    assert ctx.compare(call(ctx.build(), inputs), call(other, inputs), inputs) is not None


def test_a_decomposed_program_is_as_exact_as_eager():
    ctx = context(Norm)
    program = ctx.program().run_decompositions()
    actual = call(program.module(), ctx.example())
    assert ctx.compare(ctx.expected(), actual, ctx.example()) is None


def test_few_values_may_be_exact_by_luck():
    exact = torch.tensor([1.0], dtype=torch.float64)
    found = Reference(lambda: lambda: exact)
    eps = torch.finfo(torch.float32).eps
    assert compare(torch.tensor([1.0]), torch.tensor([1.0 + 3 * eps]), reference=found) is None
    assert compare(torch.tensor([1.0]), torch.tensor([1.0 + 6 * eps]), reference=found) is not None


def test_a_gradient_of_nothing_is_rounding_error():
    found = Reference(lambda: lambda: torch.full((32,), 1e-18, dtype=torch.float64))
    noise = torch.randn(32, generator=torch.Generator().manual_seed(0)) * 1e-8
    assert compare(noise, noise.flip(0), reference=found) is None
    assert compare(noise, noise * 100, reference=found) is not None


def test_masked_places_hide_no_error():
    values = torch.linspace(-1, 1, 64)
    low = torch.finfo(torch.float32).min
    expected = torch.where(torch.arange(64) % 4 == 0, torch.tensor(low), values)
    exact = torch.where(torch.arange(64) % 4 == 0, torch.tensor(torch.finfo(torch.float64).min), values.double())
    found = Reference(lambda: lambda: exact)
    assert compare(expected, expected.clone(), reference=found) is None
    assert compare(expected, torch.where(expected == low, expected, expected + 1e-4), reference=found) is not None
    assert compare(expected, torch.where(expected == low, -1e4, expected), reference=found) is not None


class Mixed(nn.Module):
    """A float32 result of steps in less: under autocast, by casts, or of a model in less."""

    def __init__(self, how):
        super().__init__()
        torch.manual_seed(0)
        self.how, self.linear = how, nn.Linear(64, 64)

    def forward(self, x):
        if self.how == "autocast":
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return self.linear(x.relu()).float()
        x = x.relu().to(torch.bfloat16)
        return nn.functional.linear(x, self.linear.weight.bfloat16(), self.linear.bias.bfloat16()).float()


@pytest.mark.parametrize("how", ["autocast", "casts"])
def test_a_result_of_steps_in_less_is_as_exact_as_those(how):
    ctx = Context(ModelCase(lambda: Mixed(how), (X,), name="mixed"), Settings(("capture",)), lambda _: None)
    eager = ctx.expected()
    rounding = torch.where(torch.arange(64) % 2 == 0, 1 + 2**-8, 1 - 2**-8)  # half an ulp of bfloat16
    assert ctx.compare(eager, eager * rounding, (((X,), {}))) is None
    assert "float64, and eager" in next(iter(ctx.judged))
    assert ctx.compare(eager, eager * (1 + 8 * (rounding - 1)), ((X,), {})) is not None


def test_a_model_in_less_is_lifted_and_its_result_judged_by_it():
    case = variants.of_case(ModelCase(Norm, (X,), name="norm"), "bfloat16")
    ctx = Context(case, Settings(("capture",)), lambda _: None)
    eager = ctx.expected()
    assert eager.dtype is torch.float32
    rounded = eager.bfloat16().float()
    assert not torch.equal(rounded, eager)
    assert ctx.compare(eager, rounded, ctx.example()) is None
    assert ctx.compare(eager, eager * 1.1, ctx.example()) is not None


class Branches(nn.Module):
    def __init__(self, times=3):
        super().__init__()
        self.times = times

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x * self.times,))


def test_branches_have_a_reference_and_are_captured_afterwards():
    ctx = Context(ModelCase(Branches, (X,)), Settings(("capture",)), lambda _: None)
    reference = ctx.reference(((X,), {}))
    found = reference.result()
    assert found is not None, reference.why_not
    assert torch.equal(found, (X.double() * 3).sin() if X.sum() > 0 else (X.double() * 3).cos())
    program = torch.export.export(Branches(), (X,), strict=False)
    assert torch.equal(program.module()(X), Branches()(X))
    assert ctx.compare(Branches()(X), Branches(4)(X), ((X,), {})) is not None
