"""What the check capture compares beside values: writes, shared memory, operators of training, tensor classes."""

from __future__ import annotations

import re

import pytest
import torch
from forking import in_fork
from torch import nn
from torch.export import Dim

from exportlint.checks import capture, reload
from exportlint.checks.case import ModelCase, Step
from exportlint.checks.context import Context, Settings
from exportlint.checks.jobs import run_check
from exportlint.checks.loader import CALL
from exportlint.checks.strange_tensors import REMAKE
from exportlint.findings import DEFAULT_CHECKS
from exportlint.parity.compare import compare

X = torch.linspace(-1, 1, 12).view(3, 4)
aten = torch.ops.aten


def context(model, *args, **settings):
    return Context(ModelCase(model, args or (X,), **settings), Settings(("capture",)), lambda _: None)


class Writes(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(3, 4))

    def forward(self, x, more):
        self.seen.add_(x)
        more.mul_(2)
        return x.view(-1), self.seen, more + 1


def edited(edit, model=Writes, args=()):
    """The result of capture where the program was changed."""
    ctx = context(model, *(args or (X, torch.ones(2))))
    program = ctx.program()
    edit(program.graph)
    program.graph_module.recompile()
    return capture.run(ctx)


def node(graph, op):
    return next(n for n in graph.nodes if n.op == "call_function" and n.target is op)


def test_writes_and_shared_memory_are_followed():
    result = edited(lambda graph: None)
    assert (result.outcome, result.findings) == ("passed", ())


class NeverFilled(nn.Module):
    """What its buffer holds is whatever the memory held before, which is another thing in each model."""

    made = 0

    def __init__(self):
        super().__init__()
        NeverFilled.made += 1
        self.register_buffer("like", torch.full((2,), float(NeverFilled.made)))
        self.register_buffer("nothing", torch.full((2,), float("nan") if NeverFilled.made % 2 else 1.0))

    def forward(self, x):
        return x.to(self.like) + x.to(self.nothing)


def test_a_buffer_that_is_never_filled_nor_read_is_no_finding():
    result = capture.run(context(NeverFilled, X))
    assert (result.outcome, result.findings) == ("passed", ())


class Rebinds(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.zeros(1), persistent=False)

    def forward(self, x):
        if self.table.shape[0] != x.shape[0]:
            self.table = torch.arange(x.shape[0])  # another tensor
        return x + self.table[:, None]


def test_a_buffer_that_is_rebound_is_told_at_the_line():
    (finding,) = capture.run(context(Rebinds, X)).findings
    assert (finding.rule, finding.rewrite) == ("EXP004", capture.IN_PLACE)
    assert finding.source.endswith("# another tensor")
    assert finding.message == "another tensor takes the place of the buffer table, which the program keeps"
    assert finding.evidence.startswith("the program cannot run the example that it was captured from: RuntimeError: ")


class WritesInEagerOnly(nn.Module):
    def forward(self, x):
        if torch.compiler.is_exporting():  # asks
            return x + 1
        return x.add_(1)


class SharesInEagerOnly(nn.Module):
    def forward(self, x):
        y = x.view(-1)
        if torch.compiler.is_exporting():  # asks
            y = y.clone()
        return y


@pytest.mark.parametrize("model", [WritesInEagerOnly, SharesInEagerOnly])
def test_where_no_value_parts_the_line_is_told_at_which_the_capture_went_another_way(model):
    (finding,) = capture.run(context(model, X)).findings
    assert (finding.rule, finding.source.endswith("# asks")) == ("EXP004", True)


def drop_buffer_write(graph):
    found = node(graph, aten.add_.Tensor)
    found.target = aten.add.Tensor


def drop_input_write(graph):
    found = node(graph, aten.mul_.Tensor)
    found.target = aten.mul.Tensor


def copy_output(graph):
    view = node(graph, aten.view.default)
    with graph.inserting_after(view):
        copied = graph.call_function(aten.clone.default, (view,))
    view.replace_all_uses_with(copied, delete_user_cb=lambda user: user is not copied)


@pytest.mark.parametrize(
    ("edit", "severity", "words"),
    [
        (drop_buffer_write, "error", "the buffer seen: 12 of 12 values differ"),
        (drop_input_write, "error", "input 1: 2 of 2 values differ"),
        (copy_output, "warning", "output[0] shares its memory with argument 0 in eager, with nothing else in"),
    ],
)
def test_what_the_program_does_not_follow(edit, severity, words):
    result = edited(edit)
    (finding,) = result.findings
    assert (result.outcome, finding.rule, finding.severity) == ("failed", "EXP004", severity)
    assert words in finding.evidence


class Counts(Writes):
    def forward(self, x):
        self.seen.add_(x)  # counted
        return x + 1


def test_where_what_is_written_parts_is_told():
    def other_write(graph):
        node(graph, aten.add_.Tensor).kwargs = {"alpha": 3}

    (finding,) = edited(other_write, Counts, (X,)).findings
    assert re.match(r"the buffer seen: 12 of 12 values differ, by at most \S+, at \[", finding.evidence)
    assert "they part in Counts itself, first at the node add_ (aten.add_.Tensor) at " in finding.evidence
    assert finding.source.endswith("# counted")


class Grows(nn.Module):
    def forward(self, x, kept):
        kept.append(x * 2)
        return x, kept


class GrowsOnly(Grows):
    def forward(self, x, kept):
        return super().forward(x, kept)[0]


def test_a_container_that_is_returned_is_carried_by_the_caller():
    assert capture.run(context(Grows, X, [X])).outcome == "passed"
    result = capture.run(context(GrowsOnly, X, [X]))
    assert "input 1: 2 outputs in eager, 1 in the program" in result.findings[0].evidence


class AlwaysDrops(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x, 0.25)  # always


