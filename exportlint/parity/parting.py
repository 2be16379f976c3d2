"""Where a program and the eager model part: the module whose result differs, and the first node inside it that does.

Both are run on the same call. Every value that an operator returns in eager is remembered by a fingerprint, so that a
node of the program whose inputs eager knows too, and whose result it does not, is where they part. What the capture
left out, added or moved does not matter.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from exportlint import places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torch import nn
    from torch.export import ExportedProgram

    from exportlint.places import Place

FRAME = re.compile(r'File "([^"]+)", line (\d+)')
ODD = 0x1E3779B97F4A7C15  # a large odd number: sums of products with its multiples tell orders apart

Print = tuple[torch.Size, torch.dtype, int]


@dataclass(frozen=True, slots=True)
class Parting:
    """Where a program parts from the eager model.

    Attributes:
        module: Path of the innermost module whose result differs; empty for the model itself.
        kind: Class of that module.
        node: Name of the first node that differs.
        operator: What it computes.
        place: Its line in the source.
        left_out: Whether the program does not compute what eager computes behind that node, inside the module.
    """

    module: str
    kind: str
    node: str
    operator: str
    place: Place | None
    left_out: bool = False

    def __str__(self) -> str:
        where = f"in {self.module} ({self.kind})" if self.module else f"in {self.kind} itself"
        line = f" at {places.display_path(self.place.file)}:{self.place.line}" if self.place is not None else ""
        what = "whose result the program lacks, after the node" if self.left_out else "first at the node"
        return f"they part {where}, {what} {self.node} ({self.operator}){line}"


class _Eager(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The fingerprints of everything that a call computes, and of the results of its modules in order."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.values: set[Print] = set()
        self.used: set[Print] = set()
        self.results: list[tuple[str, list[Print]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result, taken = func(*args, **(kwargs or {})), prints((args, kwargs))
        self.used.update(taken)
        self.values.update(taken, prints(result))
        return result

    def watch(self, model: nn.Module, call: Callable[[], Any]) -> None:
        """Run the call and remember what it computes."""

        def hook(path: str) -> Callable[..., None]:
            return lambda module, args, result: self.results.append((path, prints(result)))

        handles = [module.register_forward_hook(hook(path)) for path, module in model.named_modules()]
        try:
            with self:
                self.used.update(prints(call()))
        finally:
            for handle in handles:
                handle.remove()


class _Program(torch.fx.Interpreter):
    """Runs a program node by node and notes nodes that compute from what eager knows what it does not know."""

    def __init__(self, module: torch.fx.GraphModule, known: set[Print]) -> None:
        super().__init__(module)
        self.known = known
        self.values: set[Print] = set()
        self.strange: set[torch.fx.Node] = set()
        self.parted: list[torch.fx.Node] = []
        self.sources: set[torch.fx.Node] = set()
        self.fed: list[torch.fx.Node] = []  # by such sources and by nothing else that is strange

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        found = prints(result)
        self.values.update(found)
        if n.op == "call_function" and not self.known.issuperset(found):
            self.strange.add(n)
            tensors = {node for node in n.all_input_nodes if prints(self.env.get(node))}
            if not tensors:  # such as a mask that eager does without, which says nothing about what follows
                self.sources.add(n)
            elif self.strange.isdisjoint(tensors):
                self.parted.append(n)
            elif self.strange & tensors <= self.sources:
                self.fed.append(n)
        return result


def parting(model: nn.Module, call: Callable[[], Any], program: ExportedProgram, flat: Iterable[Any]) -> Parting | None:
    """Where the program's call parts from the eager one; ``None`` where that cannot be seen.

    Args:
        model: The eager model.
        call: Calls it.
        program: The program that returns something else.
        flat: The flattened arguments of the same call.
    """
    eager = _Eager()
    runner = _Program(program.module(check_guards=False), eager.values)
    flat = list(flat)
    eager.values.update(prints((flat, list(model.parameters()), list(model.buffers()))))
    try:
        with torch.no_grad():
            eager.watch(model, call)
            runner.run(*flat)
    except Exception:
        return None
    return _judge(model, eager, runner)


def _judge(model: nn.Module, eager: _Eager, runner: _Program) -> Parting | None:
    parted = runner.parted or runner.fed
    nodes: list[torch.fx.Node] = list(runner.module.graph.nodes)  # type: ignore[union-attr, arg-type]
    kept = {path for node in nodes for path in _paths(node)}
    for path, found in eager.results:
        missing = set(found) - runner.values
        if path not in kept or not missing:
            continue
        inside = [node for node in parted if path in _paths(node)]
        if inside:
            return _of_node(model, inside[0], path)
        known = [node for node in nodes if path in _paths(node)]
        # All that is computed inside is right, so something is not computed. What nobody uses need not be.
        if path and missing & eager.used and runner.strange.isdisjoint(known):
            return dataclasses.replace(_of_node(model, known[-1], path), left_out=True)
    return _of_node(model, parted[0], next(iter(reversed(_paths(parted[0]))), "")) if parted else None


def _of_node(model: nn.Module, node: torch.fx.Node, path: str) -> Parting:
    try:
        kind = type(model.get_submodule(path)).__name__
    except AttributeError:
        kind = "a module that is gone"
    return Parting(path, kind, node.name, str(node.target), line_of(node))


def line_of(node: torch.fx.Node) -> Place | None:
    """The innermost line of the user's in the stack that was recorded for a node."""
    frames = [(file, int(line)) for file, line in FRAME.findall(node.stack_trace or "")]
    return places.of_frames(reversed(frames))


def _paths(node: torch.fx.Node) -> list[str]:
    """Paths of the modules that the node was captured in, outermost first."""
    stack = (node.meta.get("nn_module_stack") or {}).values()
    return [re.sub(r"@\d+$", "", str(entry[0])) for entry in stack]


def prints(tree: Any) -> list[Print]:
    """Fingerprints of the tensors in a tree that hold data: equal for equal shape, dtype and values."""
    leaves = pytree.tree_leaves(tree)
    return [fingerprint(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor) and _holds_data(leaf)]


def _holds_data(tensor: torch.Tensor) -> bool:
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    return plain and tensor.layout is torch.strided and tensor.device.type != "meta" and not tensor.is_quantized


def fingerprint(tensor: torch.Tensor) -> Print:
    """Shape, dtype and a hash of the values; 0 and -0 are the same."""
    with torch.no_grad():
        flat = tensor.detach().reshape(-1)
        if flat.is_floating_point() and flat.dtype.itemsize > 1:
            flat = flat + 0.0
        raw = torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat
        raw = raw.contiguous().view(torch.uint8)
        words = torch.nn.functional.pad(raw, (0, -raw.numel() % 8)).view(torch.int64)
        weights = torch.arange(1, words.numel() + 1, device=words.device) * ODD | 1
        mixed = (words ^ (words >> 29)) * weights
        return tensor.shape, tensor.dtype, int((mixed ^ (mixed >> 31)).sum())
