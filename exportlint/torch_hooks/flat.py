"""Programs that take and return flat lists: whoever loads them needs no class of the model's or of its library's."""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def flattened(program: ExportedProgram) -> ExportedProgram:
    """The program with one positional argument for each leaf of its arguments, and a list of leaves as its result.

    It has no guards, which name parts of the structure, and shares all else with the program. Where this torch keeps
    structures in another way, it is the program itself.
    """
    return program if why_not(program) is not None else _flat(program)


def why_not(program: ExportedProgram) -> str | None:
    """Why the program cannot be flattened with this torch, or ``None``: a flat one must say of itself that it is."""
    import torch

    try:
        flat = _flat(program)
        leaves = (program.call_spec.in_spec.num_leaves, program.call_spec.out_spec.num_leaves)
        told = (len(flat.call_spec.in_spec.child(0).children()), len(flat.call_spec.out_spec.children()))
        args, kwargs = flat.example_inputs or ((None,) * leaves[0], {})
        if told == leaves and (len(args), kwargs) == (leaves[0], {}):
            return None
    except (AttributeError, TypeError, ValueError):
        pass
    return f"torch {torch.__version__} keeps the structure of arguments in another way than exportlint knows"


def _flat(program: ExportedProgram) -> ExportedProgram:
    from torch.utils import _pytree as pytree

    entry, *others = program.module_call_graph
    signature = entry.signature
    flat_signature = dataclasses.replace(
        signature,
        in_spec=pytree.tree_structure((tuple(range(signature.in_spec.num_leaves)), {})),
        out_spec=pytree.tree_structure(list(range(signature.out_spec.num_leaves))),
        forward_arg_names=None,
    )
    flat = copy.copy(program)
    flat._module_call_graph = [dataclasses.replace(entry, signature=flat_signature), *others]
    if hasattr(program, "_guards_code"):
        flat._guards_code = []
    if program.example_inputs is not None:
        flat._example_inputs = (tuple(pytree.tree_leaves(program.example_inputs)), {})
    return flat
