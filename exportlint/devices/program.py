"""Programs in a canonical form, in which two captures of one model are equal when they compute the same.

Names, devices, nodes that only lay out memory, checks and dead code are left out. A node is known by what it computes:
its operator, its constants and, in turn, the nodes that it reads.
"""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from exportlint import places
from exportlint.devices.second import to_cpu

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch.export import ExportedProgram

    from exportlint.places import Place

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
# Operators that give back their first argument, laid out otherwise at most.
_LAYOUT = frozenset({"contiguous", "clone", "alias", "detach", "detach_", "lift_fresh", "lift_fresh_copy"})
_CASTS = frozenset({"to", "_to_copy", "type_as"})
CHECKS = frozenset(
    {
        "_assert_tensor_metadata",
        "_assert_scalar",
        "_assert_async",
        "sym_constrain_range",
        "sym_constrain_range_for_size",
    }
)
_LAYOUT_ARGUMENTS = frozenset({"memory_format", "layout", "pin_memory"})


@dataclass(frozen=True, slots=True)
class Step:
    """A live node of a program.

    Attributes:
        key: Equal for nodes that compute the same from the same.
        node: The node.
        at: Its place among the steps.
        cast: Whether it only casts, where dtypes do not count; its key is that of what it casts.
    """

    key: Any
    node: torch.fx.Node
    at: int
    cast: bool = False

    @property
    def operator(self) -> str:
        """The operator, such as ``aten.add.Tensor``."""
        return str(self.node.target)


def place_of(node: torch.fx.Node) -> Place | None:
    """The innermost line of the node that is the user's."""
    frames = [(m["file"], int(m["line"])) for m in _FRAME.finditer(node.meta.get("stack_trace") or "")]
    return places.of_frames(reversed(frames))


def base_name(node: torch.fx.Node) -> str:
    """The operator without its namespace and overload; empty for what is no operator."""
    return getattr(node.target, "__name__", "").partition(".")[0] if node.op == "call_function" else ""


def graph_modules(program: ExportedProgram) -> Iterator[torch.fx.GraphModule]:
    """The program's graph and its nested ones."""
    return (module for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule))


def canonical(program: ExportedProgram, *, dtypes: bool = True) -> list[Step]:
    """The live steps of a program and of its nested graphs, in order: the calls, and what is returned.

    Args:
        program: The program.
        dtypes: Whether float32 and bfloat16 are two dtypes. Where they are one, a cast between them computes nothing.
    """
    signature = program.graph_signature
    targets = {spec.arg.name: (spec.kind.name, spec.target) for spec in signature.input_specs}
    inputs: dict[str, Any] = {}
    for position, spec in enumerate(signature.input_specs):
        kind, target = targets[spec.arg.name]
        constant = program.constants.get(target) if target is not None else None
        if kind == "CONSTANT_TENSOR" and isinstance(constant, torch.Tensor):
            inputs[spec.arg.name] = (kind, _value(constant) if dtypes else _sizes(constant))
        else:
            inputs[spec.arg.name] = (kind, target or position)
    steps: list[Step] = []
    _walk(program.graph_module, inputs, steps, _Leaves(dtypes))
    return steps


def _sizes(tensor: torch.Tensor) -> tuple[int | str, ...]:
    """The shape; a size of a capture that is over has no number."""
    return tuple(size if isinstance(size, int) else "?" for size in tensor.shape)


def _value(tensor: torch.Tensor) -> Any:
    """What tells the numbers of a constant tensor; its shape only, where it holds none."""
    from torch._subclasses.fake_tensor import FakeTensor

    tensor = to_cpu(tensor)
    about = (str(tensor.dtype), _sizes(tensor))
    if isinstance(tensor, FakeTensor) or tensor.device.type != "cpu" or tensor.is_sparse:
        return about
    plain = tensor.detach().contiguous().flatten().view(torch.uint8)
    try:
        start = plain.data_ptr()
    except RuntimeError:  # of a transform of functions, which is over
        return about
    return (*about, hash(ctypes.string_at(start, plain.numel())))  # numpy need not be there


def _walk(module: torch.fx.GraphModule, inputs: dict[str, Any], steps: list[Step], leaves: _Leaves) -> int:
    """Append the steps of the graph; returns the key of its output."""
    keys: dict[torch.fx.Node, Any] = {}
    live = _live(module.graph)
    output = 0
    for number, node in enumerate(n for n in module.graph.nodes if n in live):
        if node.op == "placeholder":
            keys[node] = inputs.get(node.name, ("placeholder", number))
        elif node.op == "get_attr":
            inner = getattr(module, str(node.target), None)
            nested = isinstance(inner, torch.fx.GraphModule)
            keys[node] = _walk(inner, {}, steps, leaves) if nested else str(node.target)  # type: ignore[arg-type]
        elif node.op == "output":
            output = hash(("output", *leaves.arguments(node, keys)))
            steps.append(Step(output, node, len(steps)))
        elif not leaves.dtypes and _only_casts(node):
            keys[node] = keys[node.args[0]]
            steps.append(Step(keys[node], node, len(steps), cast=True))
        elif (base_name(node) in _LAYOUT and isinstance(node.args[0], torch.fx.Node)) or _only_moves(node):
            keys[node] = keys[node.args[0]]
        else:
            keys[node] = hash((str(node.target), *leaves.arguments(node, keys)))
            steps.append(Step(keys[node], node, len(steps)))
    return output


