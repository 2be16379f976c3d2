"""The dtype axis of the check ``twins``: is the program the one that bfloat16 needs?

1. The model is cast, called and exported in bfloat16. Only dtypes may differ from the program in float32. Those that do
   follow the inputs in the source and are constants in the program: information, with what the cast program does.
2. Where the programs differ otherwise, the dtype decided what was captured. That bites where the eager bfloat16 model
   is farther from the float32 program than rounding explains: the program is run with each result rounded, to see how
   far that goes. A branch that only casts, or that only chooses another epsilon, does not bite.

A model that differs from itself in one dtype says nothing about two: that is asked first, and again before a warning.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from exportlint import blame
from exportlint.checks import divergence
from exportlint.checks.context import call, fresh, unchanged
from exportlint.checks.device.twin import tensors

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch
    from torch.export import ExportedProgram

    from exportlint.checks.context import Context
    from exportlint.devices.program import Step, Unlike
    from exportlint.findings import Finding
    from exportlint.places import Place

RULE = "EXP207"
MOST_BAKED = 20
FAR, NEAR = 8, 0.0625  # times the error of rounding, and relative: what no rounding explains is above both
DRAWS = 2
CALLS = 4  # in which a model that is blamed for its dtype must return the same
UNSTEADY = "the model differs from itself with the same seeds: its dtypes are not compared"
FOLLOWED = "dtype baked: the dtype follows the inputs here, and the exported program makes it a constant"
CASTS = "dtype baked: the dtype decides here whether there is a cast, and the exported program keeps the decision"
CHECKED = "dtype baked: torch checks here that the program runs in the dtype of its export, so that it cannot be cast"
DECIDES = "dtype baked: bfloat16 computes something else here, and the program keeps the choice for float32"
CHOOSES = "dtype baked: the dtype decides what is captured here; the numbers are the same, as far as bfloat16 can tell"


def compare_dtypes(ctx: Context, notes: list[str]) -> list[Finding] | None:
    """What the program makes of dtypes; ``None``, and mostly a note, where the model does not work in bfloat16."""
    import torch

    from exportlint.devices.casting import LOW, cast_inputs
    from exportlint.devices.program import canonical, unlike

    model, inputs = ctx.build(), ctx.example()
    if not any(t.dtype == torch.float32 for t in (*model.parameters(), *model.buffers(), *tensors(inputs))):
        return None
    if not _steady(ctx, calls=1):
        notes.append(UNSTEADY)
        return None
    ctx.stage("export in bfloat16")
    try:
        low = call(model.to(LOW), cast_inputs(inputs))
        with torch.no_grad():
            args, kwargs = cast_inputs(ctx.example())
            twin = torch.export.export(
                ctx.build().to(LOW), args, kwargs, dynamic_shapes=ctx.dynamic_shapes, strict=False
            )
    except Exception as error:
        blame.pass_on_memory_error(error)
        place = blame.place_of(error)
        where = "" if place is None else f" ({place.finding(RULE, 'info', '').place})"
        notes.append(f"the model does not run, or is not captured, in bfloat16: {blame.words(error)}{where}")
        return None
    ours, theirs = canonical(ctx.program(), dtypes=False), canonical(twin, dtypes=False)
    parting = unlike(ours, theirs)
    if parting is not None and not _steady(ctx, calls=CALLS, program=True):
        notes.append(UNSTEADY)
        return None
    found = [] if parting is None else _decided(ctx, parting, low, notes)
    return found + _baked(ctx, [*_followed(ours, theirs, same=parting is None), *_constants(ctx.program(), twin)], low)


def _steady(ctx: Context, *, calls: int, program: bool = False) -> bool:
    """Whether fresh models return what the first one did, and are captured as the same program where that is asked."""
    from exportlint.devices.program import canonical, unlike
    from exportlint.parity.compare import compare

    if program and unlike(canonical(ctx.program()), canonical(ctx.export(ctx.dynamic_shapes))) is not None:
        return False
    again = (ctx.call_eager(ctx.build(), ctx.example()) for _ in range(calls))
    return all(compare(ctx.expected(), result, rtol=0.0, atol=0.0) is None for result in again)


def _decided(ctx: Context, parting: Unlike, low: Any, notes: list[str]) -> list[Finding]:
    """The dtype decides which program is captured: a warning where that changes numbers, else information."""
    from exportlint.devices import casting

    program = ctx.program()
    one, other = ctx.build(), ctx.build().to(casting.LOW)
    inputs, cast = ctx.example(), casting.cast_inputs(ctx.example())
    place = divergence.place(lambda: call(one, inputs), lambda: call(other, cast)) or _first_line(parting)
    evidence = f"{parting.words}, where it was exported in bfloat16"
    ctx.stage("run of the program with the precision of bfloat16")
    try:
        with unchanged(program):
            exact, rounded = casting.run_rounded(program, ctx.example(), DRAWS)
    except Exception as error:
        blame.pass_on_memory_error(error)
        notes.append(f"another program is captured in bfloat16, and cannot be compared: {blame.words(error)}")
        return []
    own = max(casting.distance(exact, each) for each in rounded)
    off = casting.distance(exact, _leaves(low))
    bites = off > max(FAR * own, NEAR) and not casting.draws_random_numbers(program)
    if not bites:
        return [blame.finding(RULE, CHOOSES, place, outcome="fine", evidence=evidence)]
    evidence += f"; the eager model is {off:.2g} off there, of which rounding explains {own:.2g}"
    rewrite = "Compute the same for every dtype; else export one program for each dtype."
    return [blame.finding(RULE, DECIDES, place, outcome="unportable", rewrite=rewrite, evidence=evidence)]


def _first_line(parting: Unlike) -> Place | None:
    """The earlier line of the two at which the programs part."""
    from exportlint.devices.program import place_of

    places = [place_of(step.node) for step in (parting.ours, parting.theirs) if step is not None]
    return min((place for place in places if place is not None), default=None)


def _followed(ours: list[Step], theirs: list[Step], *, same: bool) -> Iterator[tuple[Place, str, str]]:
    """Lines whose nodes have another dtype in the twin, with what to say and the two dtypes, in words.

    Args:
        ours: The steps of the program.
        theirs: Those of its twin.
        same: Whether they compute the same, so that a cast that is in one of them only is the choice of a line.
    """
    from exportlint.devices.program import place_of

    pairs: dict[Any, tuple[list[Step], list[Step]]] = defaultdict(lambda: ([], []))
    for side, steps in enumerate((ours, theirs)):
        for step in steps:
            pairs[step.key, step.cast, place_of(step.node)][side].append(step)
    for (_, cast, place), (left, right) in pairs.items():
        if place is None:
            continue
        if cast and not left and same:
            yield place, CASTS, f"no cast, and {_names(right)} where exported in bfloat16"
        elif left and right and _names(left) != _names(right):
            yield place, FOLLOWED, f"{left[0].operator}: {_names(left)}, and {_names(right)} where exported in bfloat16"


def _names(steps: list[Step]) -> str:
    from exportlint.devices.program import of_dtypes

    dtypes = dict.fromkeys(dtype for step in steps for dtype in of_dtypes(step.node))
    return ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)


def _constants(program: ExportedProgram, twin: ExportedProgram) -> Iterator[tuple[Place, str, str]]:
    """Tensors that the capture made constants in a dtype that follows the inputs, at the line that uses them first."""
    from exportlint.devices.program import place_of

    names = {spec.target: spec.arg.name for spec in program.graph_signature.input_specs}
    for target, ours in program.constants.items():
        theirs = twin.constants.get(target)
        kinds = _dtype(ours), _dtype(theirs)
        if target in program.graph_signature.buffers or theirs is None or kinds[0] == kinds[1] or ours.dim() == 0:
            continue
        users = [n for node in program.graph.nodes if node.name == names.get(target) for n in node.users]
        place = next((place for place in map(place_of, users) if place is not None), None)
        if place is not None:
            yield place, FOLLOWED, f"a constant of {kinds[0]}, and of {kinds[1]} where exported in bfloat16"


def _dtype(value: Any) -> str:
    return str(getattr(value, "dtype", None)).removeprefix("torch.")


def _baked(ctx: Context, followed: list[tuple[Place, str, str]], low: Any) -> list[Finding]:
    """A finding of information for each line, with what the program does when it is cast as a user would cast it."""
    bite = _bite(ctx, low)
    told = "" if bite is None else f"; the program, cast to bfloat16, {bite[0]}"
    found: dict[Place, Finding] = {}
    for place, message, evidence in followed:
        found.setdefault(place, blame.finding(RULE, message, place, outcome="fine", evidence=evidence + told))
    if not found and bite is not None and bite[1] is not None:
        evidence = f"the program, cast to bfloat16, {bite[0]}"
        return [blame.finding(RULE, CHECKED, bite[1], outcome="fine", evidence=evidence)]
    return list(found.values())[:MOST_BAKED]


def _bite(ctx: Context, low: Any) -> tuple[str, Place | None] | None:
    """What goes wrong in the cast program, in words, and the line; ``None`` where its dtypes are the eager model's."""
    from exportlint.devices import casting

    ctx.stage("run of the program, cast to bfloat16")
    try:
        with unchanged(ctx.program()):
            cast = casting.run_cast(ctx.program(), ctx.example())
    except casting.CastProgramError as error:
        cause = error.__cause__ or error
        if blame.is_out_of_memory(cause):
            raise MemoryError from error
        return f"raises {blame.words(cause)}", error.place
    for ours, theirs in zip(cast, _leaves(low), strict=False):
        if _dtype(ours) != _dtype(theirs):
            return f"returns {_dtype(ours)} where the eager model returns {_dtype(theirs)}", None
    return None


def _leaves(result: Any) -> list[torch.Tensor]:
    from torch.utils import _pytree as pytree

    return pytree.tree_leaves(fresh(result))
