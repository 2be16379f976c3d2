"""The check ``training``: does the program of the model in training mode have the eager model's gradients?

1. The model in training mode, with the case's loss behind it, is captured; the loss, the gradients of the parameters
   and the buffers after the call must be the eager model's.
2. The forward and the backward pass are captured together as one graph; its gradients must be the same. Parameters
   without a gradient are frozen for that, since torch refuses them.

Random operators draw the same numbers on both sides.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from exportlint import blame
from exportlint.checks.context import ModelError, seed_everything, unchanged
from exportlint.checks.results import NOT_ASKED, of_model_error
from exportlint.findings import CheckResult
from exportlint.parity.compare import compare
from exportlint.parity.observed import buffers_differ, copies
from exportlint.parity.reference import Reference, in_double, widened
from exportlint.torch_hooks import joint

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.export import ExportedProgram

    from exportlint.checks.case import Inputs
    from exportlint.checks.context import Context
    from exportlint.parity.compare import Difference

NAME = "training"
LOSS, PREFIX = "loss", "model."


class _WithLoss(nn.Module):
    """The model in training mode with its loss behind it."""

    def __init__(self, model: nn.Module, loss: Callable[[Any], Any]) -> None:
        super().__init__()
        self.model, self.loss = model.train(), loss

    def forward(self, args: Any, kwargs: Any) -> Any:
        return self.loss(self.model(*args, **kwargs))


def run(ctx: Context) -> CheckResult:
    """Run the check."""
    loss = ctx.case.loss
    if loss is None:
        return _not_checked(f"{NOT_ASKED}: the case has no loss")
    try:
        eager = _WithLoss(ctx.build(), loss)
        expected = _eager(ctx, eager)
    except ModelError as error:
        message = "the model does not train: its call, its loss or the backward pass fails"
        return of_model_error(NAME, message, error)
    try:
        program = _exported(ctx, loss)
    except Exception as error:
        if blame.is_out_of_memory(error):
            raise MemoryError from error
        found = blame.of_failure(error, ctx.head())
        return CheckResult(name=NAME, outcome="failed", reason=found.message, findings=(found,))
    return _compared(ctx, program, expected, copies(dict(eager.named_buffers())))


def _exported(ctx: Context, loss: Callable[[Any], Any], without: frozenset[str] = frozenset()) -> ExportedProgram:
    """The program in training mode; parameters named in `without` are frozen."""
    ctx.stage("export in training mode")
    model = _WithLoss(ctx.build(), loss)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(parameter.requires_grad and name.removeprefix(PREFIX) not in without)
    return torch.export.export(model, ctx.example(), strict=False)


def _not_checked(reason: str) -> CheckResult:
    return CheckResult(name=NAME, outcome="not_checked", reason=reason)


def _eager(ctx: Context, eager: _WithLoss) -> dict[str, Any]:
    """The eager model's loss and gradients.

    Raises:
        ModelError: When it does not train.
    """
    ctx.stage("eager training")
    try:
        return _trained(eager, ctx.example())
    except Exception as error:
        raise ModelError("training") from error


def _trained(module: nn.Module, inputs: Inputs) -> dict[str, Any]:
    """The loss, and the gradients by the names of the parameters, after one call and its backward pass."""
    for parameter in module.parameters():
        parameter.grad = None
    seed_everything()
    with torch.enable_grad():
        loss = module(*inputs)
        loss.backward()
    grads = {name: parameter.grad for name, parameter in module.named_parameters() if parameter.grad is not None}
    return {LOSS: loss.detach(), **{name.removeprefix(PREFIX): grad.detach().clone() for name, grad in grads.items()}}


def _compared(
    ctx: Context, program: ExportedProgram, expected: dict[str, Any], buffers: dict[str, torch.Tensor]
) -> CheckResult:
    ctx.stage("training of the program")
    module = program.module()
    try:
        with _kept(program):
            found = _trained(module, ctx.example())
            wrote = copies(dict(module.named_buffers()))
    except Exception as error:
        if blame.is_out_of_memory(error):
            raise MemoryError from error
        return _failed(ctx, "the program in training mode does not train", blame.words(error))
    difference = _differ(ctx, expected, found)
    if difference is not None:
        return _failed(ctx, "the program in training mode has another loss or other gradients", difference)
    changed = buffers_differ(buffers, wrote, lambda a, b: compare(a, b, **ctx.tolerance))
    if changed is not None:
        return _failed(ctx, "the program in training mode updates its buffers otherwise", changed)
    return _joint(ctx, program, expected)


@contextlib.contextmanager
def _kept(program: ExportedProgram) -> Any:
    """Leave no gradients and no changes behind in the program."""
    with unchanged(program):
        yield
    for parameter in program.parameters():
        parameter.grad = None


def _joint(ctx: Context, program: ExportedProgram, expected: dict[str, Any]) -> CheckResult:
    why_not = joint.why_not()
    number = f"{len(expected) - 1} gradients"
    if why_not is not None:
        return _not_checked(f"{number} of the program are the eager model's; its joint graph is not had: {why_not}")
    names = {name.removeprefix(PREFIX) for name, _ in program.named_parameters()}
    without = frozenset(names - expected.keys())
    try:
        if without and ctx.case.loss is not None:
            program = _exported(ctx, ctx.case.loss, without)
        ctx.stage("joint graph")
        both = joint.joint(program)
        seed_everything()
        grads = joint.gradients(both, pytree.tree_leaves(ctx.example()))
    except Exception as error:
        if blame.is_out_of_memory(error):
            raise MemoryError from error
        words = blame.words(error)
        return _not_checked(f"{number} of the program are the eager model's; its joint graph is not had: {words}")
    found = {name.removeprefix(PREFIX): grad for name, grad in grads.items() if grad is not None}
    missing = sorted(expected.keys() - found.keys() - {LOSS})
    difference = f"no gradient of {missing[0]}" if missing else _differ(ctx, expected, {LOSS: expected[LOSS], **found})
    if difference is not None:
        return _failed(ctx, "the joint graph of forward and backward pass has other gradients", difference)
    reason = f"{number}, of the program and of the joint graph"
    return CheckResult(name=NAME, outcome="passed", reason=reason, notes=tuple(ctx.judged))


def _differ(ctx: Context, expected: dict[str, Any], found: dict[str, Any]) -> str | None:
    """The first difference of loss and gradients, in words."""

    def prepare() -> Callable[[], Any]:
        assert ctx.case.loss is not None
        model, wide = in_double(_WithLoss(ctx.build(), ctx.case.loss)), widened(ctx.example())
        return lambda: _trained(model, wide)

    names = [name for name in expected if name in found]
    left, right = ({name: side[name] for name in names} for side in (expected, found))
    reference = Reference(lambda: _only(prepare(), names))
    difference: Difference | None = compare(left, right, reference=reference, **ctx.tolerance)
    if difference is None:
        ctx.judged.update(dict.fromkeys(reference.notes))
    return None if difference is None else str(difference).replace("output", "", 1)


def _only(call: Callable[[], dict[str, Any]], names: list[str]) -> Callable[[], dict[str, Any]]:
    def chosen() -> dict[str, Any]:
        everything = call()
        return {name: everything[name] for name in names}

    return chosen


def _failed(ctx: Context, message: str, evidence: str) -> CheckResult:
    found = blame.finding("EXP004", message, ctx.head(), outcome="silent", evidence=evidence)
    return CheckResult(name=NAME, outcome="failed", reason=f"{message}: {evidence}", findings=(found,))
