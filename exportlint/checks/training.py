"""The check ``training``: does the program of the model in training mode have the eager model's gradients?

1. The model in training mode, with the case's loss behind it, is captured; the loss, the gradients of the parameters
   and the buffers after the call must be the eager model's.
2. The forward and the backward pass are captured together as one graph; its gradients must be the same. Parameters
   without a gradient are frozen for that, and those that share a tensor get one each, since torch refuses both.

A gradient that only one side has is a difference, unless it is zero everywhere. Random operators draw the same
numbers on both sides.
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
        variant = ctx.only_in_variant(lambda plain: _eager(plain, _WithLoss(plain.build(), loss)))
        return of_model_error(NAME, message, error, variant)
    try:
        program = _exported(ctx, loss)
    except Exception as error:
        if blame.is_out_of_memory(error):
            raise MemoryError from error
        found = blame.of_failure(error, ctx.head())
        return CheckResult(name=NAME, outcome="failed", reason=found.message, findings=(found,))
    buffers = copies(dict(eager.named_buffers()))
    return _compared(ctx, program, expected, _first_names(eager), buffers)


def _exported(ctx: Context, loss: Callable[[Any], Any]) -> ExportedProgram:
    """The program in training mode."""
    ctx.stage("export in training mode")
    return torch.export.export(_WithLoss(ctx.build(), loss), ctx.example(), strict=False)


def _exported_for_joint(ctx: Context, loss: Callable[[Any], Any], trained: frozenset[str]) -> ExportedProgram:
    """The same, where only parameters that are `trained` need a gradient, and none share a tensor."""
    ctx.stage("export in training mode, once more")
    model = _WithLoss(ctx.build(), loss)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.removeprefix(PREFIX) in trained)
    _untie(model)
    return torch.export.export(model, ctx.example(), strict=False)


def _untie(model: nn.Module) -> None:
    """Give each place that holds a parameter one of its own."""
    seen: set[int] = set()
    for module in model.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is not None and id(parameter) in seen:
                own = nn.Parameter(parameter.detach().clone(), requires_grad=parameter.requires_grad)
                module._parameters[name] = own
            seen.add(id(parameter))


def _first_names(model: nn.Module) -> dict[str, str]:
    """The first name of the tensor that each name of a parameter stands for."""
    first: dict[int, str] = {}
    names = ((name.removeprefix(PREFIX), p) for name, p in model.named_parameters(remove_duplicate=False))
    return {name: first.setdefault(id(parameter), name) for name, parameter in names}


def _not_checked(reason: str) -> CheckResult:
    return CheckResult(name=NAME, outcome="not_checked", reason=reason)


def _eager(ctx: Context, eager: _WithLoss) -> dict[str, Any]:
    """The eager model's loss and gradients.

    Raises:
        ModelError: When it does not train.
    """
    ctx.stage("eager training")
    try:
        return _trained(eager, ctx.example(), _first_names(eager))
    except Exception as error:
        raise ModelError("training") from error


def _trained(module: nn.Module, inputs: Inputs, first: dict[str, str]) -> dict[str, Any]:
    """The loss, and the gradients by the first names of the parameters, after one call and its backward pass."""
    for parameter in module.parameters():
        parameter.grad = None
    seed_everything()
    with torch.enable_grad():
        loss = module(*inputs)
        loss.backward()
    grads = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        short = name.removeprefix(PREFIX)
        if parameter.grad is not None:
            grads[first.get(short, short)] = parameter.grad.detach().clone()
    return {LOSS: loss.detach(), **grads}


def _compared(
    ctx: Context,
    program: ExportedProgram,
    expected: dict[str, Any],
    first: dict[str, str],
    buffers: dict[str, torch.Tensor],
) -> CheckResult:
    ctx.stage("training of the program")
    module = program.module()
    try:
        with _kept(program):
            found = _trained(module, ctx.example(), first)
            wrote = copies(dict(module.named_buffers()))
    except Exception as error:
        if blame.is_out_of_memory(error):
            raise MemoryError from error
        return _failed(ctx, "the program in training mode does not train", blame.words(error))
    difference = _one_sided(expected, found) or _differ(ctx, expected, found)
    if difference is not None:
        return _failed(ctx, "the program in training mode has another loss or other gradients", difference)
    changed = buffers_differ(buffers, wrote, lambda a, b, _: compare(a, b, **ctx.tolerance))
    if changed is not None:
        return _failed(ctx, "the program in training mode updates its buffers otherwise", changed)
    return _joint(ctx, program, expected, first)


@contextlib.contextmanager
def _kept(program: ExportedProgram) -> Any:
    """Leave no gradients and no changes behind in the program."""
    with unchanged(program):
        yield
    for parameter in program.parameters():
        parameter.grad = None


def _joint(ctx: Context, program: ExportedProgram, expected: dict[str, Any], first: dict[str, str]) -> CheckResult:
    why_not = joint.why_not()
    number = f"{len(expected) - 1} gradients"
    if why_not is not None:
        return _not_checked(f"{number} of the program are the eager model's; its joint graph is not had: {why_not}")
    trained = frozenset(expected.keys() - {LOSS})
    try:
        if trained < first.keys() and ctx.case.loss is not None:
            program = _exported_for_joint(ctx, ctx.case.loss, trained)
        ctx.stage("joint graph")
        both = joint.joint(program)
        seed_everything()
        grads = joint.gradients(both, pytree.tree_leaves(ctx.example()))
    except Exception as error:
        if blame.is_out_of_memory(error):
            raise MemoryError from error
        words = blame.words(error)
        return _not_checked(f"{number} of the program are the eager model's; its joint graph is not had: {words}")
    found = {LOSS: expected[LOSS], **_summed(grads, first)}
    difference = _one_sided(expected, found) or _differ(ctx, expected, found)
    if difference is not None:
        return _failed(ctx, "the joint graph of forward and backward pass has other gradients", difference)
    reason = f"{number}, of the program and of the joint graph"
    return CheckResult(name=NAME, outcome="passed", reason=reason, notes=tuple(ctx.judged))


def _summed(grads: dict[str, Any], first: dict[str, str]) -> dict[str, Any]:
    """The gradients by first names; where parameters share a tensor, its gradient is the sum of theirs."""
    found: dict[str, Any] = {}
    for name, grad in grads.items():
        short = name.removeprefix(PREFIX)
        key = first.get(short, short)
        if grad is not None:
            found[key] = grad if key not in found else found[key] + grad
    return found


def _one_sided(expected: dict[str, Any], found: dict[str, Any]) -> str | None:
    """A gradient that one side has and the other lacks, in words; one that is zero everywhere counts as none."""
    for name in sorted(expected.keys() - found.keys()):
        if expected[name].any():
            return f"no gradient of {name}, which has one in eager"
    for name in sorted(found.keys() - expected.keys()):
        if found[name].any():
            return f"a gradient of {name}, which has none in eager"
    return None


def _differ(ctx: Context, expected: dict[str, Any], found: dict[str, Any]) -> str | None:
    """The first difference of loss and gradients, in words."""

    def prepare() -> Callable[[], Any]:
        assert ctx.case.loss is not None
        model, wide = in_double(_WithLoss(ctx.build(), ctx.case.loss)), widened(ctx.example())
        return lambda: _trained(model, wide, _first_names(model))

    names = [name for name in expected if name in found]
    left, right = ({name: side[name] for name in names} for side in (expected, found))
    reference = Reference(lambda: _only(prepare(), names))
    difference: Difference | None = compare(left, right, reference=reference, **ctx.tolerance)
    if difference is None:
        ctx.judge(reference)
    return None if difference is None else str(difference).replace("output", "", 1)


def _only(call: Callable[[], dict[str, Any]], names: list[str]) -> Callable[[], dict[str, Any]]:
    def chosen() -> dict[str, Any]:
        everything = call()
        return {name: everything[name] for name in names}

    return chosen


def _failed(ctx: Context, message: str, evidence: str) -> CheckResult:
    found = blame.finding("EXP004", message, ctx.head(), outcome="silent", evidence=evidence)
    return CheckResult(name=NAME, outcome="failed", reason=f"{message}: {evidence}", findings=(found,))
