"""The check ``capture``: can torch.export capture the model, and does the program give the example's own result?

1. Build the model and call it once: a model that does not run is reported as such.
2. Export in torch's default mode. A failure is blamed on the innermost line that is not torch's.
3. Where the dynamic shapes are refused, every guard that narrows a declared dimension is a finding at its line.
4. After a failure `explore` looks for what else would fail, and for the largest submodules that do export.
5. Run the program on the example; it must return what the eager model returns, write into the same arguments and
   buffers, and share memory alike. Operators that belong to training are findings in a model in evaluation mode.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from exportlint import blame
from exportlint.checks import explore, refusal, strange_tensors, wrong_result
from exportlint.checks.context import ModelError, NestingError, call, unchanged
from exportlint.checks.results import IN_VARIANTS, REWRITES, in_variant
from exportlint.findings import IN_TRAINING, CheckResult
from exportlint.parity import training_operators
from exportlint.parity.compare import compare
from exportlint.parity.observed import inputs_differ, observe, shares_differ, written_differ
from exportlint.parity.parting import line_of
from exportlint.shapes import narrowing
from exportlint.text import listed, said

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

    from exportlint.checks.context import Context
    from exportlint.findings import Finding, Result
    from exportlint.parity.compare import Difference
    from exportlint.parity.observed import Observed
    from exportlint.places import Place

NAME = "capture"
IN_PLACE = "Write into the buffer (copy_), which keeps its shape, or compute the value anew in each call."
FAILED_STAGES = {
    "build": "the factory fails",
    "inputs": "the example inputs cannot be made",
    "dynamic_shapes": "the dynamic_shapes do not fit the example inputs",
}
NESTED = "the model returns what no program can return"
RESERVED_NAMES = frozenset({"graph", "code", "meta", "training", "print_readable"})


def run(ctx: Context) -> CheckResult:
    """Run the check; after a failure the result so far is sent ahead, since exploring may crash."""
    try:
        ctx.expected()
        uncompared = strange_tensors.why_not_checked(NAME, ctx) or strange_tensors.why_not_judged(ctx)
    except ModelError as error:
        return model_failure(ctx, error)
    if uncompared is not None:
        return CheckResult(name=NAME, outcome="not_checked", reason=uncompared)
    try:
        program = ctx.program()
    except ModelError as error:
        return model_failure(ctx, error)
    except Exception as error:
        blame.pass_on_memory_error(error)
        misfit = refusal.misfit_of(ctx, error)
        if misfit is not None:
            return _failed((misfit,), refusal.what_fits(ctx))
        findings = _failure(ctx, error)
        ctx.provisional(_failed(findings))
        more, notes = explore.after_failure(ctx, findings)
        if _is_refusal(error):
            notes = (*refusal.what_exports(ctx, ctx.contract()[0]), *notes)
        return _failed((*findings, *more), notes)
    return _run_program(ctx, program)


def model_failure(ctx: Context, error: ModelError) -> CheckResult:
    """The result for a model that cannot be built or called."""
    cause = error.__cause__ or error
    if blame.is_out_of_memory(cause):
        raise MemoryError from error
    rule, message = blame.classify(cause)
    what = FAILED_STAGES.get(error.stage, f"the {error.stage} fails")
    rewrite, stage = None, error.stage
    if rule != "EXP201":  # a device that this machine lacks explains itself; the other symptoms are those of a capture
        if _lacks_inputs(ctx, error.stage, cause):
            what, stage = "the case gives no inputs, and the model takes some", "no inputs"
        if isinstance(cause, NestingError) and error.stage == "eager call":
            what, stage = NESTED, "result"
        variant = ctx.only_in_variant(lambda plain: plain.expected())
        what += in_variant(variant)
        rule, message, rewrite = "EXP002", what, IN_VARIANTS.get(variant) or REWRITES.get(stage)
    place, words = blame.place_of(cause) or _head(ctx, error.stage), blame.words(cause)
    finding = blame.finding(rule, message, place, outcome="breaks", rewrite=rewrite, evidence=words)
    return CheckResult(name=NAME, outcome="errored", reason=f"{what}: {words}", findings=(finding,), runs=False)


def _head(ctx: Context, stage: str) -> Place | None:
    """The head of what is at fault where no line of it raised anything."""
    if stage == "eager call":  # it is forward that does not take the call
        with contextlib.suppress(ModelError):  # a second build may fail
            return ctx.head()
    case = ctx.case
    makers = {"build": (case.model,), "inputs": (case.args, case.kwargs), "inputs2": (case.inputs2,)}
    heads = (blame.definition_of(maker) for maker in makers.get(stage, ()) if callable(maker))
    return next((head for head in heads if head is not None), None)


def _lacks_inputs(ctx: Context, stage: str, error: BaseException) -> bool:
    """Whether the model was called without any argument, and Python says that it takes some."""
    missing = stage == "eager call" and isinstance(error, TypeError) and " missing " in said(error)
    return missing and not any(ctx.example())


def _failed(findings: tuple[Finding, ...], notes: tuple[str, ...] = ()) -> CheckResult:
    return CheckResult(name=NAME, outcome="failed", reason=findings[0].message, findings=findings, notes=notes)


def _failure(ctx: Context, error: Exception) -> tuple[Finding, ...]:
    """The findings for an export that raised."""
    if _is_refusal(error):
        asked, head = ctx.contract()[0], ctx.head()
        narrowed = narrowing.of_refusal(ctx.guards, error, "breaks", contract=asked, head=head)
        if narrowed:
            return narrowed
    return (blame.of_failure(error, ctx.head()),)


def _is_refusal(error: Exception) -> bool:
    """Whether the export refused the dynamic shapes that were asked for."""
    text = f"{type(error).__name__}: {said(error)}"
    return "onstraint" in text or "user-specified" in text


def _run_program(ctx: Context, program: ExportedProgram) -> CheckResult:
    ctx.stage("run of the program")
    try:
        module = ctx.module()
    except Exception as error:  # a reserved name is the known cause
        return _failed((_not_a_module(ctx, error),))
    try:
        with unchanged(program):
            actual = observe(module, ctx.example(), call)
    except Exception as error:
        blame.pass_on_memory_error(error)
        place, words = blame.place_of(error), blame.words(error)
        message = "the program cannot run the example that it was captured from"
        rebound = _rebound(ctx, "breaks", f"{message}: {words}")
        return _failed((rebound or blame.finding("EXP004", message, place, outcome="breaks", evidence=words),))
    difference = ctx.compare(ctx.expected(), actual.result, ctx.example())
    if difference is not None:
        return _differs(ctx, program, difference)
    if any(tensor.is_meta for tensor in _tensors(actual.result)):
        reason = "the model is captured; its results hold no numbers that could be compared"
        return CheckResult(name=NAME, outcome="not_checked", reason=reason)
    model = ctx.build()
    expected = observe(model, ctx.example(), ctx.call_eager)
    found = (*_effects(ctx, expected, actual), *_trains(ctx, program, model))
    if any(finding.counts for finding in found):
        return _failed(found, tuple(ctx.judged))
    return CheckResult(name=NAME, outcome="passed", findings=found, notes=(*_training(model), *ctx.judged))


def _effects(ctx: Context, expected: Observed, actual: Observed) -> tuple[Finding, ...]:
    """Findings for what the calls do beside returning values: writes into arguments and buffers, shared memory."""
    reference = ctx.reference(ctx.example())

    def close(a: Any, b: Any, name: str) -> Difference | None:
        return compare(a, b, reference=reference.of_left(name), **ctx.tolerance)

    inputs = inputs_differ(expected, actual, close)
    if inputs is not None:
        message = "the eager model changes its inputs, and the program does not change them alike"
        return (_written(ctx, message, inputs),)
    buffers = written_differ(expected, actual, close)
    if buffers is not None:
        message = "the eager model changes its buffers, and the program does not change them alike"
        return (_rebound(ctx, "silent", buffers) or _written(ctx, message, buffers),)
    ctx.judge(reference)
    shares = shares_differ(expected, actual)
    if shares is not None:
        message = "who writes into a result changes other things in the program than in eager"
        place = wrong_result.unexplained(ctx)
        return (blame.finding("EXP004", message, place, outcome="unportable", evidence=shares),)
    return ()


def _rebound(ctx: Context, outcome: Result, evidence: str) -> Finding | None:
    """The finding for the line at which the eager model puts another tensor in the place of a buffer, if it does."""
    model = ctx.build()
    before = dict(model.named_buffers())
    ctx.call_eager(model, ctx.example())
    for name, buffer in model.named_buffers():
        owner, _, attribute = name.rpartition(".")
        place = None if before.get(name) is buffer else blame.rebinding_of(type(model.get_submodule(owner)), attribute)
        if place is not None:
            message = f"another tensor takes the place of the buffer {name}, which the program keeps"
            return blame.finding("EXP004", message, place, outcome=outcome, evidence=evidence, rewrite=IN_PLACE)
    return None


def _written(ctx: Context, message: str, words: str) -> Finding:
    """The finding for what is written otherwise, with where values part."""
    evidence, place = wrong_result.told(words, wrong_result.values_part(ctx, ctx.program(), ctx.example()), None)
    place = place or wrong_result.unexplained(ctx)
    return blame.finding("EXP004", message, place, outcome="silent", evidence=evidence)


def _trains(ctx: Context, program: ExportedProgram, model: torch.nn.Module) -> tuple[Finding, ...]:
    """Findings for operators that belong to training, in modules that are in evaluation mode."""
    found: dict[Any, Finding] = {}
    for node, words in training_operators.left_in(program, model):
        place = line_of(node) or ctx.head()
        message = f"{words}, in a module that is in evaluation mode"
        found.setdefault(place, blame.finding("EXP005", message, place, outcome="unportable"))
    return tuple(found.values())


def _training(model: torch.nn.Module) -> tuple[str, ...]:
    """A note on modules that compute something else in training mode, which the program keeps."""
    names = listed(sorted({type(m).__name__ for m in model.modules() if m.training and _trains_otherwise(m)}), 5)
    return (f"{IN_TRAINING}, which matters to {names}: call eval() first",) if names else ()


def _trains_otherwise(module: torch.nn.Module) -> bool:
    """Whether a module computes something else in training mode, as far as its class and what it asks for tell."""
    from torch import nn
    from torch.nn.modules import batchnorm, dropout

    if isinstance(module, dropout._DropoutNd):
        return module.p > 0
    if isinstance(module, (batchnorm._NormBase, nn.RReLU)):
        return True
    if type(module).__module__.startswith("torch.nn."):
        rate = getattr(module, "dropout", None)  # a module inside is asked itself
        return isinstance(rate, float) and rate > 0
    code = getattr(type(module).forward, "__code__", None)
    return code is not None and "training" in code.co_names


def _tensors(results: Any) -> list[torch.Tensor]:
    import torch
    from torch.utils import _pytree as pytree

    return [leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)]


def _differs(ctx: Context, program: ExportedProgram, difference: Difference) -> CheckResult:
    """The program returns something else: it is wrong, or the eager model itself never returns the same."""
    from exportlint.checks.state import check as state

    again = ctx.call_eager(ctx.build(), ctx.example())
    if compare(ctx.expected(), again, rtol=0.0, atol=0.0) is not None:
        found = state.run(ctx)
        explained = tuple(finding for finding in found.findings if finding.severity != "info")
        if explained:
            return _failed(explained, found.notes)
    if ctx.compare(ctx.expected(), again) is not None:
        reason = "the model is captured, but it differs from itself with the same seeds: its result cannot be judged"
        return CheckResult(name=NAME, outcome="not_checked", reason=reason)
    message = "the program returns something else than the eager model for the example that it was captured from"
    place, words = wrong_result.place_of(ctx, program)
    evidence = f"{difference}; {words}" if words else str(difference)
    return _failed((blame.finding("EXP004", message, place or ctx.head(), outcome="silent", evidence=evidence),))


def _not_a_module(ctx: Context, error: Exception) -> Finding:
    """`ExportedProgram.module` raised: look for an attribute whose name torch.fx keeps for itself."""
    model = ctx.build()
    state = {name.partition(".")[0] for name in model.state_dict(keep_vars=True)} | dict(model.named_children()).keys()
    taken = sorted(RESERVED_NAMES & state)
    if taken:
        place = blame.assignment_of(type(model), taken[0]) or ctx.head()
        message = f"the attribute {taken[0]!r} has a name that torch.fx keeps for itself"
        return blame.finding("EXP602", message, place, outcome="breaks", evidence=blame.words(error))
    message = "the captured program cannot be turned into a module"
    return blame.finding("EXP003", message, ctx.head(), outcome="breaks", evidence=blame.words(error))
