"""The check ``torchscript``: can the model be traced, or scripted, and does either compute what eager does?

TorchScript is no way to go for a new model. The check tells those who still deploy by it which of its two ways holds.

1. A trace records one call. It is given tensors alone and returns tensors alone; what else the call has is constant.
   What Python decided in the example is frozen, so a second call of the case must give what eager gives, and so must
   the example when it is called again.
2. A script is compiled from the source of the model, with all that this calls.

One of the two is enough: what only the other refuses is advice.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from exportlint import blame, places
from exportlint.checks import divergence, uncaptured
from exportlint.checks.context import call, fresh
from exportlint.checks.state import remembered
from exportlint.findings import CheckResult
from exportlint.parity.compare import compare
from exportlint.text import said

if TYPE_CHECKING:
    from collections.abc import Callable

    from exportlint.checks.case import Inputs
    from exportlint.checks.context import Context
    from exportlint.findings import Finding
    from exportlint.places import Place

NAME = "torchscript"
REFUSED, WRONG = "EXP902", "EXP903"
NUMBER = "result {} is a number in eager, and a tensor in the trace"
HERE = re.compile(r'File "([^"]+)", line (\d+)')


class OtherCallError(Exception):
    """A trace cannot take a call, since that differs in more than its tensors."""


class Flat(nn.Module):
    """The model with tensors in and tensors out, as a trace has it.

    Args:
        model: The model.
        inputs: A call of it, of which everything but the tensors is kept.
    """

    def __init__(self, model: nn.Module, inputs: Inputs) -> None:
        super().__init__()
        self.model, self.training = model, model.training
        leaves, self._structure = pytree.tree_flatten(inputs)
        self._constants = [None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves]
        self.returned: tuple[int, ...] = ()  # places of the tensors among the leaves of the last result

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The tensors among what the model returns."""
        given = iter(tensors)
        leaves = [next(given) if constant is None else constant[0] for constant in self._constants]
        args, kwargs = pytree.tree_unflatten(leaves, self._structure)
        found = pytree.tree_leaves(self.model(*args, **kwargs))
        self.returned = tuple(i for i, leaf in enumerate(found) if isinstance(leaf, torch.Tensor))
        return tuple(found[i] for i in self.returned)

    def tensors(self, inputs: Inputs) -> tuple[torch.Tensor, ...]:
        """The tensors of a call.

        Raises:
            OtherCallError: When it differs from the first in more than these.
        """
        leaves, structure = pytree.tree_flatten(inputs)
        constants = [None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves]
        if structure != self._structure or constants != self._constants:
            raise OtherCallError
        return tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))


@dataclass(frozen=True, slots=True)
class Captured:
    """What TorchScript made of a model.

    Attributes:
        run: Calls it; returns the tensors among its results.
        decided: Lines of which the trace says that they may freeze something.
        returned: Places of what it returns among the leaves of the eager result; of all tensors there where ``None``.
    """

    run: Callable[[Inputs], list[torch.Tensor]]
    decided: tuple[Place, ...] = ()
    returned: tuple[int, ...] | None = None

    def of_eager(self, result: Any) -> list[torch.Tensor]:
        """What it should return for what eager does. A size is a number there, and a tensor in a trace."""
        leaves = pytree.tree_leaves(result)
        if self.returned is None or any(i >= len(leaves) for i in self.returned):
            return tensors_of(result)
        tensors = (i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor))
        found = [leaves[i] for i in sorted({*self.returned, *tensors})]
        return [torch.tensor(leaf) if isinstance(leaf, (bool, int, float)) else leaf for leaf in found]

    def numbers(self, result: Any) -> list[int]:
        """Places of numbers of the eager result that it returns as tensors."""
        leaves = pytree.tree_leaves(result)
        places = (i for i in self.returned or () if i < len(leaves))
        return [i for i in places if isinstance(leaves[i], (bool, int, float))]


def tensors_of(result: Any) -> list[torch.Tensor]:
    """The tensors among nested results."""
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def traced(model: nn.Module, inputs: Inputs) -> Captured:
    """The model by ``torch.jit.trace``.

    Raises:
        Exception: What torch raises.
    """
    flat = Flat(model, inputs)
    with warnings.catch_warnings(record=True) as told, torch.no_grad():
        warnings.simplefilter("always")
        made = torch.jit.trace(flat, flat.tensors(inputs), check_trace=False)  # type: ignore[no-untyped-call]
    kind: type[Warning] = torch.jit.TracerWarning  # type: ignore[attr-defined]
    lines = (places.of_frames([(w.filename, w.lineno)]) for w in told if issubclass(w.category, kind))
    decided = tuple(dict.fromkeys(line for line in lines if line is not None))
    return Captured(lambda given: tensors_of(call(made, (flat.tensors(given), {}))), decided, flat.returned)


