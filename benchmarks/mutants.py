"""How many wrong programs do the checks catch, and how many right ones do they flag?

    python benchmarks/mutants.py [--output FILE]           200 wrong programs from ten architectures
    python benchmarks/mutants.py --quick                   a fixed part of them, within 40 seconds
    python benchmarks/mutants.py --right 1000 [--output FILE]  right programs in three dtypes, so many drawn calls each

A wrong program is the exported one with one change to its graph. It counts when, computed in float64, it differs from
the model by more than twice what parity allows, in one of `JUDGED` drawn calls; others are equivalent and are listed.
It is caught when the comparison that the checks make flags it in the calls that the checks draw, which are other ones.
Exit status 0: none that counts is missed, and no right program is flagged.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import dataclasses
import datetime
import os
import platform
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from hypothesis import HealthCheck, Phase, given, seed, settings
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree

from exportlint import ModelCase, Step, whole_file
from exportlint.checks import steps, variants
from exportlint.checks.context import Context, Settings, call, fresh
from exportlint.checks.shapes import check as shapes
from exportlint.checks.shapes import search
from exportlint.checks.shapes.trials import FaultError, RefusedError, Subject, Trial
from exportlint.parity import tolerance
from exportlint.parity.reference import Reference, in_double, widened
from exportlint.shapes import strategies
from exportlint.torch_hooks.guards import GuardLog
from exportlint.zoo import hf, hf_inputs

aten = torch.ops.aten
SEED = 7
# Of each architecture; 200 in all.
MUTANTS = {**dict.fromkeys(("bert", "gpt2", "llama", "t5"), 21), "memory": 16}
OTHERS, QUICK_MUTANTS = 20, 8
QUICK = ("gpt2", "resnet", "memory")
JUDGED, CHECKED = 40, 20  # drawn calls
DTYPES = ("float32", "bfloat16", "float16")
MORE = 1e-3  # a relative change of a stale buffer


# -- architectures


class Memory(nn.Module):
    """Averages what it has seen in buffers, in the way of streaming models."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(16, 32), nn.LayerNorm(32), nn.Linear(32, 16)
        self.register_buffer("mean", torch.zeros(16))
        self.register_buffer("last", torch.zeros(2, 16))
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows (2, 16) to rows (2, 16)."""
        self.count.add_(1)
        self.mean.mul_(0.9).add_(x.mean(0) * 0.1)
        y = self.down(torch.relu(self.norm(self.up(x - self.mean + 0.5 * self.last))))
        self.last.copy_(x)
        return y * torch.rsqrt(self.count + 1)


def resnet() -> nn.Module:
    """A small residual network with statistics as training leaves them."""
    from transformers import ResNetConfig, ResNetModel

    torch.manual_seed(0)
    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
    model = ResNetModel(config).eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    return model


def case_of(kind: str) -> ModelCase:
    """The model case of an architecture, with dynamic batch and length."""
    if kind == "memory":

        def drawn(moment: Any) -> tuple[torch.Tensor]:
            return (torch.randn(2, 16, generator=torch.Generator().manual_seed(moment.seed)),)

        torch.manual_seed(0)
        return ModelCase(Memory().eval(), (torch.randn(2, 16),), name=kind, steps={"go": Step(drawn)})
    model = resnet() if kind == "resnet" else hf.model(kind)
    images = {"pixel_values": torch.linspace(-1, 1, 2 * 3 * 32 * 32).view(2, 3, 32, 32)}
    arguments = images if kind == "resnet" else hf_inputs.example(model)
    if "attention_mask" in arguments:
        arguments["attention_mask"][1, -2:] = 0  # where nothing is masked, a mask that is ignored is no fault
    return ModelCase(model, (), arguments, name=kind, dynamic_shapes={n: DYNAMIC[n] for n in arguments})


BATCH, LENGTH, TARGET = Dim("batch", min=1, max=8), Dim("length", min=2, max=16), Dim("target", min=2, max=12)
DYNAMIC = {
    "input_ids": {0: BATCH, 1: LENGTH},
    "attention_mask": {0: BATCH, 1: LENGTH},
    "decoder_input_ids": {0: BATCH, 1: TARGET},
    "pixel_values": {0: BATCH},
}
ARCHITECTURES = ("bert", "gpt2", "llama", "t5", "vit", "opt", "gemma2", "bloom", "resnet", "memory")


# -- changes to a graph: each yields its sites as (words, edit)

Edit = Callable[[Graph], None]
Site = tuple[str, Callable[[Node, Graph], None], Node]


def calls(graph: Graph, *targets: Any) -> list[Node]:
    """Nodes that call one of these operators."""
    return [node for node in graph.nodes if node.op == "call_function" and node.target in targets]


def value(node: Node) -> Any:
    """What the node returned when it was captured."""
    return node.meta.get("val")


def is_float(node: Any, rank: int = 1) -> bool:
    """Whether the node returns a floating-point tensor of this rank or more."""
    found = value(node) if isinstance(node, Node) else None
    return isinstance(found, torch.Tensor) and found.is_floating_point() and found.dim() >= rank


def after(graph: Graph, node: Node, make: Callable[[Node], Node]) -> None:
    """Put what `make` makes of the node's result into the places where it is used."""
    users = list(node.users)
    with graph.inserting_after(node):
        last = make(node)
    for user in users:
        user.replace_input_with(node, last)