def _only_casts(node: torch.fx.Node) -> bool:
    """Whether the node gives back its first argument, in float32 or bfloat16 as before."""
    before, after = _cast_dtypes(node)
    return before in _FLOATS and after in _FLOATS


def _only_moves(node: torch.fx.Node) -> bool:
    """Whether the node gives back its first argument in its dtype, on whatever device."""
    before, after = _cast_dtypes(node)
    return before is not None and before == after


def _cast_dtypes(node: torch.fx.Node) -> tuple[torch.dtype | None, torch.dtype | None]:
    """The dtypes of what a node that may cast gets and gives; none for other nodes."""
    source = node.args[0] if base_name(node) in _CASTS and node.args else None
    if not isinstance(source, torch.fx.Node):
        return None, None
    before, after = source.meta.get("val"), node.meta.get("val")
    return getattr(before, "dtype", None), getattr(after, "dtype", None)


def _live(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """The nodes that the output needs, and those that write into their arguments."""
    live: set[torch.fx.Node] = set()
    waiting = [node for node in graph.nodes if node.op in ("output", "placeholder") or _writes(node)]
    while waiting:
        node = waiting.pop()
        if node not in live:
            live.add(node)
            waiting.extend(node.all_input_nodes)
    return live


def _writes(node: torch.fx.Node) -> bool:
    if node.op != "call_function" or base_name(node) in CHECKS:
        return False
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


@dataclass(frozen=True, slots=True)
class _Leaves:
    """How arguments are told apart."""

    dtypes: bool

    def arguments(self, node: torch.fx.Node, keys: dict[torch.fx.Node, Any]) -> tuple[Any, ...]:
        """What tells the arguments of a node, given the keys of those before it."""
        kwargs = {name: value for name, value in node.kwargs.items() if name not in _LAYOUT_ARGUMENTS}
        args = node.args[1:] if str(node.target) == "wrap_with_autocast" else node.args  # the first is a device type
        leaves, spec = pytree.tree_flatten((args, kwargs))
        return (str(spec), *(self._leaf(leaf, keys) for leaf in leaves))

    def _leaf(self, leaf: Any, keys: dict[torch.fx.Node, Any]) -> Any:
        if isinstance(leaf, torch.fx.Node):
            return keys[leaf]
        if isinstance(leaf, torch.device):
            return "device"
        return "dtype" if not self.dtypes and _of_dtype(leaf) else repr(leaf)


_FLOATS = (torch.float32, torch.bfloat16)
# Numbers that code takes from a dtype, such as the lowest one for a mask.
_LIMITS = frozenset(getattr(torch.finfo(dtype), name) for dtype in _FLOATS for name in ("min", "max", "eps", "tiny"))


def _of_dtype(leaf: Any) -> bool:
    """Whether an argument is a dtype, or a limit of one."""
    return leaf in _FLOATS if isinstance(leaf, torch.dtype) else isinstance(leaf, float) and leaf in _LIMITS


def of_dtypes(node: torch.fx.Node) -> tuple[torch.dtype | float, ...]:
    """The dtypes, and the limits of dtypes, among the arguments of a node."""
    return tuple(leaf for leaf in pytree.arg_tree_leaves(*node.args, **node.kwargs) if _of_dtype(leaf))


@dataclass(frozen=True, slots=True)
class Unlike:
    """Where two programs part.

    Attributes:
        ours: The first step of the first program that the second lacks.
        theirs: The first step of the second program that the first lacks.
    """

    ours: Step | None
    theirs: Step | None

    @property
    def words(self) -> str:
        """What differs, in words."""
        ours, theirs = (None if step is None else step.operator for step in (self.ours, self.theirs))
        if ours == theirs:
            return "other results are returned" if ours == "output" else f"{ours} has other arguments"
        return f"{ours or 'nothing'} in one program, {theirs or 'nothing'} in the other"

    @property
    def place(self) -> Place | None:
        """The line of the earlier step that has one."""
        steps = sorted((step for step in (self.ours, self.theirs) if step is not None), key=lambda step: step.at)
        return next((place for place in (place_of(step.node) for step in steps) if place is not None), None)


def unlike(ours: list[Step], theirs: list[Step]) -> Unlike | None:
    """Where two canonical programs part; `None` when they are the same."""
    ours, theirs = ([step for step in steps if not step.cast] for steps in (ours, theirs))
    left, right = Counter(step.key for step in ours), Counter(step.key for step in theirs)
    if left == right:
        return None
    first, second = _beyond(ours, right), _beyond(theirs, left)
    calls = [step for step in (*first, *second) if step.node.op != "output"]
    firsts = (next((s for s in steps if not calls or s.node.op != "output"), None) for steps in (first, second))
    return Unlike(*firsts)


def _beyond(steps: list[Step], known: Counter[Any]) -> list[Step]:
    """The steps that are more than those known."""
    left = known.copy()
    found = []
    for step in steps:
        left[step.key] -= 1
        if left[step.key] < 0:
            found.append(step)
    return found
