"""The check ``opset`` as a whole; see the package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from exportlint import blame, places
from exportlint.checks import uncaptured
from exportlint.checks.context import ModelError, call, result_of, seed_everything, unchanged
from exportlint.checks.opset import customs, facts, lowering, profiles
from exportlint.checks.results import of_model_error
from exportlint.checks.wrong_result import told, values_part
from exportlint.findings import CheckResult
from exportlint.parity.compare import compare
from exportlint.text import counted

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from exportlint.checks.case import Inputs
    from exportlint.checks.context import Context
    from exportlint.checks.opset.facts import Fact
    from exportlint.checks.opset.lowering import Lowered
    from exportlint.findings import Finding, Outcome, Result
    from exportlint.parity.compare import Bounds, Difference

NAME = "opset"
OTHER_KERNELS: Bounds = {"rtol": 1e-3, "atol": 1e-4}  # what another runtime's kernels may round
REFUSED = "a guard refuses this call of the case; runtimes have no guards, and their answer is wrong"


def run(ctx: Context) -> CheckResult:
    """Run the check."""
    try:
        program = ctx.program()
    except Exception as error:
        return uncaptured.result(NAME, error)
    ctx.stage("decompositions")
    try:
        core = program.run_decompositions()
    except Exception as error:
        return _not_decomposed(ctx, error)
    try:
        findings, notes = _parity(ctx, program, core), [*facts.remarks(core)]
        operators = list(facts.nodes(core))
        notes.insert(0, f"{counted(len(operators), 'call')} of operators after run_decompositions")
        known = facts.facts(core)
        lowered = _lowered(ctx, core, known, findings, notes)
        findings += [_finding(ctx, fact, lowered) for fact in known]
        findings += _custom(ctx, core, notes)
    except ModelError as error:
        return of_model_error(NAME, f"the {error.stage} fails", error)
    order = {"error": 0, "warning": 1, "info": 2}
    findings.sort(key=lambda found: order[found.severity])
    outcome: Outcome = "failed" if any(found.counts for found in findings) else "passed"
    reason = findings[0].message if outcome == "failed" else None
    return CheckResult(name=NAME, outcome=outcome, reason=reason, findings=tuple(findings), notes=(*notes, *ctx.judged))


def _not_decomposed(ctx: Context, error: Exception) -> CheckResult:
    blame.pass_on_memory_error(error)
    message, place = "run_decompositions, with which every lowering begins, fails", blame.place_of(error) or ctx.head()
    found = blame.finding("EXP709", message, place, outcome="breaks", evidence=blame.words(error))
    return CheckResult(name=NAME, outcome="failed", reason=f"{message}: {blame.words(error)}", findings=(found,))


def _parity(ctx: Context, program: ExportedProgram, core: ExportedProgram) -> list[Finding]:
    """Compare the decomposed program with eager in all calls of the case."""
    ctx.stage("run of the decomposed program")
    difference = _differs(ctx, core, ctx.example())
    if difference is not None:
        message = "the program computes something else after run_decompositions"
        evidence, place = told(str(difference), values_part(ctx, core, ctx.example()), ctx.head())
        return [blame.finding("EXP004", message, place, outcome="silent", evidence=evidence)]
    for inputs in ctx.further_examples():
        difference = _differs(ctx, core, inputs)
        if difference is not None:
            refused = _refusal(program, inputs)
            message = REFUSED if refused else "the program computes something else in another call of the case"
            evidence = f"{difference}; before: {refused}" if refused else str(difference)
            return [blame.finding("EXP004", message, ctx.head(), outcome="silent", evidence=evidence)]
    return []


def _differs(ctx: Context, core: ExportedProgram, inputs: Inputs) -> Difference | None:
    """The first difference from eager in a call; ``None`` where there is none, or the program refuses the call too."""
    from exportlint.checks.context import fresh

    expected = ctx.call_eager(ctx.build(), fresh(inputs))
    try:
        actual = result_of(core, fresh(inputs), core.module(check_guards=False))  # as runtimes run it
    except Exception:
        return None
    found = ctx.compare(expected, actual, inputs)
    if found is None:
        return None
    # Decompositions compute in another order, so that rounding adds up otherwise.
    return compare(expected, actual, canonical=ctx.case.canonical, **_scaled(expected)) and found


def _scaled(expected: Any) -> Bounds:
    """A tolerance that rounding keeps, and a wrong operator does not."""
    tensors = [t for t in pytree.tree_leaves(expected) if isinstance(t, torch.Tensor) and t.is_floating_point()]
    largest = max((float(t.detach().abs().nan_to_num(0, 0, 0).max()) for t in tensors if t.numel()), default=0.0)
    coarse = any(t.dtype in (torch.float16, torch.bfloat16) for t in tensors)
    return {"rtol": 2e-2, "atol": 2e-2 * largest} if coarse else {"rtol": 1e-4, "atol": 1e-5 * largest}


def _refusal(program: ExportedProgram, inputs: Inputs) -> str | None:
    """What the program as it was exported says of a call that it refuses."""
    from exportlint.checks.context import fresh

    try:
        with unchanged(program):
            call(program.module(), fresh(inputs))
    except Exception as error:
        return blame.words(error)
    return None


def _lowered(
    ctx: Context, core: ExportedProgram, known: list[Fact], findings: list[Finding], notes: list[str]
) -> dict[str, Lowered]:
    """Lower the program for each runtime that is asked for and there; a failure that no fact explains is a finding."""
    found = {}
    for name in ctx.settings.profiles:
        ctx.stage(f"lowering for {name}")
        lowered = lowering.lower(name, core, pytree.tree_leaves(ctx.example()))
        if lowered is None:
            continue
        found[name] = lowered
        if lowered.why_not is not None:
            notes.append(f"not checked: the lowering for {name}: {lowered.why_not}")
        elif lowered.error is None:
            notes.append(f"lowered for {name} and run, with {lowered.words}")
            findings += _other_result(ctx, lowered, notes)
        elif not any(_explains(fact, lowered) for fact in known):
            message = f"the program cannot be {'converted for' if lowered.stage == 'convert' else 'run in'} {name}"
            evidence = f"{lowered.error} ({lowered.words})"
            findings.append(blame.finding("EXP709", message, ctx.head(), outcome="breaks", evidence=evidence))
    return found


def _explains(fact: Fact, lowered: Lowered) -> bool:
    """Whether a fact is why a runtime refused the program: its error names the operator, or no operator at all."""
    limit = profiles.limit(fact.kind, (lowered.name,))
    if lowered.error is None or limit is None or limit[0].outcome != "breaks":
        return False
    if fact.kind in ("custom", "operator"):
        name = fact.message.split("`")[1].rpartition(".")[0]
        return name in lowered.error or name.replace(".", "::") in lowered.error
    return fact.kind in ("number", "text") and "OpOverload" not in lowered.error


def _draws(ctx: Context) -> bool:
    """Whether the eager model draws random numbers in the example call."""
    call(ctx.build(), ctx.example())
    after = torch.get_rng_state()
    seed_everything()
    return not torch.equal(after, torch.get_rng_state())


def _other_result(ctx: Context, lowered: Lowered, notes: list[str]) -> list[Finding]:
    """What a runtime returns otherwise than eager: some leave out ``None``, and put changed arguments in front."""
    wanted, actual = pytree.tree_leaves(ctx.expected()), list(lowered.result)
    some = [leaf for leaf in wanted if leaf is not None]
    wanted, actual = (some, actual) if len(actual) == len(some) else (wanted, actual[-len(wanted) :])
    pairs = [(a, b) for a, b in zip(wanted, actual, strict=False) if isinstance(a, torch.Tensor)]
    tolerance = ctx.tolerance or OTHER_KERNELS
    difference = compare([a for a, _ in pairs], [b for _, b in pairs], **tolerance)
    if difference is None and len(wanted) == len(actual):
        return []
    if difference is not None and _draws(ctx):  # which runtimes draw otherwise; onnx leaves dropout out
        notes.append(f"not checked: the values that {lowered.name} returns, since the model draws random numbers")
        return []
    message = f"the program returns something else in {lowered.name}"
    evidence = str(difference or f"{len(wanted)} results in eager, {len(actual)} in the program")
    return [blame.finding("EXP004", message, ctx.head(), outcome="silent", evidence=evidence)]


def _finding(ctx: Context, fact: Fact, lowered: dict[str, Lowered]) -> Finding:
    """The finding for a fact: it counts where a runtime that is asked for minds it, and did not take it after all."""
    asked = tuple(name for name in ctx.settings.profiles if name not in lowered or not lowered[name].ran)
    silent = tuple(name for name in ctx.settings.profiles if name not in asked)
    found = profiles.limit(fact.kind, asked) or _quiet(fact, silent)
    outcome: Result = "fine" if found is None else found[0].outcome
    if fact.kind == "unbacked" and "no bound" not in fact.about:
        found, outcome = None, "fine"
    message = fact.message if found is None else f"{fact.message}; in {found[1]}, {found[0].words}"
    others = [f"{places.display_path(place.file)}:{place.line}" for place in fact.places[1 : facts.MOST_LINES]]
    also = f"also at {', '.join(others)}" if others else ""
    refused = [f"{name} refuses it: {low.error} ({low.words})" for name, low in lowered.items() if _explains(fact, low)]
    evidence = "; ".join(words for words in (fact.about, also, *refused) if words) or None
    return blame.finding(
        "EXP709", message, fact.places[0] if fact.places else ctx.head(), outcome=outcome, evidence=evidence
    )


def _quiet(fact: Fact, ran: tuple[str, ...]) -> tuple[profiles.Limit, str] | None:
    """What a runtime that ran the example does all the same: what is silently lost, or bites for other sizes."""
    found = profiles.limit(fact.kind, ran)
    return found if found is not None and found[0].outcome != "breaks" else None


def _custom(ctx: Context, core: ExportedProgram, notes: list[str]) -> list[Finding]:
    """Have torch look at operators of the user's own."""
    if not any(facts.kind_of(node) == "custom" for node in facts.nodes(core)):
        return []
    ctx.stage("opcheck")
    with unchanged(core):
        calls = customs.observed(core, pytree.tree_leaves(ctx.example()))
    if not calls:
        notes.append("operators of your own are called inside of control flow only, where opcheck sees no inputs")
        return []
    found = list(customs.failures(calls))
    names = dict.fromkeys(str(each.node.target) for each in calls)
    if not found:
        notes.append(f"torch.library.opcheck finds nothing wrong with {', '.join(names)}")
    return [
        blame.finding(
            "EXP804",
            f"`{failure.operator}` fails {failure.test} of torch.library.opcheck with the inputs that it gets here",
            failure.place or ctx.head(),
            outcome="unportable",
            evidence=failure.words,
        )
        for failure in found
    ]