def chain(graph: Graph, node: Node, *links: tuple[Any, tuple[Any, ...], dict[str, Any]]) -> Node:
    """Nodes after the node, each of the one before; ``...`` among the arguments stands for it."""
    for target, args, kwargs in links:
        with graph.inserting_after(node):
            node = graph.call_function(target, tuple(node if a is ... else a for a in args), kwargs)
    return node


def with_argument(place: int, new: Any) -> Callable[[Node, Graph], None]:
    """An edit that sets an argument."""

    def edit(node: Node, graph: Graph) -> None:
        node.update_arg(place, new)

    return edit


def with_target(new: Any) -> Callable[[Node, Graph], None]:
    """An edit that calls another operator."""

    def edit(node: Node, graph: Graph) -> None:
        node.target = new

    return edit


def linked(*links: tuple[Any, tuple[Any, ...], dict[str, Any]]) -> Callable[[Node, Graph], None]:
    """An edit that puts operators behind the node."""
    return lambda node, graph: after(graph, node, lambda n: chain(graph, n, *links))


def eps(graph: Graph) -> Iterator[Site]:
    """Other epsilons of norms."""
    for node in calls(graph, aten.layer_norm.default):
        yield "eps of layer_norm times ten", with_argument(4, node.args[4] * 10), node
    for node in calls(graph, aten.batch_norm.default):
        yield "eps of batch_norm times ten", with_argument(7, node.args[7] * 10), node
    for node in calls(graph, aten.add.Tensor):
        if isinstance(node.args[1], float) and 0 < node.args[1] < 1e-3:
            yield "eps of a norm times ten", with_argument(1, node.args[1] * 10), node


def mask_value(graph: Graph) -> Iterator[Site]:
    """Masked places that are not masked enough."""
    for node in calls(graph, aten.where.ScalarOther):
        if isinstance(node.args[2], float) and node.args[2] < -1e3:
            yield "masked places get -8", with_argument(2, -8.0), node

    def soften(node: Node, graph: Graph) -> None:
        with graph.inserting_before(node):
            node.update_arg(3, graph.call_function(aten.where.Scalar, (node.args[3], 0.0, -8.0)))

    for node in calls(graph, aten.scaled_dot_product_attention.default):
        mask = node.args[3] if len(node.args) > 3 else None
        if isinstance(mask, Node) and value(mask).dtype == torch.bool:
            yield "masked scores get -8", soften, node