def scripted(model: nn.Module, _: Inputs) -> Captured:
    """The model by ``torch.jit.script``.

    Raises:
        Exception: What torch raises.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that TorchScript is deprecated
        made = torch.jit.script(model)
    return Captured(lambda given: tensors_of(call(made, given)))


ROUTES: dict[str, Callable[[nn.Module, Inputs], Captured]] = {"trace": traced, "script": scripted}


@dataclass(frozen=True, slots=True)
class Route:
    """One of the two ways: `finding` is what is wrong with it, `wrong` whether it was captured nevertheless."""

    name: str
    finding: Finding | None = None
    wrong: bool = False
    notes: tuple[str, ...] = ()


def run(ctx: Context) -> CheckResult:
    """Run the check."""
    try:
        expected, second = ctx.expected(), ctx.second_example()
        if second is not None:
            ctx.call_second(second)
    except Exception as error:
        return uncaptured.result(NAME, error)
    if not tensors_of(expected):
        return CheckResult(name=NAME, outcome="not_checked", reason="the model returns no tensor, as TorchScript must")
    routes = [_route(ctx, name, expected, second) for name in ROUTES]
    right = [route.name for route in routes if route.finding is None]
    notes = tuple(note for route in routes for note in route.notes)
    # A refusal is loud, and the other way is there.
    found = tuple(r.finding if r.wrong or not right else _advice(r.finding) for r in routes if r.finding is not None)
    counting = [finding for finding in found if finding.counts]
    if counting:
        return CheckResult(name=NAME, outcome="failed", reason=counting[0].message, findings=found, notes=notes)
    words = " and ".join(f"by {name}" for name in right)
    unsure = "" if second is not None else ", for the example alone: there is no second call"
    return CheckResult(
        name=NAME, outcome="passed", reason=f"{words}{unsure}", findings=found, notes=(*notes, *ctx.judged)
    )


def _advice(found: Finding) -> Finding:
    return replace(found, severity="info", outcomes={})


def _route(ctx: Context, name: str, expected: Any, second: Inputs | None) -> Route:
    ctx.stage(f"torch.jit.{name}")
    try:
        captured = ROUTES[name](ctx.build(), ctx.example())
    except Exception as error:
        blame.pass_on_memory_error(error)
        return Route(name, _refusal(ctx, name, error))
    ctx.stage(f"call of torch.jit.{name}")
    found = _differs(ctx, captured, [ctx.example()], expected)
    if found is not None:
        message = f"torch.jit.{name} computes something else than the eager model for the example"
        return Route(name, _wrong(ctx, message, found, captured.decided[:1]), wrong=True)
    route = _again(ctx, name, captured) or (Route(name) if second is None else _second(ctx, name, captured, second))
    return replace(route, notes=(*(f"{name}: {NUMBER.format(i)}" for i in captured.numbers(expected)), *route.notes))


def _again(ctx: Context, name: str, captured: Captured) -> Route | None:
    """The example once more, for which a model may return something else; ``None`` where it is right."""
    model = ctx.build()
    try:
        for _ in range(2):
            expected = call(model, ctx.example())
    except Exception as error:  # the model may be called once
        blame.pass_on_memory_error(error)
        return None
    found = _differs(ctx, captured, [ctx.example(), ctx.example()], expected)
    if found is None:
        return None
    message = f"torch.jit.{name} is wrong for the same call again, since it keeps what the model remembered here"
    place = remembered.line(ctx)
    return Route(name, _wrong(ctx, message, found, () if place is None else (place,)), wrong=True)


def _second(ctx: Context, name: str, captured: Captured, second: Inputs) -> Route:
    """The second call, of which eager is known to take it."""
    expected = call(ctx.build(), fresh(second))
    try:
        found = _differs(ctx, ROUTES[name](ctx.build(), ctx.example()), [second], expected)
    except OtherCallError:
        return Route(name, notes=(f"{name}: the second call differs in more than its tensors, which a trace holds",))
    if found is None:
        return Route(name)
    what = "cannot take the second call" if found.startswith("it raises ") else "is wrong for the second call"
    message = f"torch.jit.{name} {what}, since it keeps what the example decided here"
    return Route(name, _wrong(ctx, message, found, _frozen(ctx, captured, second)), wrong=True)


def _differs(ctx: Context, captured: Captured, calls: list[Inputs], expected: Any) -> str | None:
    """How the last of these calls, of which the others were made, differs from the eager model's, in words.

    Raises:
        OtherCallError: When it cannot be made.
    """
    try:
        actual = captured.run(fresh(calls[-1]))
    except OtherCallError:
        raise
    except Exception as error:
        blame.pass_on_memory_error(error)
        return f"it raises {_last_line(error)}"
    reference = ctx.reference(*calls, call_of=lambda model, _: lambda *a, **k: captured.of_eager(model(*a, **k)))
    found = compare(captured.of_eager(expected), actual, reference=reference, **ctx.tolerance)
    if found is None:
        ctx.judge(reference)
        return None
    return str(found).replace("in the program", "in TorchScript")


def _frozen(ctx: Context, captured: Captured, second: Inputs) -> tuple[Place, ...]:
    """The line where the two calls part in eager; else the first of which the trace itself warned."""
    one, other = ctx.build(), ctx.build()
    parts = divergence.place(lambda: call(one, ctx.example()), lambda: call(other, fresh(second)))
    return ((parts,) if parts is not None else ()) + captured.decided


def _wrong(ctx: Context, message: str, words: str, lines: tuple[Place, ...]) -> Finding:
    place = next(iter(lines), None) or ctx.head()
    return blame.finding(WRONG, message, place, outcome="unportable", evidence=words)


def _refusal(ctx: Context, name: str, error: Exception) -> Finding:
    """The finding for what torch raised: a script names the lines in its words, a trace by its traceback."""
    lines = [(file, int(line)) for file, line in HERE.findall(said(error))]
    place = places.of_frames(lines) or blame.place_of(error) or ctx.head()
    message = f"torch.jit.{name} cannot capture this"
    return blame.finding(REFUSED, message, place, outcome="unportable", evidence=blame.words(error))


def _last_line(error: Exception) -> str:
    """What an exception of TorchScript's runtime says, which it does at the end."""
    lines = [line.strip() for line in said(error).splitlines() if line.strip()]
    words = next((line for line in reversed(lines) if re.match(r"\w*(Error|Exception)\b", line)), "")
    return words[:300] or blame.words(error)
