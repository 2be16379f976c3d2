"""The check ``training``: does the program of the model in training mode have the eager model's gradients?

1. The model in training mode, with the case's loss behind it, is captured; the loss, the gradients of the parameters
   and the buffers after the call must be the eager model's.
2. The forward and the backward pass are captured together as one graph; its gradients must be the same. Parameters
   without a gradient are frozen for that, and those that share a tensor, and modules that are in several places, get
   one each, since torch refuses both. Its backward pass is made of smaller operators, so that rounding may be larger:
   what is not equal is computed in float64 on both sides, which decides.

A gradient that only one side has is a difference, unless it is zero everywhere. Random operators draw the same
numbers on both sides. Gradients are compared in the order in which eager has them, from the loss on. Where the loss is
right, the node is told at which the backward pass parts; of the joint graph, the module of the first that differs.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn
from torch.utils import _pytree as pytree

from exportlint import blame
from exportlint.checks.context import ModelError, seed_everything, unchanged
from exportlint.checks.results import NOT_ASKED, of_model_error
from exportlint.checks.wrong_result import values_part
from exportlint.findings import CheckResult
from exportlint.parity.backward import backward_parting
from exportlint.parity.compare import compare
from exportlint.parity.observed import buffers_differ, copies
from exportlint.parity.parting import line_in_module
from exportlint.parity.reference import Reference, in_double, widened
from exportlint.torch_hooks import joint

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.export import ExportedProgram

    from exportlint.checks.case import Inputs
    from exportlint.checks.context import Context
    from exportlint.parity.backward import BackwardParting
    from exportlint.parity.compare import Difference
    from exportlint.parity.parting import Parting
    from exportlint.places import Place

NAME = "training"
LOSS, INSIDE = "loss", "model"
PREFIX = f"{INSIDE}."
EXACT = 1e-8  # times the largest gradient: float64 rounds far below it, and what is computed otherwise is above


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
        blame.pass_on_memory_error(error)
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
    """Give each place that holds a parameter, or a module, one of its own."""
    known: set[int] = set()
    for path, module in list(model.named_modules(remove_duplicate=False)):
        if id(module) in known:
            parent, _, name = path.rpartition(".")
            model.get_submodule(parent).register_module(name, copy.deepcopy(module))
        known.add(id(module))
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
    order: list[torch.Tensor] = []  # of the gradients, from the loss on
    handles = []
    for parameter in module.parameters():
        parameter.grad = None
        if parameter.requires_grad and parameter.is_leaf:
            handles.append(parameter.register_post_accumulate_grad_hook(order.append))  # type: ignore[no-untyped-call]
    try:
        loss = _with_gradients(module, (inputs, {}))
        loss.backward()
    finally:
        for handle in handles:
            handle.remove()
    places = {id(parameter): place for place, parameter in enumerate(order)}
    named = [(n, p) for n, p in module.named_parameters(remove_duplicate=False) if p.grad is not None]
    grads = {}
    for name, parameter in sorted(named, key=lambda pair: places.get(id(pair[1]), len(places))):
        short = name.removeprefix(PREFIX)
        grads[first.get(short, short)] = parameter.grad.detach().clone()  # type: ignore[union-attr]
    return {LOSS: loss.detach(), **grads}


def _with_gradients(function: Callable[..., Any], inputs: Inputs) -> Any:
    """Call a module, or what runs the nodes of one, with the same random numbers each time."""
    seed_everything()
    with torch.enable_grad():
        return function(*inputs[0], **inputs[1])


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
        blame.pass_on_memory_error(error)
        return _failed(ctx, "the program in training mode does not train", blame.words(error))
    parted = _parted(expected, found) or _differ(ctx, expected, found)
    if parted is not None:
        message = "the program in training mode has another loss or other gradients"
        return _failed(ctx, message, parted.words, *_where(ctx, program, parted.name))
    changed = buffers_differ(buffers, wrote, lambda a, b, _: compare(a, b, **ctx.tolerance))
    if changed is not None:
        message = "the program in training mode updates its buffers otherwise"
        return _failed(ctx, message, changed, *_where(ctx, program))
    return _joint(ctx, program, expected, first)


@contextlib.contextmanager
def _kept(program: ExportedProgram) -> Any:
    """Leave no gradients and no changes behind in the program."""
    with unchanged(program):
        yield
    for parameter in program.parameters():
        parameter.grad = None


class _ApartError(Exception):
    """Modules that are in several places cannot be taken apart."""


def _joint(ctx: Context, program: ExportedProgram, expected: dict[str, Any], first: dict[str, str]) -> CheckResult:
    why_not = joint.why_not()
    number = f"{len(expected) - 1} gradients"
    without = f"{number} of the program are the eager model's; its joint graph is not had"
    if why_not is not None:
        return _not_checked(f"{without}: {why_not}")
    try:
        program = _for_joint(ctx, program, expected, first)
        ctx.stage("joint graph")
        both = joint.joint(program)
        seed_everything()
        grads = joint.gradients(both, pytree.tree_leaves(ctx.example()))
    except Exception as error:
        blame.pass_on_memory_error(error)
        return _not_checked(f"{without}: {error if isinstance(error, _ApartError) else blame.words(error)}")
    found = {LOSS: expected[LOSS], **_summed(grads, first)}
    parted = _parted(expected, found) or _differ(ctx, expected, found)
    if parted is not None and parted.name in found and _only_rounding(ctx, both, first, list(expected)):
        ctx.judged[f"the joint graph is equal in float64 only: {parted.words}"] = None
        parted = None
    if parted is not None:
        message = "the joint graph of forward and backward pass has other gradients"
        return _failed(ctx, message, parted.words, *_of_gradient(ctx, program, parted.name))
    reason = f"{number}, of the program and of the joint graph"
    return CheckResult(name=NAME, outcome="passed", reason=reason, notes=tuple(ctx.judged))


def _for_joint(
    ctx: Context, program: ExportedProgram, expected: dict[str, Any], first: dict[str, str]
) -> ExportedProgram:
    """The program, or another one of which torch makes the joint graph.

    Raises:
        _ApartError: When that one computes something else, since modules share state that matters.
    """
    trained = frozenset(expected.keys() - {LOSS})
    if not trained < first.keys() or ctx.case.loss is None:
        return program
    other = _exported_for_joint(ctx, ctx.case.loss, trained)
    with _kept(other):
        found = _trained(other.module(), ctx.example(), {})
    alike = {LOSS: found.pop(LOSS), **_summed(found, first)}
    if _parted(expected, alike) or _differ(ctx, expected, alike):
        raise _ApartError("modules that are in several places share state that matters")
    return other


def _summed(grads: dict[str, Any], first: dict[str, str]) -> dict[str, Any]:
    """The gradients by first names; where parameters share a tensor, its gradient is the sum of theirs."""
    found: dict[str, Any] = {}
    for name, grad in grads.items():
        short = name.removeprefix(PREFIX)
        key = first.get(short, short)
        if grad is not None:
            found[key] = grad if key not in found else found[key] + grad
    return found


@dataclass(frozen=True, slots=True)
class _Parted:
    """What differs first.

    Attributes:
        name: The parameter whose gradient it is, or `LOSS`.
        words: How it differs.
    """

    name: str
    words: str


def _parted(expected: dict[str, Any], found: dict[str, Any]) -> _Parted | None:
    """A gradient that one side has and the other lacks; one that is zero everywhere counts as none."""
    for name, gradient in expected.items():
        if name not in found and gradient.any():
            return _Parted(name, f"no gradient of {name}, which has one in eager")
    for name in sorted(found.keys() - expected.keys()):
        if found[name].any():
            return _Parted(name, f"a gradient of {name}, which has none in eager")
    return None


def _differ(ctx: Context, expected: dict[str, Any], found: dict[str, Any]) -> _Parted | None:
    """The first difference of loss and gradients."""
    names = [name for name in expected if name in found]
    left, right = ({name: side[name] for name in names} for side in (expected, found))
    reference = _reference(ctx, names)
    difference: Difference | None = compare(left, right, reference=reference, **ctx.tolerance)
    if difference is None:
        ctx.judge(reference)
        return None
    return _Parted(names[difference.leaf], str(difference).replace("output", "", 1))


def _where(ctx: Context, program: ExportedProgram, name: str = LOSS) -> tuple[str, Place | None]:
    """Where the backward pass parts, if the loss is right, else where the forward pass does; and the line."""
    backward = _backward(ctx, program) if name != LOSS else None
    if backward is not None:
        return str(backward), backward.place
    assert ctx.case.loss is not None
    model, inputs = _WithLoss(ctx.build(), ctx.case.loss), cast("Inputs", (ctx.example(), {}))
    found = values_part(ctx, program, inputs, model=model, called=_with_gradients)
    if found is None:
        return _of_gradient(ctx, program, name)
    return f"in the forward pass {_in_the_model(found)}", found.place


def _in_the_model(found: Parting) -> Parting:
    """The same with the module's name in the model, without the loss around it."""
    return dataclasses.replace(found, module=found.module.removeprefix(PREFIX) if found.module != INSIDE else "")