def boundary(graph: Graph) -> Iterator[Site]:
    """Bounds that are off by one."""
    pairs = {aten.le.Tensor: aten.lt.Tensor, aten.ge.Scalar: aten.gt.Scalar, aten.gt.Tensor: aten.ge.Tensor}
    pairs |= {aten.lt.Scalar: aten.le.Scalar, aten.gt.Scalar: aten.ge.Scalar}
    for node in calls(graph, *pairs):
        yield f"{node.target} becomes {pairs[node.target]}", with_target(pairs[node.target]), node
    for node in calls(graph, aten.slice.Tensor):
        if len(node.args) > 3 and isinstance(node.args[3], int) and 1 < node.args[3] < 2**31:
            start = node.args[2] or 0
            size = node.args[3] - start
            yield "a slice from one place earlier", slice_at(node, start - 1, size) if start else shifted(node), node
    for node in calls(graph, aten.select.int):
        if node.args[2] == 0 and is_float(node):
            yield "the second place for the first", with_argument(2, 1), node
    for node in calls(graph, aten.arange.default):
        yield "positions from one on", linked((aten.add.Tensor, (..., 1), {})), node


def slice_at(node: Node, start: int, size: int) -> Callable[[Node, Graph], None]:
    """An edit that slices elsewhere."""
    return lambda node, graph: setattr(node, "args", (*node.args[:2], start, start + size, *node.args[4:]))


def shifted(node: Node) -> Callable[[Node, Graph], None]:
    """An edit that shifts what is sliced by one place."""
    return linked((aten.roll.default, (..., [1], [node.args[1]]), {}))


def stale_buffer(graph: Graph) -> Iterator[Site]:
    """Buffers that are not updated, or not the trained ones."""
    for node in calls(graph, aten.add_.Tensor, aten.mul_.Tensor, aten.copy_.default):
        if str(node.args[0]).startswith("b_") or node.target is aten.copy_.default:
            yield "an update of a buffer is dropped", drop_update, node
    for node in graph.nodes:
        if node.op == "placeholder" and node.name.startswith(("b_", "c_")) and is_float(node):
            yield "a buffer is a thousandth off", linked((aten.mul.Tensor, (..., 1 + MORE), {})), node


def drop_update(node: Node, graph: Graph) -> None:
    """Leave a write out."""
    node.replace_all_uses_with(node.args[0])
    graph.erase_node(node)


def lost_dtype(graph: Graph) -> Iterator[Site]:
    """Results that are rounded to half precision on the way."""
    targets = (
        aten.linear.default,
        aten.layer_norm.default,
        aten.embedding.default,
        aten.softmax.int,
        aten.conv2d.default,
    )
    for node in calls(graph, *targets, aten.cos.default, aten.rsqrt.default, aten.addmm.default):
        if is_float(node):
            for dtype in (torch.bfloat16, torch.float16):
                back = (aten.to.dtype, (..., torch.float32), {})
                yield f"{node.target} rounds to {dtype}", linked((aten.to.dtype, (..., dtype), {}), back), node


def head_scale(graph: Graph) -> Iterator[Site]:
    """Attention of which one head is scaled otherwise."""

    def edit(node: Node, graph: Graph) -> None:
        query: Any = node.args[0]
        factor = float(value(query).shape[-1]) ** 0.5
        with graph.inserting_before(node):
            first = graph.call_function(aten.slice.Tensor, (query, 1, 0, 1))
            scaled = graph.call_function(aten.mul.Tensor, (first, factor))
            rest = graph.call_function(aten.slice.Tensor, (query, 1, 1, 2**31))
            node.update_arg(0, graph.call_function(aten.cat.default, ([scaled, rest], 1)))

    for node in calls(graph, aten.scaled_dot_product_attention.default):
        yield "one head lacks its scale", edit, node


