"""What is wrong with the dynamic shapes of a case that the export refuses, or what it may ask for instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from exportlint import blame
from exportlint.shapes import edges
from exportlint.shapes.contract import declared
from exportlint.shapes.corrected import corrected
from exportlint.shapes.misfit import REWRITE, fitted, misfit, nameless
from exportlint.shapes.served import served
from exportlint.text import listed, said
from exportlint.torch_hooks.guards import GuardLog

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from exportlint.checks.case import Inputs
    from exportlint.checks.context import Context
    from exportlint.findings import Finding
    from exportlint.shapes.contract import Contract


MOST_LISTED = 5
OF_SPECIFICATIONS = ("EXP603", "EXP003", "EXP301")  # what the words of torch may stand for where they do not fit


def misfit_of(ctx: Context, error: Exception) -> Finding | None:
    """The finding for dynamic shapes that do not fit the inputs: no line is to blame, so it lies where forward begins.

    Args:
        ctx: The context of the case.
        error: What the export raised.
    """
    rule, _ = blame.classify(error)
    if ctx.dynamic_shapes is None or rule not in OF_SPECIFICATIONS or blame.place_of(error) is not None:
        return None
    if "Constraints violated" in said(error):  # by what the model does
        return None
    what = misfit(ctx.build(), ctx.example(), ctx.dynamic_shapes)
    if what is None:
        if rule != "EXP603" or nameless(ctx.build()):
            return None
        what = "does not fit the inputs of the example call"
    message = f"dynamic_shapes of case {ctx.case.name!r} {what}"
    return blame.finding("EXP603", message, ctx.head(), outcome="breaks", rewrite=REWRITE, evidence=blame.words(error))


def what_fits(ctx: Context) -> tuple[str, ...]:
    """A note with dynamic shapes that fit the inputs, as near as possible to those that do not; none where none do."""
    if not isinstance(ctx.dynamic_shapes, (Mapping, list, tuple)):
        return ()
    model, inputs = ctx.build(), ctx.example()
    contract = declared(model, inputs, fitted(model, inputs, ctx.dynamic_shapes))
    return what_exports(ctx, contract) if contract.dynamic else ()


def what_exports(ctx: Context, contract: Contract) -> tuple[str, ...]:
    """A note with the dynamic shapes that the export accepts, which were tried; none where there are none."""
    log = GuardLog()

    def export(shapes: Any) -> ExportedProgram:
        log.guards.clear()
        with log:
            return ctx.export(shapes)

    ctx.stage("export with other dynamic shapes")
    larger = _with_larger_example(ctx, contract)
    if larger is not None:
        return (larger,)
    found = corrected(ctx.build(), ctx.example(), contract, export, lambda: log.guards)
    if found is None:
        return ()
    narrower = served(contract, found.grants, found.guards)
    if narrower is not None:  # else those who paste it are told of the sizes that are left only by the next run
        found = corrected(ctx.build(), ctx.example(), narrower, export, lambda: log.guards) or found
    lost = [f"no Dim says that {pair} vary together, and with these they need not" for pair in found.lost]
    return (f"dynamic_shapes that export ({'; '.join(found.imports)}): {found.code}", *lost)


def _with_larger_example(ctx: Context, contract: Contract) -> str | None:
    """A note that the export takes the dynamic shapes as they are, once no dynamic size is 0 or 1 in the example."""
    shapes, names = edges.grown(contract)
    if not names or ctx.dynamic_shapes is None:
        return None
    try:
        ctx.export(ctx.dynamic_shapes, _reshaped(ctx.example(), contract, shapes))
    except Exception:  # they are not all that is wrong
        return None
    return f"these dynamic_shapes export from an example in which {listed(names, MOST_LISTED)} is 2 or more"


def _reshaped(inputs: Inputs, contract: Contract, shapes: edges.Shapes) -> Inputs:
    """A call with tensors of these shapes, which hold what is there again and again."""
    import torch
    from torch.utils import _pytree as pytree

    flat, structure = pytree.tree_flatten(inputs)
    for leaf in contract.tensors:
        for d, size in enumerate(shapes[leaf.index]):
            tensor = flat[leaf.index]
            if tensor.shape[d] == 0 < size:
                flat[leaf.index] = tensor.new_zeros([*tensor.shape[:d], size, *tensor.shape[d + 1 :]])
            elif tensor.shape[d] != size:
                flat[leaf.index] = tensor.index_select(d, torch.arange(size) % tensor.shape[d])
    remade: Inputs = pytree.tree_unflatten(flat, structure)
    return remade
