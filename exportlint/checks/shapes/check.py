"""The check ``shapes``: is the program the model for every shape and value that it should accept?

The contract is what the case declares, or what varies between its example calls. Each dimension that was asked to be
dynamic is compared with what the program grants: one that became a constant is a finding. Then calls inside the
contract are tried: where the eager model accepts a call, the program must accept it too and return the same. Calls
that the eager model refuses are no examples. Outside of the contract the program must refuse what it cannot do. A
failure shrinks to the smallest shape and plainest contents, and is blamed on the guard that it violates, else on the
line where the eager calls part, else on the node that fails.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from exportlint import blame, places
from exportlint.checks import uncaptured
from exportlint.checks.context import ModelError, NotCapturedError
from exportlint.checks.refusal import what_exports
from exportlint.checks.results import of_model_error
from exportlint.checks.shapes import journal, replay
from exportlint.checks.shapes.journal import Journal
from exportlint.checks.shapes.search import Search, space_of
from exportlint.checks.shapes.trials import Subject
from exportlint.findings import CheckResult, Dimension, Finding, Outcome
from exportlint.shapes import advice, conditions, edges, narrowing, specification, terms
from exportlint.shapes import contract as contracts
from exportlint.shapes.contract import same_structure
from exportlint.shapes.kinds import kind_of
from exportlint.text import counted, listed
from exportlint.torch_hooks import guards as guard_hooks
from exportlint.torch_hooks.guards import GuardLog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch.export import ExportedProgram

    from exportlint.checks.case import Inputs
    from exportlint.checks.context import Context
    from exportlint.shapes.contract import Contract
    from exportlint.shapes.edges import Shapes
    from exportlint.shapes.terms import Term
    from exportlint.torch_hooks.guards import Guard

NAME = "shapes"
UNDEFINED = "the eager model returns NaN where the program returns numbers"
UNNAMED = (
    "not every torch takes dynamic_shapes for arguments that ** of forward takes, here {}; "
    "to check other sizes, wrap the model in a module whose forward has a parameter for each"
)
MOST_UNNAMED = 3  # arguments that are named
FAULTS_OF_THE_CASE = {
    "inputs2": "the arguments of a further call cannot be made",
    "second call": "the eager model fails in a further call of the case",
    "value_ranges": "the case gives a range of values for an input that there is not",
}


def run(ctx: Context) -> CheckResult:
    """Run the check."""
    log = GuardLog()
    contract, inferred = None, False
    try:
        ctx.further_examples()
        contract, inferred = ctx.contract()
        for inputs in ctx.further_examples():
            ctx.call_second(inputs)
        unnamed = specification.unnamed(ctx.build(), ctx.example()) if inferred and contract.dynamic else []
        if unnamed:  # nobody asked for dynamic shapes of such arguments
            return _not_checked(UNNAMED.format(listed(unnamed, MOST_UNNAMED)))
        subject = subject_of(ctx, contract, log, inferred=inferred and contract.dynamic)
    except (ModelError, NotCapturedError) as error:
        if isinstance(error, ModelError) and error.stage in FAULTS_OF_THE_CASE:
            return of_model_error(NAME, FAULTS_OF_THE_CASE[error.stage], error)
        return uncaptured.result(NAME, error)
    except Exception as error:
        blame.pass_on_memory_error(error)
        return refused(ctx, error, log.guards, contract if inferred else None)
    if ctx.settings.died:
        return _replayed(subject)
    return _searched(subject)


def _searched(subject: Subject) -> CheckResult:
    """The result of looking for calls in which the program is not the model."""
    ctx = subject.ctx
    asked = terms.terms(subject.contract, subject.granted, subject.guards)
    pinned = _pinned(subject, asked)
    search = Search(subject, ctx.settings.examples)
    ctx.stage("drawn examples")
    search.run()
    subject.journal.forget()
    faults = [(subject.finding(fault), fault.about) for fault in subject.faults.values()]
    return _result(subject, asked, [*pinned, *faults], search)


def subject_of(ctx: Context, contract: Contract, log: GuardLog, *, inferred: bool) -> Subject:
    """The program and its model; with the inferred dimensions dynamic where nothing is declared."""
    if inferred:
        with log:
            program, example = _export(ctx, contract)
        guards = log.guards
    else:
        program, example, guards = ctx.program(), ctx.example(), ctx.guards
    kept = Journal(ctx.path(journal.NAME) if ctx.settings.workdir and not ctx.settings.died else None)
    return Subject(ctx, contract, contracts.granted(program), program, guards, example, journal=kept)


def _replayed(subject: Subject) -> CheckResult:
    """The result after an earlier process died in a call: of that call, and of all that is unlike it."""
    torch.set_num_threads(1)  # before anything is computed, so that children may be forked
    entry = journal.read(subject.ctx.settings.workdir)
    if entry is None:
        return CheckResult(name=NAME, outcome="crashed", reason=f"the process {subject.ctx.settings.died}")
    space = space_of(subject)
    found, smallest = replay.result(NAME, subject, space, entry, subject.ctx.settings.died)
    if smallest is None and found.outcome == "passed":  # the machine was busy
        subject.lenience = replay.LENIENCE
        rest = _searched(subject)
        return dataclasses.replace(rest, notes=(*rest.notes, *found.notes))
    if smallest is None:
        return found
    subject.ctx.provisional(found)
    subject.avoided = replay.likeness(subject, space, smallest)
    rest = _searched(subject)
    notes = ("calls that are as large in every dynamic size, or larger, were not tried any more", *rest.notes)
    return dataclasses.replace(found, findings=(*found.findings, *rest.findings), notes=(*found.notes, *notes))


def _not_checked(reason: str, notes: tuple[str, ...] = ()) -> CheckResult:
    return CheckResult(name=NAME, outcome="not_checked", reason=reason, notes=notes)


def _export(ctx: Context, contract: Contract) -> tuple[ExportedProgram, Inputs]:
    """Capture with the inferred dimensions dynamic; the program and the call that it was captured from."""
    try:
        ctx.program()
    except Exception as error:  # the check capture says what is wrong
        raise NotCapturedError from error
    # A size of 0 or 1 is a constant for torch whatever is asked.
    first = ctx.example()
    others = (inputs for inputs in ctx.further_examples() if same_structure(inputs, first))
    example = min((first, *others), key=lambda inputs: _small_sizes(contract, inputs))
    return ctx.export(_auto(ctx.build(), contract, example), example), example


def _small_sizes(contract: Contract, example: Inputs) -> int:
    flat = pytree.tree_leaves(example)
    return sum(flat[leaf.index].shape[d] < 2 for leaf, d, _ in contract.asked if not leaf.number)


def _auto(model: torch.nn.Module, contract: Contract, example: Inputs) -> Any:
    """``dynamic_shapes`` in which each asked dimension, and each number, is `Dim.AUTO`."""
    from torch.export import Dim, ShapesCollection

    flat, structure = pytree.tree_flatten(example)
    shapes: Any = ShapesCollection()  # type: ignore[no-untyped-call]
    for leaf in contract.leaves:
        if leaf.number:
            flat[leaf.index] = torch.empty(())  # a collection goes by identity, which a number has none of
            shapes[flat[leaf.index]] = Dim.AUTO
        elif leaf.asked:
            shapes[flat[leaf.index]] = dict.fromkeys(leaf.asked, Dim.AUTO)
    try:
        return shapes.dynamic_shapes(model, *pytree.tree_unflatten(flat, structure))
    except Exception:  # a cache makes its tensors anew where it is unflattened
        return specification.automatic(model, example, contract)


def refused(ctx: Context, error: Exception, guards: list[Guard], contract: Contract | None) -> CheckResult:
    """The result for a case whose export with these dynamic shapes fails; with a contract, they were inferred."""
    if contract is None or not contract.dynamic:
        return _not_checked("the model is not captured")
    narrowed = narrowing.of_refusal(guards, error, "specialises", contract=contract, head=ctx.head())
    findings = narrowed or (blame.of_failure(error, ctx.head(), "specialises"),)
    reason = f"with the sizes that differ between inputs and inputs2 dynamic, the export fails: {blame.words(error)}"
    return CheckResult(name=NAME, outcome="failed", reason=reason, findings=findings, notes=what_exports(ctx, contract))


def _pinned(subject: Subject, asked: list[Term]) -> list[tuple[Finding, frozenset[str]]]:
    """Dimensions that were asked to be dynamic and are constants in the program, each with what varies with it."""
    pinned = [term for term in asked if term.grant == "constant"]
    return [(_pin(subject, term), subject.variables([term.leaf.size(term.d)])) for term in pinned]


def _pin(subject: Subject, term: Term) -> Finding:
    pins = [guard for guard in term.guards if guard.place is not None]
    place = pins[0].place if pins else subject.ctx.head()
    size = int(subject.granted.of(term.leaf, term.d))
    message, rewrite = f"{term.name} should be dynamic and became the constant {size}", advice.CHANGES["constant"]
    if not pins and size < 2 and not term.leaf.number:
        message += ", since torch takes a size of 0 or 1 in the example for a constant"
        rewrite = narrowing.LARGER
    return blame.finding(
        blame.size_rule(place),
        message,
        place,
        outcome="specialises" if _varies(subject, term) else "fine",
        rewrite=rewrite,
        evidence=conditions.words(pins[0]) if pins else None,
    )


def _varies(subject: Subject, term: Term) -> bool:
    """Whether the eager model takes another size in this dimension, which `Dim.AUTO` may stand at for convenience."""
    from exportlint.shapes.strategies import Space

    if term.ask.varied:
        return True
    space = Space(subject.example, subject.contract, subject.granted, {})
    for shapes in (*edges.others(subject.contract, term.leaf, term.d), *_grown_together(subject, term)):
        drawn = space.call(shapes, lambda kinds, layouts: (kinds[0], 0, layouts[0]))
        try:
            subject.eager(drawn.inputs)
        except Exception:
            continue
        return True
    return False


def _grown_together(subject: Subject, term: Term) -> Iterator[Shapes]:
    """Shapes in which the dimension grows with all others at its place that are constants of 0 or 1, as in a batch."""
    small = [
        (leaf, d)
        for leaf, d, _ in subject.contract.asked
        if d == term.d and leaf.shape[d] == term.leaf.shape[d] < 2 and not leaf.number
    ]
    if len(small) > 1 and (term.leaf, term.d) in small:
        yield from edges.others(subject.contract, term.leaf, term.d, small)


def _result(
    subject: Subject, asked: list[Term], findings: list[tuple[Finding, frozenset[str]]], search: Search
) -> CheckResult:
    kept = narrowing.joined(findings)
    notes, measured, contract = _notes(subject, asked, search), subject.errors.measurements, _dimensions(asked, search)

    def result(outcome: Outcome, reason: str, notes: tuple[str, ...] = notes) -> CheckResult:
        return CheckResult(
            name=NAME, outcome=outcome, reason=reason, findings=kept, notes=notes, measured=measured, contract=contract
        )

    if any(finding.counts for finding in kept):
        reason = next(finding.message for finding in kept if finding.counts)
        return result("failed", reason)
    why_not = _why_not(subject)
    if why_not is not None:
        if subject.ran:
            notes = (*notes, f"{counted(subject.ran, 'call')} with other values gave the same results")
        return result("not_checked", why_not, notes)
    return result("passed", counted(subject.ran, "call"))


def _why_not(subject: Subject) -> str | None:
    """Why nothing can be said though nothing was found, or ``None``."""
    others = subject.ctx.further_examples()
    alike = any(same_structure(inputs, subject.example) for inputs in others)
    if others and not alike and not subject.contract.dynamic:
        return "no further call has the structure of the example, and a program holds for one"
    if not others and not subject.contract.dynamic:
        why = "names no input" if subject.ctx.dynamic_shapes else "and inputs2 are missing"
        return f"no dimension is dynamic: dynamic_shapes {why}"
    if not subject.ran:
        untried = "no call was tried: there is no inputs2, and no example was to be drawn"
        return "the eager model refused every call" if subject.refused else untried
    if subject.contract.dynamic and subject.refused and not subject.moved:
        return "the eager model refused every call whose sizes are not those of the example"
    return None


def _notes(subject: Subject, asked: list[Term], search: Search) -> tuple[str, ...]:
    notes = [f"the smallest failing call: {f.trial.code}" for f in subject.faults.values() if f.trial.code]
    notes += [_of_term(term, search) for term in asked if _is_narrower(term, search)]
    notes += search.notes
    if not all(same_structure(inputs, subject.example) for inputs in subject.ctx.further_examples()):
        notes.append("further calls of another structure than the example's are outside of this program")
    if subject.undefined:
        notes.append(f"{UNDEFINED}, as in {subject.undefined}")
    if subject.refused and subject.refused >= subject.ran:
        notes.append(f"the eager model refused {subject.refused} of {subject.refused + subject.ran} drawn calls")
    lines = guard_hooks.why_not()
    if lines:
        notes.append(f"the lines of guards are not known: {lines}")
    return tuple(dict.fromkeys(notes))


def _is_narrower(term: Term, search: Search) -> bool:
    """Whether less is granted than asked; a guard may follow from what is asked, such as that all batches are equal."""
    if term.grant in ("divisible", "bound"):
        return any(guard in search.narrowing for guard in term.guards)
    return term.grant != "as asked"


def _dimensions(asked: list[Term], search: Search) -> tuple[Dimension, ...]:
    """What is asked and granted, of each size that should be dynamic."""
    return tuple(
        Dimension(
            name=term.name,
            asked=term.ask.words,
            granted=term.granted,
            narrower=_is_narrower(term, search),
            place=_place(term),
        )
        for term in asked
    )


def _place(term: Term) -> str:
    """The line of the first condition that narrows a size; empty where none is known."""
    known = (guard.place for guard in term.guards if guard.place is not None)
    return next((f"{places.display_path(place.file)}:{place.line}" for place in known), "")


def _of_term(term: Term, search: Search) -> str:
    """What is asked and granted, and where that was decided."""
    at = _place(term)
    tried = [guard for guard in term.guards if guard in search.narrowing]
    wished = bool(tried) and all(guard in search.wishes and not _was_taken(guard, search) for guard in tried)
    own = wished and not _is_taken(term, tried, search)
    said = f"{term.words} ({at})" if at else term.words
    return f"{said}; the model itself refuses other sizes" if own else said


def _is_taken(term: Term, tried: list[Guard], search: Search) -> bool:
    """Whether the eager model takes sizes that are not granted: beyond the range, too, of what must be equal."""
    faults = [fault.guard for fault in search.subject.faults.values()]
    equal = (guard.sources.values() for guard in tried if kind_of(guard) == "equal")
    sizes = {term.leaf.size(term.d)}.union(*equal)
    bounds = [g for g in search.narrowing if kind_of(g) == "bounded" and sizes & set(g.sources.values())]
    return any(guard in faults for guard in tried) or any(guard not in search.wishes for guard in bounds)


def _was_taken(guard: Guard, search: Search) -> bool:
    """Whether the eager model took any call that violates a guard."""
    calls = {tuple(sizes.items()): sizes for sizes in search.subject.taken}
    return any(edges.holds(guard, sizes) is False for sizes in calls.values())
