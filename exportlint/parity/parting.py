"""Where a program and the eager model part: the module whose result differs, and the first node inside it that does.

Both are run on the same call. Every value that an operator returns in eager is remembered by a fingerprint, so that a
node of the program whose inputs eager knows too, and whose result it does not, is where they part. What the capture
left out, added or moved does not matter. A program that was saved and loaded is laid beside itself in the same way.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from exportlint import places

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import nn
    from torch.export import ExportedProgram

    from exportlint.places import Place

Called = Callable[[Callable[..., Any], Sequence[Any]], Any]

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
        lacks: The first operator of eager that is left out, where it is known.
    """

    module: str
    kind: str
    node: str
    operator: str
    place: Place | None
    left_out: bool = False
    lacks: str = ""

    def __str__(self) -> str:
        where = f"in {self.module} ({self.kind})" if self.module else f"in {self.kind} itself"
        line = f" at {places.display_path(self.place.file)}:{self.place.line}" if self.place is not None else ""
        if self.lacks:
            after = f"after the node {self.node} ({self.operator})"
            return f"they part {where}, where {after} the program lacks {self.lacks}{line}"
        what = "whose result the program lacks, after the node" if self.left_out else "first at the node"
        return f"they part {where}, {what} {self.node} ({self.operator}){line}"


@dataclass(frozen=True, slots=True)
class _Step:
    """An operator that eager computes: in which module, from what, to what, and at which line."""

    operator: str
    module: str
    taken: list[Print]
    returned: list[Print]
    place: Place | None