def first_batch(graph: Graph) -> Iterator[Site]:
    """Values of the first row, taken for all."""

    def edit(node: Node, graph: Graph) -> None:
        def make(n: Node) -> Node:
            row = chain(graph, n, (aten.slice.Tensor, (..., 0, 0, 1), {}))
            return chain(graph, row, (aten.expand_as.default, (..., n), {}))

        after(graph, node, make)

    for node in calls(
        graph, aten.mean.dim, aten.layer_norm.default, aten.rsqrt.default, aten.max_pool2d.default, aten.linear.default
    ):
        if is_float(node, 2) and not isinstance(value(node).shape[0], int):
            yield f"{node.target} of the first row for all", edit, node


def gross(graph: Graph) -> Iterator[Site]:
    """Changes that nobody overlooks."""
    for node in calls(graph, aten.add.Tensor):
        if is_float(node, 2) and all(is_float(arg, 2) for arg in node.args[:2]):
            yield "a sum without its first term", lambda n, graph: n.replace_all_uses_with(n.args[1]), node
    swaps = {
        aten.gelu.default: aten.relu.default,
        aten.silu.default: aten.relu.default,
        aten.tanh.default: aten.sigmoid.default,
    }
    for node in calls(graph, *swaps, aten.relu.default):
        yield "another activation", with_target(swaps.get(node.target, aten.gelu.default)), node
    for node in calls(graph, aten.neg.default):
        yield "a sign is lost", lambda n, graph: n.replace_all_uses_with(n.args[0]), node
    for node in calls(graph, aten.scaled_dot_product_attention.default):
        yield "keys for queries", with_argument(0, node.args[1]), node
    for node in calls(graph, aten.linear.default):
        if len(node.args) > 2 or is_float(node):
            yield "a projection is doubled", linked((aten.mul.Tensor, (..., 2.0), {})), node
    for node in calls(graph, aten.conv2d.default):
        yield "a convolution is negated", linked((aten.neg.default, (...,), {})), node


SUBTLE = (eps, mask_value, boundary, stale_buffer, lost_dtype, head_scale, first_batch)


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A change at a node of one architecture's program."""

    kind: str
    operator: str
    words: str
    node: str
    number: int

    @property
    def subtle(self) -> bool:
        """Whether it is easily overlooked."""
        return self.operator != gross.__name__

    def __str__(self) -> str:
        return f"{self.kind}: {self.operator}, {self.words}, at {self.node}"


