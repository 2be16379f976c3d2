"""What a program in core ATen holds that not every runtime takes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import ConstantArgument, OutputKind, TensorArgument
from torch.utils import _pytree as pytree

from exportlint.devices.program import CHECKS, base_name, graph_modules
from exportlint.parity.parting import line_of
from exportlint.text import counted, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torch.export import ExportedProgram

    from exportlint.checks.opset.profiles import Kind
    from exportlint.places import Place

OWN = frozenset({"aten", "prims", "prim", "higher_order"})  # namespaces of torch's own operators
UNBOUNDED = 2**31  # and above: nobody plans memory for such a size
MOST_LINES = 4


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that a runtime may not take.

    Attributes:
        kind: What it is.
        message: The same in a sentence.
        places: The lines that it comes from, the first one first.
        about: What else there is to say.
    """

    kind: Kind
    message: str
    places: tuple[Place, ...] = ()
    about: str = ""


def facts(program: ExportedProgram) -> list[Fact]:
    """Everything at once, operators first.

    Args:
        program: The program after its decompositions.
    """
    return [*_operators(program), *_sizes(program), *_complex(program), *_mutated(program), *_returned(program)]


def remarks(program: ExportedProgram) -> list[str]:
    """What a reader should know of dtypes: constants and weights of eight bytes an element."""
    tensors = {**program.state_dict, **program.constants}.items()
    many = [(name, t.dtype) for name, t in tensors if isinstance(t, torch.Tensor) and t.numel() > 1]
    found = []
    for dtype in (torch.float64, torch.int64):
        names = [name for name, other in many if other is dtype]
        if names:
            words = str(dtype).removeprefix("torch.")
            found.append(f"{counted(len(names), 'constant')} of {words}: {listed(names, 3)}")
    return found


def nodes(program: ExportedProgram) -> Iterator[torch.fx.Node]:
    """The calls of operators, those of nested graphs included."""
    for module in graph_modules(program):
        yield from (node for node in module.graph.nodes if node.op == "call_function")


def kind_of(node: torch.fx.Node) -> Kind | None:
    """Whether an operator is one that small runtimes may lack: torch's own, one of somebody else, or control flow."""
    target: Any = node.target
    if isinstance(target, torch._ops.HigherOrderOperator):
        return None if str(target) == "cond" else "control"
    if not isinstance(target, torch._ops.OpOverload) or base_name(node) in CHECKS:
        return None  # arithmetic with sizes, and assertions
    if target.namespace not in OWN:
        return "custom"
    return None if torch.Tag.core in target.tags else "operator"


_WORDS: dict[str, str] = {
    "operator": "`{}` is outside core ATen, the set of operators that small runtimes have",
    "custom": "`{}` is an operator of no runtime's: whoever runs the program needs its kernels",
    "control": "`{}` is control flow that not every runtime has",
}


def _operators(program: ExportedProgram) -> Iterator[Fact]:
    by_name: dict[tuple[Kind, str], list[torch.fx.Node]] = {}
    for node in nodes(program):
        kind = kind_of(node)
        if kind is not None:
            by_name.setdefault((kind, str(node.target)), []).append(node)
    for (kind, name), found in by_name.items():
        yield Fact(kind, _WORDS[kind].format(name), _lines(found), f"{counted(len(found), 'call')} in the program")


def _sizes(program: ExportedProgram) -> Iterator[Fact]:
    unbounded = {str(s) for s, found in program.range_constraints.items() if _is_unbounded(found.upper)}
    named = []
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder" and isinstance(value, torch.Tensor):
            named += [f"{node.name}.shape[{d}]" for d, size in enumerate(value.shape) if str(size) in unbounded]
    if named:
        about = f"a maximum in dynamic_shapes, such as Dim(min=1, max=1024), bounds it: {listed(named, MOST_LINES)}"
        yield Fact("unbounded", f"{counted(len(named), 'dimension')} of the inputs may be of any size", (), about)
    made = [node for node in nodes(program) if node.meta.get("unbacked_bindings")]
    if made:
        kind: Kind = "unbacked"
        message = "a size of a tensor depends on the data"
        bound = "no bound" if named else "a bound by the sizes of the inputs"
        yield Fact(kind, message, _lines(made), f"{counted(len(made), 'such size')}, with {bound}")


def _is_unbounded(upper: Any) -> bool:
    return bool(upper >= UNBOUNDED)  # of sympy's infinities, torch's own among them, too


def _complex(program: ExportedProgram) -> Iterator[Fact]:
    found = [node for node in nodes(program) if any(t.is_complex() for t in _tensors(node))]
    if found:
        about = f"{counted(len(found), 'call')} in the program"
        yield Fact("complex", "complex numbers are computed with", _lines(found), about)


def _lines(found: Iterable[torch.fx.Node]) -> tuple[Place, ...]:
    return tuple(dict.fromkeys(place for node in found if (place := line_of(node)) is not None))


def _tensors(node: torch.fx.Node) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(node.meta.get("val")) if isinstance(leaf, torch.Tensor)]


def _mutated(program: ExportedProgram) -> Iterator[Fact]:
    by_name = {node.name: node for node in program.graph.nodes}
    words: dict[OutputKind, tuple[Kind, str]] = {
        OutputKind.BUFFER_MUTATION: ("buffer", "a call changes the buffer `{}`"),
        OutputKind.USER_INPUT_MUTATION: ("input", "a call writes into its argument `{}`"),
    }
    for spec in program.graph_signature.output_specs:
        if spec.kind in words and isinstance(spec.arg, TensorArgument):
            kind, message = words[spec.kind]
            place = line_of(by_name[spec.arg.name]) if spec.arg.name in by_name else None
            yield Fact(kind, message.format(spec.target), () if place is None else (place,))


def _returned(program: ExportedProgram) -> Iterator[Fact]:
    for index, spec in enumerate(s for s in program.graph_signature.output_specs if s.kind is OutputKind.USER_OUTPUT):
        if isinstance(spec.arg, TensorArgument):
            continue
        constant = spec.arg.value if isinstance(spec.arg, ConstantArgument) else 0
        if constant is None:
            continue
        what = re.sub(r"Argument$", "", type(spec.arg).__name__)
        words = f"{constant!r:.40}" if what == "Constant" else f"a {what}"
        kind: Kind = "text" if isinstance(constant, str) else "number"
        yield Fact(kind, f"result {index} is no tensor but {words}")
