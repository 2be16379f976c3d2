"""Models whose tensors are of classes of their own: each check runs, or says by name what it cannot do."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.distributed.tensor import DeviceMesh, DTensor, Replicate, distribute_tensor
from torch.utils import _pytree as pytree

from exportlint.checks import jobs
from exportlint.checks.case import ModelCase
from exportlint.checks.context import Context, Settings
from exportlint.checks.runner import Options, Runner
from exportlint.findings import DEFAULT_CHECKS

aten = torch.ops.aten
X = torch.linspace(-1, 1, 32).view(4, 8)


class Int8Weight(torch.Tensor):
    """A weight in int8 with a scale for each row, as quantisation libraries make them."""

    @staticmethod
    def __new__(cls, codes, scale):
        return torch.Tensor._make_wrapper_subclass(cls, codes.shape, dtype=scale.dtype, device=codes.device)

    def __init__(self, codes, scale):
        self.codes, self.scale = codes, scale

    @classmethod
    def of(cls, weight):
        scale = weight.abs().amax(1, keepdim=True) / 127
        return cls((weight / scale).round().to(torch.int8), scale)

    def __tensor_flatten__(self):
        return ["codes", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, inner, meta, size, stride):
        return cls(inner["codes"], inner["scale"])

    def plain(self):
        return self.codes.to(self.scale.dtype) * self.scale

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in (aten.detach.default, aten.clone.default, aten.alias.default):
            return cls(func(args[0].codes), func(args[0].scale))
        if func is aten._to_copy.default:
            dtype, device = kwargs.get("dtype"), kwargs.get("device")
            return cls(args[0].codes.to(device=device), args[0].scale.to(device=device, dtype=dtype))
        if func is aten.copy_.default:
            args[0].codes.copy_(args[1].codes)
            args[0].scale.copy_(args[1].scale)
            return args[0]
        opened = pytree.tree_map_only(cls, cls.plain, (args, kwargs))
        return func(*opened[0], **opened[1])


class Quantised(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 2)
        self.first.weight = nn.Parameter(Int8Weight.of(self.first.weight.detach()), requires_grad=False)

    def forward(self, x):
        return self.last(self.first(x).relu())


def outcomes(case):
    with Runner(Options(checks=DEFAULT_CHECKS, examples=2)) as runner:
        return {check.name: check for check in runner.check_object(case, "t").checks}


def unlike(found, expected):
    """The checks that came out otherwise, with what they say."""
    return {name: found[name] for name, outcome in expected.items() if found[name].outcome != outcome}


def has_named(found, name):
    """The checks that are not checked and name the class."""
    return {check.name for check in found.values() if check.outcome == "not_checked" and name in (check.reason or "")}


NOT_ASKED = dict.fromkeys(("steps", "methods", "training"), "not_checked")


@pytest.mark.slow
def test_a_quantised_weight_is_checked():
    found = outcomes(ModelCase(Quantised, (X,), inputs2=(X[:3],), name="quantised"))
    passed = dict.fromkeys(("capture", "device", "shapes", "twins", "state", "lint"), "passed")
    assert unlike(found, passed) == {}
    counting = {(check.name, finding.rule) for check in found.values() for finding in check.findings if finding.counts}
    assert counting == {("reload", "EXP701")}  # whoever loads the program needs the class
    assert "test_strange_tensors" in found["reload"].reason


def test_a_quantised_weight_is_captured_and_compared():
    ctx = Context(ModelCase(Quantised, (X,), name="quantised"), Settings(("capture",)), lambda _: None)
    assert jobs.run_check("capture", ctx).outcome == "passed"
    (weight,) = (
        value for value in ctx.program().state_dict.values() if type(value) not in (torch.Tensor, nn.Parameter)
    )
    assert isinstance(weight, Int8Weight)
    with torch.no_grad():
        weight.codes[0].mul_(-1)  # the program shares it with its own model
    result = jobs.run_check("capture", ctx)
    assert result.outcome == "failed"
    assert "they part in first (Linear), first at the node linear (aten.linear.default)" in result.findings[0].evidence


@pytest.mark.slow
def test_a_quantised_argument_is_named_where_no_other_can_be_made():
    class Takes(nn.Module):
        def forward(self, x, weight):
            return nn.functional.linear(x, weight)

    case = ModelCase(Takes, (X, Int8Weight.of(torch.linspace(-1, 1, 16).view(2, 8))), name="takes")
    found = outcomes(case)
    assert has_named(found, "Int8Weight") == {"reload", "device", "shapes", "twins"}
    assert unlike(found, {"capture": "passed", "state": "passed"}) == {}


@pytest.mark.slow
def test_weights_of_torchao():
    quantization = pytest.importorskip("torchao.quantization")

    def factory():
        model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
        quantization.quantize_(model, quantization.Int8WeightOnlyConfig())
        return model

    found = outcomes(ModelCase(factory, (torch.linspace(-1, 1, 128).view(4, 32),), name="torchao"))
    assert not [check for check in found.values() if check.outcome in ("errored", "crashed", "timed_out")]
    assert found["capture"].outcome == "passed" or "torchao" in found["capture"].reason


class Spread(nn.Module):
    """A layer whose parameters lie on a mesh of devices."""

    def __init__(self, mesh):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        for name, parameter in list(self.linear.named_parameters()):
            spread = distribute_tensor(parameter.detach(), mesh, [Replicate()])
            setattr(self.linear, name, nn.Parameter(spread))

    def forward(self, x):
        return self.linear(x)


@pytest.fixture
def mesh(tmp_path):
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield DeviceMesh("cpu", [0])
    torch.distributed.destroy_process_group()


def test_distributed_tensors_are_named(mesh, tmp_path):
    case = ModelCase(lambda: Spread(mesh), (DTensor.from_local(X, mesh, [Replicate()]),), name="spread")
    ctx = Context(case, Settings(DEFAULT_CHECKS, examples=2, workdir=str(tmp_path)), lambda _: None)
    found = {name: jobs.run_check(name, ctx) for name in DEFAULT_CHECKS}
    assert has_named(found, "torch.distributed.tensor.DTensor") == {"reload", "device", "shapes", "twins"}
    assert unlike(found, {"capture": "passed", "state": "passed", **NOT_ASKED}) == {}


class MakesSpread(nn.Module):
    def __init__(self, mesh):
        super().__init__()
        self.linear, self.mesh = nn.Linear(8, 8), mesh

    def forward(self, x):
        spread = DTensor.from_local(x, self.mesh, [Replicate()])  # made here
        return self.linear((spread * 2).to_local())


def test_a_distributed_tensor_that_is_made_in_a_call_is_named(mesh, tmp_path):
    ctx = Context(
        ModelCase(lambda: MakesSpread(mesh), (X,), name="makes"),
        Settings(("capture", "state"), workdir=str(tmp_path)),
        lambda _: None,
    )
    (finding,) = jobs.run_check("capture", ctx).findings
    assert (finding.rule, finding.source.partition("# ")[2]) == ("EXP003", "made here")
    assert "a distributed tensor (torch.distributed.tensor.DTensor) is made here" in finding.message
    assert jobs.run_check("state", ctx).outcome == "not_checked"