def _backward(ctx: Context, program: ExportedProgram) -> BackwardParting | None:
    """At which node the backward pass parts, from the loss on."""
    assert ctx.case.loss is not None
    model, inputs = _WithLoss(ctx.build(), ctx.case.loss), cast("Inputs", (ctx.example(), {}))
    with _kept(program):
        found = backward_parting(
            model,
            lambda: _with_gradients(model, inputs),
            program,
            pytree.tree_leaves(ctx.example()),
            lambda run, flat: _with_gradients(run, (tuple(flat), {})),
        )
    return found and dataclasses.replace(found, at=_in_the_model(found.at))


def _of_gradient(ctx: Context, program: ExportedProgram, name: str) -> tuple[str, Place | None]:
    """The module that owns the parameter whose gradient parts, in words, and its first line in the program."""
    if name == LOSS:
        return "", None
    path = name.rpartition(".")[0]
    owner = ctx.build().get_submodule(path)
    where = f"{path} ({type(owner).__name__})" if path else f"{type(owner).__name__} itself"
    words = f"the backward pass parts first, from the loss on, at {name.rpartition('.')[2]} of {where}"
    return words, line_in_module(program, f"{PREFIX}{path}".rstrip("."))


def _reference(ctx: Context, names: list[str]) -> Reference:
    """The eager model's loss and gradients of these names in float64."""

    def prepare() -> Callable[[], Any]:
        assert ctx.case.loss is not None
        model, wide = in_double(_WithLoss(ctx.build(), ctx.case.loss)), widened(ctx.example())

        def chosen() -> dict[str, Any]:
            everything = _trained(model, wide, _first_names(model))
            return {name: everything[name] for name in names}

        return chosen

    return Reference(prepare)


def _only_rounding(ctx: Context, both: ExportedProgram, first: dict[str, str], names: list[str]) -> bool:
    """Whether the gradients of the joint graph are the eager model's where both are computed in float64."""

    def prepare() -> Callable[[], Any]:
        flat = widened(pytree.tree_leaves(ctx.example()))
        seed_everything()
        return lambda: _summed(joint.gradients(both, flat, widened), first)

    wanted, found = _reference(ctx, names).result(), Reference(prepare).result()
    if wanted is None or found is None:
        return False
    gradients = [(wanted[name], found.get(name)) for name in names if name != LOSS]
    if any(got is None or got.dtype != want.dtype for want, got in gradients):
        return False
    largest = max(float(want.abs().max()) for want, _ in gradients if want.numel())
    return all(bool(((want - got).abs() <= EXACT * largest).all()) for want, got in gradients)


def _failed(ctx: Context, message: str, evidence: str, where: str = "", place: Place | None = None) -> CheckResult:
    words = f"{evidence}; {where}" if where else evidence
    found = blame.finding("EXP004", message, place or ctx.head(), outcome="silent", evidence=words)
    return CheckResult(name=NAME, outcome="failed", reason=f"{message}: {evidence}", findings=(found,))
