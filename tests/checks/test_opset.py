"""What is left of a program in core ATen, and what of it runtimes mind."""

from __future__ import annotations

from importlib import metadata

import pytest
import torch
from torch import nn
from torch.export import Dim

from exportlint.checks.case import ModelCase
from exportlint.checks.context import Context, Settings
from exportlint.checks.opset import check, facts, lowering, profiles
from exportlint.findings import PROFILES

X = torch.linspace(-1, 1, 12).view(3, 4)


@torch.library.custom_op("test_opset::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("test_opset::liar", mutates_args=())
def liar(x: torch.Tensor) -> torch.Tensor:
    return x[:, :2].clone()


@liar.register_fake
def _(x):
    return torch.empty_like(x)


class Net(nn.Module):
    def __init__(self, last):
        super().__init__()
        self.fc, self.last = nn.Linear(4, 4), last
        self.register_buffer("count", torch.zeros(4))
        self.register_buffer("wide", torch.ones(4, dtype=torch.float64))
        self.turn = torch.ones(4, dtype=torch.complex64)

    def forward(self, x):
        return self.last(self, self.fc(x))


class Writes(nn.Module):
    def forward(self, x):
        x.add_(1)  # write
        return x * 2


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count.add_(1)  # count
        return x + self.count


class Halves(nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[1] % 2 == 0 else x * 3


class Special(nn.Module):
    def forward(self, x):
        y = torch.special.erfcx(x)  # first
        y = y + torch.histc(x, 4)
        return y + torch.special.erfcx(y)  # second


def result_of(model, *profiles, **settings):
    case = ModelCase(model, settings.pop("args", (X,)), name="net", **settings)
    return check.run(Context(case, Settings((), profiles=profiles), lambda _: None))


def net(last):
    return lambda: Net(last).eval()


DYNAMIC = {"x": {0: Dim.DYNAMIC}}
BOUNDED = {"x": {0: Dim("rows", min=1, max=64)}}

# the model, its dynamic shapes, what is said, and the outcome in each profile
KINDS = [
    (net(lambda s, x: x.relu()), None, None, {}),
    (net(lambda s, x: x.relu()), BOUNDED, None, {}),
    (net(lambda s, x: torch.special.erfcx(x)), None, "`aten.special_erfcx.default` is", {"executorch": "breaks"}),
    (net(lambda s, x: twice(x)), None, "`test_opset.twice.default` is an operator of no",
     {"executorch": "breaks", "onnx": "breaks"}),
    (net(lambda s, x: x.relu()), DYNAMIC, "1 dimension of the inputs may be", {"executorch": "specialises"}),
    (net(lambda s, x: torch.nonzero(x)), None, "a size of a tensor depends on the data", {}),
    (net(lambda s, x: torch.fft.fft(x).real), None, "complex numbers are computed with", {"executorch": "breaks"}),
    (net(lambda s, x: (x, 3)), None, "result 1 is no tensor but 3", {"onnx": "breaks", "aoti": "unportable"}),
    (net(lambda s, x: (x, "a")), None, "result 1 is no tensor but 'a'",
     {"executorch": "breaks", "onnx": "breaks", "aoti": "breaks"}),
    (net(lambda s, x: (x, x.shape[0])), BOUNDED, "result 1 is no tensor but a SymInt",
     {"onnx": "breaks", "aoti": "unportable"}),
    (net(lambda s, x: (x, None)), None, None, {}),
    (Writes, None, "a call writes into its argument `x`", {"executorch": "silent", "onnx": "silent"}),
    (Counts, None, "a call changes the buffer `count`", {"onnx": "silent"}),
]  # fmt: skip


@pytest.mark.parametrize(("model", "dynamic_shapes", "message", "counts"), KINDS)
def test_what_runtimes_mind(model, dynamic_shapes, message, counts):
    """Without a profile it is advice."""
    ctx = Context(ModelCase(model, (X,), name="net", dynamic_shapes=dynamic_shapes), Settings(()), lambda _: None)
    plain = check.run(ctx)
    assert plain.outcome == "passed"
    assert {f.severity for f in plain.findings} <= {"info"}
    found = [fact for fact in facts.facts(ctx.program().run_decompositions()) if fact.message.startswith(message or "")]
    assert [fact.message for fact in found] == [
        f.message for f in plain.findings if f.message.startswith(message or "")
    ]
    assert len(found) == (message is not None)
    for name in PROFILES:
        ctx.settings.profiles = (name,)
        assert [check._finding(ctx, fact, {}).outcomes["export"] for fact in found] == [
            counts.get(name, "fine") for _ in found
        ]


def test_a_runtime_that_is_not_there_is_told(monkeypatch):
    monkeypatch.setattr(lowering, "NEEDED", {"executorch": ("no_such_package",)})
    result = result_of(net(lambda s, x: torch.special.erfcx(x)), "executorch")
    assert (result.outcome, result.findings[0].severity) == ("failed", "error")
    assert result.reason.endswith("in executorch, an operator outside core ATen is refused")
    assert "not checked: the lowering for executorch: no_such_package not installed" in result.notes


def test_a_size_that_depends_on_data_and_has_no_bound(monkeypatch):
    monkeypatch.setattr(lowering, "NEEDED", {"executorch": ("no_such_package",)})
    result = result_of(net(lambda s, x: torch.nonzero(x)), "executorch", dynamic_shapes=DYNAMIC)
    assert [(f.outcomes["export"], f.severity) for f in result.findings] == [
        ("breaks", "error"), ("specialises", "warning"),
    ]  # fmt: skip


def test_all_operators_are_told_at_once_with_their_lines():
    first, second = result_of(Special, args=(X,)).findings
    assert (first.rule, first.source) == ("EXP709", "y = torch.special.erfcx(x)  # first")
    assert first.evidence.startswith("2 calls in the program; also at ")
    assert first.evidence.endswith(f":{first.line + 2}")
    assert second.message.startswith("`aten.histc.default`")


def test_dtypes_are_told():
    notes = result_of(net(lambda s, x: x * s.wide)).notes
    assert "1 constant of float64: wide" in notes
    assert "3 calls of operators after run_decompositions" in notes


def test_an_operator_whose_fake_kernel_lies():
    result = result_of(net(lambda s, x: liar(x)))
    (finding,) = [f for f in result.findings if f.counts]
    assert (result.outcome, finding.rule, finding.severity) == ("failed", "EXP804", "warning")
    assert finding.message.startswith("`test_opset.liar.default` fails test_faketensor of torch.library.opcheck")
    assert "Shapes torch.Size([3, 2]) and torch.Size([3, 4]) are not equal" in finding.evidence
    fine = result_of(net(lambda s, x: twice(x)))
    assert "torch.library.opcheck finds nothing wrong with test_opset.twice.default" in fine.notes


def test_a_guard_that_is_gone():
    second = torch.ones(3, 7)
    result = result_of(Halves, dynamic_shapes={"x": {1: Dim.DYNAMIC}}, inputs2=(second,))
    (finding,) = [f for f in result.findings if f.counts]
    assert (finding.rule, finding.severity, finding.message) == ("EXP004", "error", check.REFUSED)
    assert "3 in eager, 2; " in finding.evidence
    assert finding.evidence.endswith("before: AssertionError: Guard failed: x.size()[1] % 2 == 0")
    even = result_of(Halves, dynamic_shapes={"x": {1: Dim.DYNAMIC}}, inputs2=(torch.ones(3, 6),))
    assert even.outcome == "passed"


def test_a_decomposition_that_computes_something_else(monkeypatch):
    ctx = Context(ModelCase(net(lambda s, x: x.relu()), (X,), name="net"), Settings(()), lambda _: None)
    program = ctx.program()

    def wrong(self, *args):
        node = next(n for n in self.graph.nodes if n.target is torch.ops.aten.relu.default)
        node.target = torch.ops.aten.tanh.default
        self.graph_module.recompile()
        return self

    monkeypatch.setattr(type(program), "run_decompositions", wrong)
    (finding,) = [f for f in check.run(ctx).findings if f.counts]
    assert (finding.rule, finding.severity) == ("EXP004", "error")
    assert finding.message == "the program computes something else after run_decompositions"
    assert "they part in Net itself, first at the node relu (aten.tanh.default)" in finding.evidence


def test_a_program_that_does_not_decompose(monkeypatch):
    ctx = Context(ModelCase(nn.ReLU, (X,), name="net"), Settings(()), lambda _: None)

    def fails(self, *args):
        raise RuntimeError("no such operator")

    monkeypatch.setattr(type(ctx.program()), "run_decompositions", fails)
    result = check.run(ctx)
    (finding,) = result.findings
    assert (result.outcome, finding.rule, finding.severity) == ("failed", "EXP709", "error")
    assert finding.evidence == "RuntimeError: no such operator"


def test_buffers_are_as_before_after_a_run():
    ctx = Context(ModelCase(Counts, (X,), name="net"), Settings(()), lambda _: None)
    result = check.run(ctx)
    assert result.outcome == "passed"
    assert float(ctx.program().state_dict["count"]) == 0.0


def test_a_model_that_is_not_captured():
    class Branches(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    result = result_of(Branches)
    assert (result.outcome, result.reason) == ("not_checked", "the model is not captured")


def test_control_flow_is_no_operator():
    class Chooses(nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: x + 1, torch.special.erfcx, (x,))

    (finding,) = result_of(Chooses).findings
    assert finding.message.startswith("`aten.special_erfcx.default`")  # inside of a branch


def test_each_profile_has_limits_that_are_known_facts():
    assert set(profiles._LIMITS) == set(PROFILES)
    assert profiles.limit("text", ("aoti", "onnx"))[1] == "aoti"
    assert profiles.limit("control", PROFILES) is None
    assert set(facts._WORDS) == {"operator", "custom", "control"}


@pytest.mark.parametrize("name", ["onnx", "executorch"])
def test_the_runtime_itself_decides(name):
    """Needs the runtime."""
    for package in lowering.NEEDED[name]:
        pytest.importorskip(package)
    result = result_of(net(lambda s, x: x.relu()), name, dynamic_shapes=BOUNDED)
    assert (result.outcome, result.findings) == ("passed", ())
    assert any(note.startswith(f"lowered for {name} and run, with ") for note in result.notes)
    result = result_of(net(lambda s, x: twice(x)), name)
    counting = [f for f in result.findings if f.counts]
    assert counting[0].message.startswith(("`test_opset.twice.default` is an operator of no", "the program cannot be"))
    if name == "onnx":  # whose error names the operator
        assert len(counting) == 1
        assert "onnx refuses it: DispatchError: " in counting[0].evidence
    result = result_of(Counts, name)
    assert result.outcome == ("failed" if name == "onnx" else "passed"), result
    if name == "onnx":  # which says nothing, so that only the table knows
        assert [f.message.partition(";")[0] for f in result.findings if f.counts] == [
            "a call changes the buffer `count`"
        ]


class Returns:
    """Stands for a runtime that returns these results."""

    def __init__(self, *results):
        self.results = results

    def __call__(self, program):
        return lambda flat: self.results


@pytest.mark.parametrize(
    ("results", "evidence"),
    [
        ((X * 2,), None),
        ((X + 1, X * 2), None),  # an argument that was changed is in front
        ((X * 2 + 1e-6,), None),
        ((X * 3,), "values differ"),
        ((), "1 results in eager, 0 in the program"),
    ],
)
def test_what_a_runtime_returns_is_compared(monkeypatch, results, evidence):
    class Doubles(nn.Module):
        def forward(self, x):
            return x * 2

    monkeypatch.setattr(lowering, "NEEDED", {"onnx": ("torch",)})
    monkeypatch.setattr(lowering, "_MAKERS", {"onnx": Returns(*results)})
    result = result_of(Doubles, "onnx")
    assert [f.message for f in result.findings] == ["the program returns something else in onnx"] * (
        evidence is not None
    )
    assert all(evidence in f.evidence for f in result.findings)
    assert result.notes[-1].endswith(f"with torch {metadata.version('torch')}")


def refusing(words):
    def make(program):
        raise RuntimeError(words)

    return make


@pytest.mark.parametrize(
    ("model", "words", "explained"),
    [
        (net(lambda s, x: twice(x)), "no function for <OpOverload(op='test_opset.twice', overload='default')>", True),
        (net(lambda s, x: twice(x)), "no function for <OpOverload(op='aten.other', overload='default')>", False),
        (net(lambda s, x: (x, 3)), "'int' object has no attribute 'name'", True),
        (net(lambda s, x: x * 2), "'int' object has no attribute 'name'", False),
    ],
)
def test_what_a_fact_explains_is_told_once(monkeypatch, model, words, explained):
    monkeypatch.setattr(lowering, "NEEDED", {"onnx": ("torch",)})
    monkeypatch.setattr(lowering, "_MAKERS", {"onnx": refusing(words)})
    counting = [f for f in result_of(model, "onnx").findings if f.counts]
    refused = [f for f in counting if f.message == "the program cannot be converted for onnx"]
    assert len(refused) == (not explained)
    assert any(words in f.evidence for f in counting)
    assert not explained or len(counting) == 1


class Draws(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.dropout(x, 0.5, training=True)


def test_random_numbers_of_a_runtime_are_not_compared(monkeypatch):
    monkeypatch.setattr(lowering, "NEEDED", {"onnx": ("torch",)})
    monkeypatch.setattr(lowering, "_MAKERS", {"onnx": Returns(X * 3)})
    result = result_of(Draws, "onnx")
    assert not [f for f in result.findings if f.counts]
    assert "not checked: the values that onnx returns, since the model draws random numbers" in result.notes
    monkeypatch.setattr(lowering, "_MAKERS", {"onnx": Returns()})
    assert [f.rule for f in result_of(Draws, "onnx").findings if f.counts] == ["EXP004"]