def mutants_of(kind: str, subject: Subject, count: int) -> list[Mutant]:
    """So many mutants that run, half of them or more subtle, spread over the kinds of changes."""
    program = subject.program
    rng = random.Random(f"{SEED}{kind}")
    pools = {}
    for make in (*SUBTLE, gross):
        found = [
            Mutant(kind, make.__name__, words, node.name, i) for i, (words, _, node) in enumerate(make(program.graph))
        ]
        rng.shuffle(found)
        pools[make.__name__] = found
    chosen: list[Mutant] = []
    names = [make.__name__ for make in SUBTLE]
    order = [gross.__name__] * (count // 4)
    while len(chosen) < count and any(pools.values()):
        for name in order or (names if any(pools[name] for name in names) else [gross.__name__]):
            while pools[name] and len(chosen) < count:
                mutant = pools[name].pop()
                if runs(subject, mutant):
                    chosen.append(mutant)
                    break
        order = []
    return chosen


def runs(subject: Subject, mutant: Mutant) -> bool:
    """Whether the mutant runs on the example: one that does not is no silently wrong program."""
    try:
        call(mutated(subject.program, mutant).module(), fresh(subject.example))
    except Exception:
        return False
    return True


def mutated(program: ExportedProgram, mutant: Mutant) -> ExportedProgram:
    """A copy of the program with the change."""
    made = copy.deepcopy(program)
    make = next(make for make in (*SUBTLE, gross) if make.__name__ == mutant.operator)
    _, edit, node = list(make(made.graph))[mutant.number]
    assert node.name == mutant.node
    edit(node, made.graph)
    made.graph.eliminate_dead_code()
    made.graph_module.recompile()
    return made


# -- judging


@dataclasses.dataclass
class Architecture:
    """A model, its program, and drawn calls with what is right for them."""

    kind: str
    ctx: Context
    subject: Subject
    checked: list[Trial]
    judged: list[Any]

    def expected(self) -> list[tuple[Any, Reference | None]]:
        """For each checked call, eager's result and the float64 reference; ``None`` where eager refuses the call."""
        if not hasattr(self, "_expected"):
            self._expected = [self._eager(trial.inputs) for trial in self.checked]
        return self._expected

    def _eager(self, arguments: Any) -> tuple[Any, Reference | None]:
        try:
            return self.subject.eager(arguments), self.ctx.reference(fresh(arguments))
        except Exception:
            return None, None

    def right(self) -> list[list[Any]]:
        """For each judged call, the float64 leaves and what parity allows of each."""
        if not hasattr(self, "_right"):
            self._right = [self._allowed(inputs) for inputs in self.judged]
        return self._right

    def _allowed(self, arguments: Any) -> list[Any]:
        eager = pytree.tree_leaves(call(self.subject.model, fresh(arguments)))
        exact = pytree.tree_leaves(self.ctx.reference(arguments).result())
        return [(r, allowed_of(e, r)) for e, r in zip(eager, exact, strict=True) if isinstance(e, torch.Tensor)]

    def counts(self, program: ExportedProgram) -> float:
        """The largest of the mutant's errors in float64, in units of what parity allows."""
        module = exact_module(program)
        return max(self._excess(module, x, right) for x, right in zip(self.judged, self.right(), strict=True))

    def _excess(self, module: nn.Module, arguments: Any, right: list[Any]) -> float:
        found = exact_result(module, arguments)
        if found is None:
            return float("inf")
        leaves = [leaf for leaf in found if isinstance(leaf, torch.Tensor)]
        return max(excess(m, r, allowed) for m, (r, allowed) in zip(leaves, right, strict=True))


def allowed_of(eager: torch.Tensor, exact: torch.Tensor) -> tolerance.Allowance | None:
    """What parity allows of a tensor, by eager's own error."""
    if not eager.is_floating_point():
        return None
    eps_of = torch.finfo(eager.dtype).eps
    x, r = eager.double().flatten(), exact.double().flatten()
    return tolerance.by_reference(x, r, eps_of) or tolerance.by_dtype(x, eps_of)


def excess(mutant: torch.Tensor, exact: torch.Tensor, allowed: tolerance.Allowance | None) -> float:
    """The error of a mutant's tensor in units of what is allowed."""
    if mutant.shape != exact.shape or allowed is None:
        return float("inf") if mutant.shape != exact.shape or not torch.equal(mutant, exact) else 0.0
    if not torch.equal(mutant.isnan(), exact.isnan()):
        return float("inf")
    error = (mutant - exact).abs().nan_to_num(0.0)
    if not error.numel():
        return 0.0
    parts = [float(error.max()) / allowed.worst if allowed.worst else 0.0]
    if allowed.rms:
        parts.append(tolerance.rms_of(error) / allowed.rms)
    return max(parts)


def exact_result(module: nn.Module, arguments: Any) -> list[Any] | None:
    """The flattened result of a program in float64; ``None`` where it fails."""
    try:
        with double_by_default():
            return pytree.tree_leaves(call(module, widened(arguments)))
    except Exception:
        return None


def exact_module(program: ExportedProgram) -> nn.Module:
    """The program in float64; what a mutant casts to half precision stays cast."""
    module = copy.deepcopy(program.module(check_guards=False))
    for node in calls(module.graph, aten._assert_tensor_metadata.default):
        module.graph.erase_node(node)
    for node in module.graph.nodes:
        node.args, node.kwargs = pytree.tree_map(
            lambda a: torch.float64 if a is torch.float32 else a, (node.args, node.kwargs)
        )
    module.recompile()
    return in_double(module)


@contextlib.contextmanager
def double_by_default() -> Iterator[None]:
    """Make float64 what floating-point tensors are unless they say otherwise."""
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def drawn(space: Any, count: int, number: int) -> list[Any]:
    """Calls that the strategy draws, by a seed of their own."""
    found: list[Any] = []

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(space.drawn())
    def collect(call: Any) -> None:
        found.append(call)

    collect()
    return found


def architecture(
    kind: str, case: ModelCase | None = None, checked: int = CHECKED, judged: int = JUDGED
) -> Architecture:
    """Export a model and draw calls for it."""
    ctx = Context(case or case_of(kind), Settings(("shapes",), examples=checked), lambda _: None)
    contract, inferred = ctx.contract()
    subject = shapes.subject_of(ctx, contract, GuardLog(), inferred=inferred and contract.dynamic)
    trials = [Trial(subject.example, "the example", strategies.sizes_of(contract.leaves, subject.example))]
    if not contract.dynamic:
        return Architecture(kind, ctx, subject, trials, [])
    space = search.space_of(subject)
    trials += [Trial.of(made) for made in space.sweep(checked // 2)]
    trials += [Trial.of(made) for made in drawn(space, max(1, checked - len(trials) + 1), 1)]
    valid = []
    for made in drawn(space, judged, 2) if judged else []:
        with contextlib.suppress(Exception):
            subject.eager(made.inputs)
            valid.append(made.inputs)
    return Architecture(kind, ctx, subject, trials, valid)


def flagged(made: Architecture, program: ExportedProgram) -> str | None:
    """What the comparison says about a program in the calls that are drawn for checks; ``None`` where it is right."""
    module = program.module()
    for trial, (expected, reference) in zip(made.checked, made.expected(), strict=True):
        if reference is None:  # the eager model refuses the call
            continue
        try:
            actual = made.subject.run(module, trial.inputs)
        except Exception as error:
            if 1 in trial.sizes.values():  # torch treats a size of 1 apart, and says so
                continue
            return f"{trial.words}: {type(error).__name__}"
        difference = made.ctx.compare(expected, actual, reference=reference)
        if difference is not None:
            return f"{trial.words}: {difference}"
    return None


def flagged_in_steps(made: Architecture, program: ExportedProgram) -> str | None:
    """The same for a model that remembers, by the check ``steps``."""
    ctx = Context(made.ctx.case, made.ctx.settings, lambda _: None)
    ctx._program = program
    result = steps.run(ctx)
    return result.reason if result.outcome == "failed" else None


def in_steps(made: Architecture, program: ExportedProgram) -> float:
    """The error of a mutant that remembers, in units of what is allowed, over three calls."""
    right = made.ctx.build()
    generator = torch.Generator().manual_seed(3)
    sequence = [((torch.randn(2, 16, generator=generator),), {}) for _ in range(3)]
    exact, wrong = in_double(made.ctx.build()), exact_module(program)
    worst = 0.0
    for arguments in sequence:
        e = call(right, arguments)
        with double_by_default():
            r, m = call(exact, widened(arguments)), call(wrong, widened(arguments))
        worst = max(worst, excess(m, r, allowed_of(e, r)))
    return worst


@dataclasses.dataclass
class Score:
    """What became of the mutants."""

    caught: list[Mutant] = dataclasses.field(default_factory=list)
    missed: list[str] = dataclasses.field(default_factory=list)
    equivalent: list[str] = dataclasses.field(default_factory=list)
    wrongly: list[str] = dataclasses.field(default_factory=list)
    rows: list[str] = dataclasses.field(default_factory=list)  # of the table, one for each architecture

    def counts(self) -> tuple[int, ...]:
        """What a row holds: caught, of them subtle, missed, right program flagged, equivalent."""
        subtle = sum(m.subtle for m in self.caught)
        return len(self.caught), subtle, len(self.missed), len(self.wrongly), len(self.equivalent)

    def of(self, made: Architecture, mutant: Mutant) -> None:
        """Judge one mutant."""
        program = mutated(made.subject.program, mutant)
        stateful = bool(made.ctx.case.steps)
        found = (flagged_in_steps if stateful else flagged)(made, program)
        times = (in_steps(made, program)) if stateful else made.counts(program)
        if times <= 2:
            self.equivalent.append(f"{mutant} ({times:.2g} of what is allowed{', flagged' if found else ''})")
        elif found is None:
            self.missed.append(f"{mutant} ({times:.3g} times what is allowed)")
        else:
            self.caught.append(mutant)

    def lines(self) -> Iterator[str]:
        """The score for a reader."""
        subtle = sum(m.subtle for m in self.caught)
        flags = f"missed {len(self.missed)}, wrongly flagged {len(self.wrongly)}; equivalent {len(self.equivalent)}"
        yield f"caught {len(self.caught)} ({subtle} of them subtle), {flags}"
        for title, items in (
            ("missed", self.missed),
            ("wrongly flagged", self.wrongly),
            ("equivalent", self.equivalent),
        ):
            yield from (f"  {title}: {item}" for item in items)

    def page(self) -> Iterator[str]:
        """The score as a page of Markdown."""
        yield from (
            "# Wrong programs",
            "",
            f"`python benchmarks/mutants.py`, {made_with()}: {JUDGED} drawn calls decide",
        )
        yield f"whether a mutant counts, the example and {CHECKED} other drawn calls whether it is caught."
        yield ""
        heads = ("architecture", "mutants", "subtle", "caught", "of them subtle", "missed", "right program flagged")
        yield f"| {' | '.join(heads)} | equivalent |"
        yield "|---|---|---|---|---|---|---|---|"
        yield from self.rows
        caught, subtle, missed, wrongly, equivalent = self.counts()
        yield ""
        flags = f"missed {missed}, wrongly flagged {wrongly}; equivalent {equivalent}"
        yield f"Caught {caught} ({subtle} of them subtle), {flags}."
        for title, items in (
            ("Missed", self.missed),
            ("Wrongly flagged", self.wrongly),
            ("Equivalent, since no drawn call shows a difference of twice what is allowed", self.equivalent),
        ):
            if items:
                yield from ("", f"{title}:", "", *(f"* {item}" for item in items))


def score(kinds: tuple[str, ...], count: int | None) -> Score:
    """Judge the mutants of these architectures, and their right programs."""
    found = Score()
    for kind in kinds:
        began = time.monotonic()
        made = architecture(kind)
        look = flagged_in_steps if made.ctx.case.steps else flagged
        before = found.counts()
        right = look(made, made.subject.program)
        if right is not None:
            found.wrongly.append(f"{kind}: {right}")
        chosen = mutants_of(kind, made.subject, count or MUTANTS.get(kind, OTHERS))
        for mutant in chosen:
            found.of(made, mutant)
        subtle = sum(m.subtle for m in chosen)
        new = (later - earlier for later, earlier in zip(found.counts(), before, strict=True))
        found.rows.append(f"| {kind} | {len(chosen)} | {subtle} | {' | '.join(map(str, new))} |")
        words = f"{kind}: {len(chosen)} mutants, {subtle} subtle, {time.monotonic() - began:.0f} s"
        print(f"{words}; so far {next(found.lines())}", flush=True)
    return found


def right_programs(kinds: tuple[str, ...], count: int) -> Iterator[str]:
    """Lines about right programs in three dtypes: how many drawn calls, how many flagged."""
    for kind in kinds:
        for dtype in DTYPES:
            case = case_of(kind)
            case = case if dtype == "float32" else variants.of_case(case, dtype)
            yield f"| {kind} | {dtype} | {' | '.join(map(str, one_right(kind, case, count)))} |"


def right_page(rows: list[str], count: int) -> Iterator[str]:
    """The rows about right programs as a page of Markdown."""
    yield from (
        "# Right programs",
        "",
        f"`python benchmarks/mutants.py --right {count}`, {made_with()}. The program as it was",
    )
    yield "exported, and a tenth of the calls with the decomposed one, whose results are not equal bit for bit."
    yield "`memory` remembers, so its calls are drawn as sequences by the check `steps`."
    yield ""
    yield "| architecture | dtype | calls | flagged | decomposed: calls | flagged |"
    yield from ("|---|---|---|---|---|---|", *rows, "")
    calls, faults, decomposed, wrong = (sum(int(row.split("|")[place]) for row in rows) for place in (3, 4, 5, 6))
    yield f"{calls} calls, {faults} flagged; decomposed {decomposed}, {wrong} flagged."
    yield ""
    yield "0 decomposed calls: torch cannot run the decomposed program of gpt2 (a view of a tensor that is not"
    yield "contiguous), and `memory` is only called as it was exported."


def made_with() -> str:
    """When and with what a page is made."""
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}, Python {platform.python_version()}"
    return f"{datetime.datetime.now().astimezone():%Y-%m-%d}, {versions}, {os.cpu_count()} CPU cores"


def one_right(kind: str, case: ModelCase, count: int) -> tuple[int, int, int, int]:
    """Calls and flagged ones, as exported and decomposed; of decomposed programs a tenth of the calls."""
    made = architecture(kind, case, checked=2, judged=0)
    if case.steps:
        ctx = Context(case, Settings((), examples=max(1, count // 8)), lambda _: None)
        result = steps.run(ctx)
        return (
            int((result.reason or "0").split()[0]) if result.outcome == "passed" else 0,
            int(result.outcome != "passed"),
            0,
            0,
        )
    trials = [Trial.of(call_) for call_ in drawn(search.space_of(made.subject), count, 5)]
    plain = attempts(made.subject, trials)
    try:
        decomposed = dataclasses.replace(made.subject, program=made.subject.program.run_decompositions(), faults={})
    except Exception:
        return (*plain, 0, 0)
    return (*plain, *attempts(decomposed, trials[: count // 10]))


def attempts(subject: Subject, trials: list[Trial]) -> tuple[int, int]:
    """Calls that were compared, and faults."""
    before, faults = subject.ran, 0
    for trial in trials:
        try:
            subject.attempt(trial)
        except RefusedError:
            continue
        except FaultError as fault:
            faults += 1
            print(f"  flagged: {fault.trial.words}: {fault.evidence}", flush=True)
    return subject.ran - before, faults


def main() -> int:
    """The main program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--right", type=int, default=0, metavar="N")
    parser.add_argument("--only", default="", help="architectures, separated by commas")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    kinds = tuple(args.only.split(",")) if args.only else QUICK if args.quick else ARCHITECTURES
    if args.right:
        lines = []
        for line in right_programs(kinds, args.right):
            lines.append(line)
            print(line, flush=True)
        failed = any(
            cells[4].strip() != "0" or cells[6].strip() != "0" for cells in (line.split("|") for line in lines)
        )
        write(args.output, list(right_page(lines, args.right)))
        return int(failed)
    found = score(kinds, QUICK_MUTANTS if args.quick else None)
    lines = list(found.lines())
    print("\n".join(lines))
    write(args.output, list(found.page()))
    return int(bool(found.missed or found.wrongly))


def write(file: Path | None, lines: list[str]) -> None:
    """Write a result beside its place, then rename it."""
    if file is not None:
        whole_file.write(file, ("\n".join(lines) + "\n").encode())


if __name__ == "__main__":
    sys.exit(main())
