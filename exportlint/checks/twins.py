"""The check ``twins``: is the program the same whatever it was exported from?

1. Example size: exported from the second example call, under the same dynamic dimensions, the program must have the
   same operators, constants and ranges. Where it has not, the sizes of the example decided something without a word.
2. Dtype: exported in bfloat16, the program may differ in dtypes only (`twin_dtype.py`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from exportlint import blame
from exportlint.checks import divergence, uncaptured
from exportlint.checks.context import ModelError, call
from exportlint.checks.results import of_model_error
from exportlint.checks.twin_dtype import compare_dtypes
from exportlint.findings import CheckResult
from exportlint.text import said
from exportlint.torch_hooks.guards import GuardLog

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch.export import ExportedProgram

    from exportlint.checks.case import Inputs
    from exportlint.checks.context import Context
    from exportlint.devices.program import Unlike
    from exportlint.findings import Finding
    from exportlint.places import Place
    from exportlint.shapes.contract import Granted
    from exportlint.torch_hooks.guards import Guard

NAME = "twins"
UNASKED = re.compile(r"not in range \[|is not equal to|only equality constraints")


def run(ctx: Context) -> CheckResult:
    """Run the check: both axes; `not_checked` where the case has neither a second size nor a floating-point dtype."""
    try:
        ctx.expected()
        ctx.program()
    except Exception as error:
        return uncaptured.result(NAME, error)
    try:
        ctx.further_examples()
    except ModelError as error:
        return of_model_error(NAME, "the arguments of a further call cannot be made", error)
    notes: list[str] = []
    axes = {"size": _by_size(ctx, notes), "dtype": compare_dtypes(ctx, notes)}
    findings = [finding for found in axes.values() for finding in found or ()]
    compared = " and ".join(axis for axis, found in axes.items() if found is not None)
    if not compared:
        return _not_checked(notes[0] if notes else "the case has neither a second size nor a floating-point dtype")
    if findings and findings[0].severity != "info":
        reason = f"{findings[0].place}: {findings[0].message}"
        return CheckResult(name=NAME, outcome="failed", reason=reason, findings=tuple(findings), notes=tuple(notes))
    return CheckResult(name=NAME, outcome="passed", reason=compared, findings=tuple(findings), notes=tuple(notes))


def _not_checked(reason: str) -> CheckResult:
    return CheckResult(name=NAME, outcome="not_checked", reason=reason)


def _by_size(ctx: Context, notes: list[str]) -> list[Finding] | None:
    """The finding for programs that differ by the example call, under the same dynamic dimensions.

    These are the case's own; where it declares none, the dimensions in which the two calls differ. ``None`` where the
    programs cannot be compared.
    """
    second = _other_sizes(ctx, notes)
    if second is None:
        return None
    program = ctx.program() if ctx.dynamic_shapes is not None else _export(ctx, ctx.example())
    if program is None:
        return None  # what a dimension that was asked for breaks is for the check ``shapes`` to say
    theirs, ours = GuardLog(), GuardLog()
    try:
        with theirs:
            twin = ctx.export(ctx.dynamic_shapes or _varying(ctx, second), second)
    except Exception as error:
        return _refused(ctx, error, notes)
    parting, ranges = _parting(program, twin), _ranges(program, twin)
    if parting is None and ranges is None:
        return []
    with ours:
        again = _export(ctx, ctx.example())
    if again is None or _parting(program, again) is not None:
        notes.append("the program differs from export to export")
        return None
    place = _freezing(ours.guards, theirs.guards) or _decision(ctx, second)
    place = place or (parting.place if parting is not None else None) or ctx.head()
    what = parting.words if parting is not None else str(ranges)
    message = "the sizes of the example decide what is captured: another example gives another program"
    return [blame.finding(blame.size_rule(place), message, place, outcome="specialises", evidence=what)]


def _export(ctx: Context, inputs: Inputs) -> ExportedProgram | None:
    """The program from this call, with the dimensions dynamic that the axis is about; ``None`` where that fails."""
    try:
        return ctx.export(ctx.dynamic_shapes or _varying(ctx, inputs), inputs)
    except Exception as error:
        blame.pass_on_memory_error(error)
        return None


def _varying(ctx: Context, inputs: Inputs) -> Any:
    """``dynamic_shapes`` for one of the example calls: whatever differs between them is `Dim.AUTO`."""
    from exportlint.shapes import contract, specification

    second = ctx.second_example()
    differ = contract.inferred(ctx.build(), ctx.example(), *([] if second is None else [second]))
    return specification.automatic(ctx.build(), inputs, differ)


def _refused(ctx: Context, error: Exception, notes: list[str]) -> list[Finding] | None:
    """The finding for an example from which, other than from the first, the model cannot be exported."""
    blame.pass_on_memory_error(error)
    second = ctx.second_example()
    words = f"the export from the second example call fails: {blame.words(error)}"
    try:
        if second is not None:
            ctx.call_second(second)
    except ModelError as failure:
        notes.append(f"the second example call fails: {blame.words(failure.__cause__ or failure)}")
        return None
    if UNASKED.search(said(error)):  # the case itself does not allow for the call
        notes.append(words)
        return None
    place = blame.place_of(error) or (second and _decision(ctx, second)) or ctx.head()
    message = "the sizes of the example decide whether the model is captured: from the second example call it is not"
    return [blame.finding(blame.size_rule(place), message, place, outcome="specialises", evidence=words)]


def _freezing(ours: Sequence[Guard], theirs: Sequence[Guard]) -> Place | None:
    """The line at which a size becomes a constant that is another one in the other program.

    The programs part later: where the constant is used, and torch keeps of a node's lines those of a ``forward`` only.
    """
    from exportlint.shapes.kinds import kind_of

    for guards, others in ((ours, theirs), (theirs, ours)):
        alike = {guard.text for guard in others}
        for guard in guards:
            own = not guard.deferred and guard.text not in alike
            if own and guard.place is not None and kind_of(guard) == "pinned":
                return guard.place
    return None


def _decision(ctx: Context, second: Inputs) -> Place | None:
    """The line after which the eager calls of both examples go different ways."""
    one, two, example = ctx.build(), ctx.build(), ctx.example()
    return divergence.place(lambda: call(one, example), lambda: call(two, second))


def _other_sizes(ctx: Context, notes: list[str]) -> Inputs | None:
    """The second call where it has the same structure, tensors of other sizes, and these may be dynamic."""
    from exportlint.shapes.contract import same_structure

    second = ctx.second_example()
    if second is None or not same_structure(ctx.example(), second):
        return None
    first, other = _sizes(ctx.example()), _sizes(second)
    if first == other:
        return None
    constant = _constant(first, other)
    if constant is None:
        return second
    notes.append(f"the programs of the two example calls were not compared: {constant}")
    return None


def _constant(first: list[torch.Size], second: list[torch.Size]) -> str | None:
    """The first dimension that varies and that torch makes a constant from one of the calls, whatever is asked."""
    for index, (left, right) in enumerate(zip(first, second, strict=True)):
        for dimension, (a, b) in enumerate(zip(left, right, strict=False)):
            if a != b and min(a, b) < 2:
                return (
                    f"dimension {dimension} of input {index} is {min(a, b)} in one of them, which torch keeps as it is"
                )
    return None


def _sizes(inputs: Inputs) -> list[torch.Size]:
    return [tensor.shape for tensor in _tensors(inputs)]


def _tensors(inputs: Inputs) -> list[torch.Tensor]:
    import torch
    from torch.utils import _pytree as pytree

    return [leaf for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]


def _parting(ours: ExportedProgram, theirs: ExportedProgram) -> Unlike | None:
    from exportlint.devices.program import canonical, unlike

    return unlike(canonical(ours), canonical(theirs))


def _ranges(ours: ExportedProgram, theirs: ExportedProgram) -> str | None:
    """The first dimension of an input that the programs grant other sizes, in words."""
    from exportlint.shapes.contract import granted

    left, right = granted(ours), granted(theirs)
    for index, sizes in left.sizes.items():
        for dimension, (a, b) in enumerate(zip(sizes, right.sizes.get(index, ()), strict=False)):
            one, other = _bounds(left, a), _bounds(right, b)
            if None not in (one, other) and one != other and tuple in (type(one), type(other)):
                return f"dimension {dimension} of input {index} may be {_words(one)} or {_words(other)}"
    return None


def _bounds(granted: Granted, size: Any) -> tuple[int, int | None] | int | None:
    """Smallest and largest value of a size, or its only one; ``None`` for an expression over other sizes."""
    if isinstance(size, int) or size.is_Integer:
        return int(size)
    return granted.ranges.get(size)


def _words(bounds: Any) -> str:
    if isinstance(bounds, int):
        return f"{bounds} only"
    return f"{bounds[0]} to {bounds[1]}" if bounds[1] is not None else f"{bounds[0]} and more"