class _Eager(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The fingerprints of everything that a call computes, and of the results of its modules in order."""

    supports_higher_order_operators = True  # what branches and loops return is remembered, not what is inside

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.values: set[Print] = set()
        self.used: set[Print] = set()
        self.users: dict[tuple[str, Print], Place] = {}  # the line that gave a value to an operator first
        self.done: list[_Step] = []
        self.inside: list[str] = []  # paths of the modules that are being called
        self.noting = False  # a result, in a hook: its fingerprint is computed under this mode
        self.results: list[tuple[str, list[Print]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.noting:
            return func(*args, **(kwargs or {}))
        result, taken = func(*args, **(kwargs or {})), prints((args, kwargs))
        self.used.update(taken)
        self.values.update(taken, prints(result))
        place = places.caller(sys._getframe(1)) if taken else None
        self.done.append(_Step(str(func), self.inside[-1] if self.inside else "", taken, prints(result), place))
        if place is not None:
            for value in taken:
                self.users.setdefault((str(func), value), place)
                self.users.setdefault(("", value), place)
        return result

    def watch(self, model: nn.Module, call: Callable[[], Any]) -> None:
        """Run the call and remember what it computes."""

        def enter(path: str) -> Callable[..., None]:
            return lambda module, args: self.inside.append(path)

        def leave(path: str) -> Callable[..., None]:
            def note(module: nn.Module, args: Any, result: Any) -> None:
                self.noting = True
                self.results.append((path, prints(result)))
                self.noting = False
                self.inside.pop()

            return note

        named = list(model.named_modules())
        handles = [module.register_forward_pre_hook(enter(path)) for path, module in named]
        handles += [module.register_forward_hook(leave(path)) for path, module in named]
        try:
            with torch.compiler.set_stance("force_eager"), self:  # see `Reference.result`
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
        self.taken: dict[torch.fx.Node, list[Print]] = {}  # by those that parted or are fed
        self.made: dict[Print, torch.fx.Node] = {}  # the node that computes a value first

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        found = prints(result)
        self.values.update(found)
        if n.op == "placeholder":
            self.known.update(found)
        elif n.op == "call_function":
            for value in found:
                self.made.setdefault(value, n)
            if not self.known.issuperset(found):
                self._note_strange(n)
        return result

    def _note_strange(self, n: torch.fx.Node) -> None:
        self.strange.add(n)
        tensors = {node for node in n.all_input_nodes if _tensors(self.env.get(node))}
        if not tensors:  # such as a mask that eager does without, which says nothing about what follows
            self.sources.add(n)
        elif self.strange.isdisjoint(tensors):
            self.parted.append(n)
        elif self.strange & tensors <= self.sources:
            self.fed.append(n)
        if n in (*self.parted[-1:], *self.fed[-1:]):
            self.taken[n] = prints([self.env.get(node) for node in n.all_input_nodes])


class _Computed(torch.fx.Interpreter):
    """Runs a program node by node and notes what the nodes compute, but not what they are given."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.values: set[Print] = set()

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        if n.op == "call_function":
            self.values.update(prints(result))
        return result


def _without_gradients(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    with torch.no_grad():
        return function(*args)


def parting(
    model: nn.Module,
    call: Callable[[], Any],
    program: ExportedProgram,
    flat: Iterable[Any],
    called: Called = _without_gradients,
) -> Parting | None:
    """Where the program's call parts from the eager one; ``None`` where that cannot be seen.

    Args:
        model: The eager model.
        call: Calls it.
        program: The program that returns something else.
        flat: The flattened arguments of the same call.
        called: Calls the program as the eager model is called: without gradients, or with the same random numbers.
    """
    eager = _Eager()
    eager.values.update(prints((list(model.parameters()), list(model.buffers()))))
    runner = _Program(program.module(check_guards=False), eager.values)
    try:
        with torch.no_grad() if called is _without_gradients else contextlib.nullcontext():
            eager.watch(model, call)
        called(runner.run, list(flat))
    except Exception:
        return None
    return _judge(model, eager, runner)


def values_of(program: ExportedProgram, flat: Iterable[Any], called: Called = _without_gradients) -> set[Print]:
    """Fingerprints of what the nodes of a program compute in a call."""
    runner = _Computed(program.module(check_guards=False))
    called(runner.run, list(flat))
    return runner.values


def parted_from(
    known: Iterable[Print], program: ExportedProgram, flat: Iterable[Any], called: Called = _without_gradients
) -> Parting | None:
    """Where a program parts from one that it should be, by what the nodes of that one compute in the same call.

    Args:
        known: What `values_of` returned of the other.
        program: The program that returns something else.
        flat: The flattened arguments of the call.
        called: As for `parting`.
    """
    runner = _Program(program.module(check_guards=False), set(known))
    try:
        called(runner.run, list(flat))
    except Exception:
        return None
    parted = runner.parted or runner.fed
    return innermost(parted[0]) if parted else None


def _judge(model: nn.Module, eager: _Eager, runner: _Program) -> Parting | None:
    parted = runner.parted or runner.fed
    nodes: list[torch.fx.Node] = list(runner.module.graph.nodes)  # type: ignore[union-attr, arg-type]
    first = _first_names(model)
    paths = {node: {first.get(path, path) for path in _paths(node)} for node in nodes}
    kept = {path for node in nodes for path in paths[node]}
    for path, found in eager.results:
        missing = set(found) - runner.values
        if path not in kept or not missing:
            continue
        inside = [node for node in parted if path in paths[node]]
        if inside:
            return _placed(_of_node(inside[0], path, model), inside[0], eager, runner)
        known = [node for node in nodes if path in paths[node]]
        # All that is computed inside is right, so something is not computed. What nobody uses need not be.
        if path and missing & eager.used and runner.strange.isdisjoint(known):
            return dataclasses.replace(_of_node(known[-1], path, model), left_out=True)
    if parted:
        return _placed(innermost(parted[0], model), parted[0], eager, runner)
    return _lacking(model, eager, runner)


def _lacking(model: nn.Module, eager: _Eager, runner: _Program) -> Parting | None:
    """Where eager computes what the program does not, if all that the program computes is right."""
    if not eager.results or runner.values.issuperset(eager.results[-1][1]):
        return None
    for i, step in enumerate(eager.done):
        after = next((runner.made[value] for value in step.taken if value in runner.made), None)
        if (
            after is not None
            and runner.values.issuperset(step.taken)
            and runner.values.isdisjoint(step.returned)
            and not _rejoins(i, eager, runner)
        ):
            found = _of_node(after, step.module, model)
            return dataclasses.replace(found, place=step.place, left_out=True, lacks=step.operator)
    return None


def _rejoins(i: int, eager: _Eager, runner: _Program) -> bool:
    """Whether the program has what follows from an operator, which is then one of several that stand for a node."""
    follows = set(eager.done[i].returned)
    for step in eager.done[i + 1 :]:
        if not follows.isdisjoint(step.taken):
            if not runner.values.isdisjoint(step.returned):
                return True
            follows.update(step.returned)
    return False


def _first_names(model: nn.Module) -> dict[str, str]:
    """The first name of the module that each path of one leads to: a module may be in several places."""
    first: dict[int, str] = {}
    return {path: first.setdefault(id(m), path) for path, m in model.named_modules(remove_duplicate=False)}


def innermost(node: torch.fx.Node, model: nn.Module | None = None) -> Parting:
    """The parting at a node, in the innermost module that it was captured in."""
    return _of_node(node, next(iter(reversed(_paths(node))), ""), model)


def _of_node(node: torch.fx.Node, path: str, model: nn.Module | None = None) -> Parting:
    """The parting at a node; the class of the module is what the model has there, or what the capture noted."""
    try:
        kind = type(model.get_submodule(path)).__name__ if model is not None else _kinds(node)[path]
    except (AttributeError, KeyError):
        kind = "a module that is gone"
    return Parting(path, kind, node.name, str(node.target), line_of(node))


def _placed(found: Parting, node: torch.fx.Node, eager: _Eager, runner: _Program) -> Parting:
    """The parting with a line: where the capture noted none, that at which eager gives an operator the same value."""
    if found.place is not None:
        return found
    taken = runner.taken.get(node, [])
    lines = [eager.users.get((func, value)) for func in (str(node.target), "") for value in taken]
    return dataclasses.replace(found, place=next((line for line in lines if line is not None), None))


def line_in_module(program: ExportedProgram, path: str) -> Place | None:
    """The first line of the user's that a node which was captured in this module has."""
    lines = (line_of(node) for node in program.graph.nodes if path in _paths(node))
    return next((line for line in lines if line is not None), None)


def line_of(node: torch.fx.Node) -> Place | None:
    """The innermost line of the user's in the stack that was recorded for a node."""
    frames = [(file, int(line)) for file, line in FRAME.findall(node.stack_trace or "")]
    return places.of_frames(reversed(frames))


def _paths(node: torch.fx.Node) -> list[str]:
    """Paths of the modules that the node was captured in, outermost first."""
    return list(_kinds(node))


def _kinds(node: torch.fx.Node) -> dict[str, str]:
    """The same with the names of their classes; further calls of one module are not told apart."""
    stack = (node.meta.get("nn_module_stack") or {}).values()
    named = ((re.sub(r"@\d+$", "", str(path)), getattr(kind, "__qualname__", str(kind))) for path, kind in stack)
    return {path: kind.rpartition(".")[2] for path, kind in named}


def prints(tree: Any) -> list[Print]:
    """Fingerprints of the tensors in a tree that hold data: equal for equal shape, dtype and values."""
    return [fingerprint(leaf) for leaf in _tensors(tree)]


def _tensors(tree: Any) -> list[torch.Tensor]:
    leaves = pytree.tree_leaves(tree)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and holds_data(leaf)]


def holds_data(tensor: torch.Tensor) -> bool:
    """Whether a tensor has a fingerprint: it is plain, and has values."""
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
