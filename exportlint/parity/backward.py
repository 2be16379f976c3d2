"""Where the backward pass of a program parts from the eager model's: the first node, from the loss on.

Values of the forward pass are told by their fingerprints, so that the gradient that a node's result gets in the program
can be laid beside the gradient that the same value gets in eager. Of the values whose gradients differ, the one that is
computed last is where they part, and the node that uses it passes another gradient back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from exportlint import places
from exportlint.parity.parting import Parting, fingerprint, holds_data, innermost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from torch import nn
    from torch.export import ExportedProgram

    from exportlint.parity.parting import Print
    from exportlint.places import Place


@dataclass(frozen=True, slots=True)
class BackwardParting:
    """Where the backward pass parts.

    Attributes:
        at: The node of the forward pass, whose module, operator and line are those of its backward.
        to: The node to whose result it passes another gradient back.
    """

    at: Parting
    to: str

    @property
    def place(self) -> Place | None:
        """The node's line in the source."""
        return self.at.place

    def __str__(self) -> str:
        at = self.at
        where = f"in {at.module} ({at.kind})" if at.module else f"in {at.kind} itself"
        line = f" at {places.display_path(at.place.file)}:{at.place.line}" if at.place is not None else ""
        return f"backwards they part {where}, first in what {at.node} ({at.operator}){line} passes to {self.to}"


@dataclass
class _Gradients:
    """The gradients that values get, in the order of the backward pass."""

    of: dict[Print, list[Print]] = field(default_factory=dict)
    watched: dict[int, list[Any]] = field(default_factory=dict)  # kept alive, so that no other object has the id

    def watch(self, tensor: Any) -> Print | None:
        """Note the gradient that a tensor will get, once; its value's fingerprint, where there will be one."""
        # Without gradients it is inside of a function with a backward of its own, where hooks would be the input's.
        has_gradient = isinstance(tensor, torch.Tensor) and tensor.requires_grad and torch.is_grad_enabled()
        if not has_gradient or not holds_data(tensor):
            return None
        value, known = fingerprint(tensor), self.watched.setdefault(id(tensor), [tensor])
        if tensor.grad_fn not in known[1:]:  # a tensor that is written into is another one afterwards
            known.append(tensor.grad_fn)
            gradients = self.of.setdefault(value, [])
            tensor.register_hook(lambda gradient: gradients.append(fingerprint(gradient)))
        return value


class _Eager(TorchFunctionMode):
    """Watches what functions are given, since functions with a backward of their own are not seen, and return."""

    def __init__(self) -> None:
        super().__init__()
        self.gradients = _Gradients()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for leaf in pytree.tree_leaves((args, kwargs)):
            self.gradients.watch(leaf)
        result = func(*args, **(kwargs or {}))
        for leaf in pytree.tree_leaves(result):
            self.gradients.watch(leaf)
        return result


class _Program(torch.fx.Interpreter):
    """Runs a program node by node and watches the results."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.gradients = _Gradients()
        self.made: list[tuple[torch.fx.Node, Print]] = []

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        value = self.gradients.watch(result)
        if value is not None and n.op != "output":
            self.made.append((n, value))
        return result


def backward_parting(
    model: nn.Module,
    call: Callable[[], Any],
    program: ExportedProgram,
    flat: Iterable[Any],
    called: Callable[[Callable[..., Any], Sequence[Any]], Any],
) -> BackwardParting | None:
    """Where the program's backward pass parts from the eager one; ``None`` where that cannot be seen.

    Gradients are left in the parameters of both.

    Args:
        model: The eager model, whose only result is the loss.
        call: Calls it with gradients.
        program: Its program.
        flat: The flattened arguments of the same call.
        called: Calls the program likewise.
    """
    eager, runner = _Eager(), _Program(program.module(check_guards=False))
    try:
        with eager:
            loss = call()
        loss.backward()
        pytree.tree_leaves(called(runner.run, list(flat)))[0].backward()
    except Exception:
        return None
    return _judge(model, eager.gradients, runner)


def _judge(model: nn.Module, eager: _Gradients, runner: _Program) -> BackwardParting | None:
    values, seen = dict(runner.made), dict.fromkeys(eager.of, 0)
    for node, value in reversed(runner.made):
        if value not in seen:
            continue
        wanted, found, place = eager.of[value], runner.gradients.of[value], seen[value]
        seen[value] += 1
        # Of results with equal values, such as those of views, the last has its gradient first on both sides.
        right = wanted[place] == found[place] if place < len(wanted) == len(found) else set(found) & set(wanted)
        users = [] if right or wanted == found else [user for user in node.users if user in values]
        # What returns what it is given stands for a function that only has a backward of its own.
        users = [user for user in users if values[user] == value] or users
        if users:
            return BackwardParting(innermost(users[0], model), node.name)
    return None