class Attention(nn.Module):
    def forward(self, x):
        x = x[None]
        return nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.1)  # attention


class Batch(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        n = self.norm
        return nn.functional.batch_norm(x, n.running_mean, n.running_var, n.weight, n.bias, True)  # batch


class Follows(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop, self.norm, self.own = (
            nn.Dropout(0.5),
            nn.BatchNorm1d(4),
            nn.BatchNorm1d(4, track_running_stats=False),
        )

    def forward(self, x):
        y = nn.functional.dropout(self.own(self.norm(self.drop(x))), 0.5, self.training)
        return nn.functional.dropout(y, 0.0)


@pytest.mark.parametrize(("model", "line"), [(AlwaysDrops, "# always"), (Attention, "# attention"), (Batch, "# batch")])
def test_operators_of_training(model, line):
    result = capture.run(context(lambda: model().eval(), name="case"))
    (finding,) = result.findings
    assert (result.outcome, finding.rule, finding.severity) == ("failed", "EXP005", "warning")
    assert finding.source.endswith(line)


def test_modules_that_follow_eval_are_silent():
    assert capture.run(context(lambda: Follows().eval(), name="case")).findings == ()
    assert capture.run(context(AlwaysDrops)).findings == ()  # in training mode nothing is wrong with it


class Pair(nn.Module):
    """Returns detections in an order that is free."""

    def forward(self, x):
        return x.sum(1)


def test_a_free_order():
    for canonical, outcome in ((None, "failed"), (lambda result: result.sort().values, "passed")):
        ctx = context(Pair, canonical=canonical)
        program = ctx.program()
        found = node(program.graph, aten.sum.dim_IntList)
        with program.graph.inserting_after(found):
            flipped = program.graph.call_function(aten.flip.default, (found, [0]))
        found.replace_all_uses_with(flipped, delete_user_cb=lambda user, own=flipped: user is not own)
        program.graph_module.recompile()
        assert capture.run(ctx).outcome == outcome


class Opaque(torch.Tensor):
    @staticmethod
    def __new__(cls):
        return torch.Tensor._make_wrapper_subclass(cls, (2,), dtype=torch.float32)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise NotImplementedError(func)


def test_a_tensor_class_that_cannot_be_compared_is_named():
    class Returns(nn.Module):
        def forward(self, x):
            return Opaque()

    result = capture.run(context(Returns))
    assert result.outcome == "not_checked"
    assert ".Opaque cannot be compared" in result.reason


def test_where_values_part_is_told():
    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.LayerNorm(4)

        def forward(self, x):
            return self.inner(x)  # inner

    def other_eps(graph):
        found = node(graph, aten.layer_norm.default)
        found.args = (*found.args[:4], 1e-2)

    result = edited(other_eps, Norm, (X,))
    (finding,) = result.findings
    assert finding.source.endswith("# inner")
    assert "12 of 12 values differ, by at most" in finding.evidence
    assert (
        "they part in inner (LayerNorm), first at the node layer_norm (aten.layer_norm.default) at " in finding.evidence
    )


@pytest.mark.parametrize("name", [*sorted(set(DEFAULT_CHECKS) - {"lint", "methods", "training"}), "torchscript"])
@pytest.mark.parametrize("kind", ["opaque", "wrapped argument"])
def test_classes_of_tensors_that_a_check_cannot_handle_are_named(kind, name, tmp_path):
    from torch.testing._internal.two_tensor import TwoTensor

    class Gives(nn.Module):
        def forward(self, x):
            return Opaque() if kind == "opaque" else x + 1

    args = (torch.ones(2) if kind == "opaque" else TwoTensor(torch.ones(2, 3), torch.ones(2, 3)),)
    case = ModelCase(Gives, args, steps={"next": Step(lambda _: args)}, dynamic_shapes={"x": {0: Dim.AUTO}})
    settings = Settings((name,), examples=2, workdir=str(tmp_path))

    def child() -> tuple[str, list[bool], str | None]:  # the check device registers the second device
        result = run_check(name, Context(case, settings, lambda _: None))
        return result.outcome, [finding.counts for finding in result.findings], result.reason

    outcome, counts, reason = in_fork(child)
    if kind == "opaque":
        assert (outcome, counts) == ("not_checked", [])
        assert "Opaque cannot be compared" in reason
    elif name in REMAKE:
        assert (outcome, counts) == ("not_checked", [])
        assert "TwoTensor, of which this check can make no others" in reason
    else:
        assert outcome in ("passed", "not_checked")
        assert not any(counts)


class Rolling(nn.Module):
    """Returns the buffer that it writes into."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.ones(2, 3, 4))

    def forward(self, x):
        self.seen[:, 0] += x[:2]
        return self.seen.sum(1), self.seen


@pytest.mark.parametrize("check", ["device", "shapes", "state", "opset"])
def test_a_buffer_that_is_returned_is_as_the_call_left_it(check, tmp_path):
    settings = Settings((check,), examples=2, workdir=str(tmp_path))

    def child() -> None:  # the check device registers the second device
        result = run_check(check, Context(ModelCase(Rolling, (X,)), settings, lambda _: None))
        assert [finding for finding in result.findings if finding.severity != "info"] == []
        assert result.outcome == "passed" or result.reason.startswith("no dimension is dynamic")
        assert [note for note in result.notes if "differs" in note] == []

    in_fork(child)


def test_what_a_program_is_saved_with_is_what_it_returned(tmp_path):
    ctx = Context(ModelCase(Rolling, (X,)), Settings(("reload",), workdir=str(tmp_path)), lambda _: None)
    reload.run(ctx)
    saved = torch.load(ctx.path(CALL), weights_only=False)
    assert compare(list(ctx.expected()), saved["expected"], rtol=0.0, atol=0.0) is None
