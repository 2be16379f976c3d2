"""Operators of a program that belong to training: those that drop values at random, or update running statistics."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.export import ExportedProgram

# By operator: the places of the probability and of the flag for training among its arguments.
DROPOUTS = {
    **dict.fromkeys(("dropout", "dropout_", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"), (1, 2)),
    "native_dropout": (1, 2),
    "scaled_dot_product_attention": (4, None),
}
RUNNING_MEAN, BATCH_NORM_TRAINING = 3, 5


def left_in(program: ExportedProgram, model: nn.Module) -> list[tuple[torch.fx.Node, str]]:
    """Nodes that train in a module that is in evaluation mode, each with what it does."""
    found = []
    for module in program.graph_module.modules():
        for node in getattr(getattr(module, "graph", None), "nodes", ()):
            words = _trains(node) if node.op == "call_function" else None
            if words is not None and not _training(model, node):
                found.append((node, words))
    return found


def _trains(node: torch.fx.Node) -> str | None:
    name = str(getattr(node.target, "_opname", ""))
    if name in DROPOUTS:
        probability, flag = DROPOUTS[name]
        if _argument(node, probability, "dropout_p", 0.0) and (flag is None or _argument(node, flag, "train", False)):
            return f"`{name}` drops values at random"
    updates = _argument(node, RUNNING_MEAN, "running_mean", None) is not None
    if name == "batch_norm" and updates and _argument(node, BATCH_NORM_TRAINING, "training", False) is True:
        return "`batch_norm` takes the statistics of the batch and updates the running ones"
    return None


def _argument(node: torch.fx.Node, place: int, name: str, default: Any) -> Any:
    return node.args[place] if len(node.args) > place else node.kwargs.get(name, default)


def _training(model: nn.Module, node: torch.fx.Node) -> bool:
    """Whether the module that the node was captured in is in training mode."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = re.sub(r"@\d+$", "", str(stack[-1][0])) if stack else ""
    try:
        return model.get_submodule(path).training
    except AttributeError:
        return model.training
