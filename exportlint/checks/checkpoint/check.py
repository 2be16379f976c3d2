"""The check ``checkpoint`` as a whole; see the package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn
from torch.nn.parameter import is_lazy

from exportlint import blame
from exportlint.checks.checkpoint import afresh, given, resume, roundtrip
from exportlint.checks.checkpoint.roundtrip import Found, unwrapped
from exportlint.checks.context import Context, ModelError
from exportlint.checks.results import NOT_ASKED, of_model_error
from exportlint.findings import CheckResult

if TYPE_CHECKING:
    from exportlint.findings import Outcome

NAME = "checkpoint"


def run(ctx: Context) -> CheckResult:
    """Run the check."""
    whole = ctx.case.whole
    if not ctx.case.asks_for(NAME) and whole is not None:
        first = f"{whole.name}.{next(iter(whole.methods))}"
        return _not_checked(f"{NOT_ASKED}: the state dict is checked with {first}")
    if isinstance((whole or ctx.case).model, nn.Module):
        return _not_checked("the case has a module, of which each copy has its weights: a factory makes a fresh one")
    found = Found()
    try:
        why_not = _roundtrip(ctx, found)
        if why_not is None:
            given.check(ctx, found)
        if why_not is None and found.sound:
            resume.check(ctx, found)
    except ModelError as error:
        return of_model_error(NAME, f"the {error.stage} fails", error)
    if why_not is not None:
        return _not_checked(why_not)
    findings = roundtrip.sorted_by_weight(found.findings)
    outcome: Outcome = "failed" if any(f.counts for f in findings) else "passed"
    return CheckResult(
        name=NAME,
        outcome=outcome,
        reason=findings[0].message if outcome == "failed" else None,
        findings=findings,
        notes=(*found.notes, *ctx.judged),
    )


def _not_checked(reason: str) -> CheckResult:
    return CheckResult(name=NAME, outcome="not_checked", reason=reason)


def _roundtrip(ctx: Context, found: Found) -> str | None:
    """The first half; why nothing can be said, or ``None``."""
    made = ctx.build()
    if not ctx.makes_anew:
        return "the factory returns one model each time, and no fresh one"
    roundtrip.report_wrappers(ctx, made, found)
    saved, other = unwrapped(made), unwrapped(afresh.model(ctx))
    if any(map(is_lazy, [*saved.parameters(), *saved.buffers()])):  # nobody saves a model before it has weights
        ctx.call_eager(saved, ctx.example())
    if not saved.state_dict():
        return "the state dict is empty: the model has no parameters and no buffers"
    if not roundtrip.make_differ(saved, other):
        found.notes.append("the state dict holds no floating-point numbers, so that each model has the same")
    state = dict(saved.state_dict())
    found.notes += roundtrip.remarks(saved, state)
    loaded = roundtrip.saved_and_loaded(ctx, state, found)
    if loaded is None or not roundtrip.give(ctx, loaded, other, found):
        return None
    return _called(ctx, saved, loaded, other, found)


def _called(ctx: Context, saved: nn.Module, loaded: dict[str, Any], other: nn.Module, found: Found) -> str | None:
    """Call both models, and save the first once more; why nothing can be said, or ``None``."""
    before = roundtrip.shapes(saved.state_dict())
    try:
        why_not = roundtrip.results_part(ctx, saved, loaded, other, found)
    except ModelError:
        raise
    except Exception as error:
        blame.pass_on_memory_error(error)
        message = "a model that loaded the state dict does not run, as the one that was saved does"
        found.add("EXP707", message, blame.place_of(error) or ctx.head(), outcome="breaks", evidence=blame.words(error))
        return None
    if why_not is None:
        roundtrip.keys_grow(ctx, before, saved, found)
    if why_not is None and found.sound:
        roundtrip.through_safetensors(ctx, saved, found)
    return why_not
