"""Run a saved program node by node; a job of a worker, since what a program calls may end its process.

Each node is told before it runs, so that the last one that was told is the one at which a process died.
"""

from __future__ import annotations

import importlib
import pickle
import re
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from torch.utils import _pytree as pytree

from exportlint import blame, places
from exportlint.checks.case import as_inputs
from exportlint.checks.context import seed_everything
from exportlint.parity.parting import FRAME
from exportlint.text import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torch.export import ExportedProgram

    from exportlint.checks.case import Inputs
    from exportlint.checks.isolation.job import Emit

CODE = re.compile(r'File "([^"]+)", line (\d+)[^\n]*\n +([^\n]+)')
MOST_SHOWN = 8  # values of one list
KINDS: dict[type, type] = {TensorArgument: torch.Tensor, SymIntArgument: int, SymFloatArgument: float}


class RefusedError(Exception):
    """The program cannot be replayed; the message is one line, fit for a user."""


def job(
    emit: Emit,
    file: str,
    inputs: str,
    imports: Sequence[str],
    *,
    guards: bool,
    needs: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Load a program and replay it; what cannot be done is a message of one line.

    Args:
        emit: Sends a message.
        file: The program.
        inputs: The file with its arguments; those that it was captured with where empty.
        imports: Modules to import first, such as those that register operators.
        guards: Whether the program looks at its arguments first.
        needs: Names of the ``operators`` and ``classes`` in the program, to tell which are missing.
    """
    emit({"stage": "loading"})
    try:
        for name in imports:
            _import(name)
        program = _program(file, needs or {})
        given = _inputs(inputs) if inputs else _captured_with(program)
        flat = _flat(program, given)
        module = program.module(check_guards=guards)
    except RefusedError as error:
        emit({"refused": str(error)})
        return
    replay(emit, module, flat)


def replay(emit: Emit, module: torch.fx.GraphModule, flat: Sequence[Any]) -> None:
    """Run the nodes one after the other; each is told, and what the one that fails was given.

    Args:
        emit: Sends a message.
        module: The program as a module.
        flat: Its arguments, flattened.
    """
    total = sum(node.op not in ("placeholder", "output", "get_attr") for node in module.graph.nodes)
    emit({"stage": "running", "nodes": total})
    told = _Told(emit, module)
    seed_everything()
    try:
        with torch.no_grad():
            result = told.run(*flat)
    except Exception as error:
        if told.running is None or blame.is_out_of_memory(error):
            raise
        emit({"failed": {**told.running, "error": blame.words(error)}})
        return
    emit({"outputs": [described(leaf) for leaf in pytree.tree_leaves(result)]})


class _Told(torch.fx.Interpreter):
    """Tells each node, before it runs and after."""

    def __init__(self, emit: Emit, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.emit, self.number = emit, 0
        self.running: dict[str, Any] | None = None
        self.undefined = False  # whether a NaN was told

    def run_node(self, n: torch.fx.Node) -> Any:
        """Run a node."""
        if n.op in ("placeholder", "output", "get_attr"):
            value = super().run_node(n)
            self.undefined = self.undefined or (n.op == "placeholder" and has_nan(value))
            return value
        self.number += 1
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        self.running = {
            "number": self.number,
            "name": n.name,
            "target": str(n.target),
            "line": line_of(n.stack_trace or ""),
            "arguments": _named_arguments(n, args, kwargs),
        }
        self.emit({"node": self.running})
        began = time.perf_counter()
        value = super().run_node(n)
        seconds = time.perf_counter() - began
        nan = not self.undefined and has_nan(value)
        self.undefined = self.undefined or nan
        self.emit({"ran": {"value": described(value), "seconds": seconds, "nan": nan}})
        return value


def line_of(trace: str) -> str:
    """The innermost line of the user's in a recorded stack, as ``file:line: code``; empty where none was recorded.

    The code is what was recorded, since the file may be another one here.
    """
    frames = [(file, int(line), code.strip()) for file, line, code in CODE.findall(trace)]
    frames = frames or [(file, int(line), "") for file, line in FRAME.findall(trace)]
    own = [frame for frame in frames if places.is_users(frame[0])] or frames
    if not own:
        return ""
    file, line, code = own[-1]
    return f"{places.display_path(file)}:{line}" + (f": {code}" if code else "")


def has_nan(value: Any) -> bool:
    """Whether a tensor in the value holds a NaN."""
    leaves = (leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor))
    return any(
        (leaf.is_floating_point() or leaf.is_complex()) and leaf.device.type != "meta" and bool(leaf.isnan().any())
        for leaf in leaves
    )


def described(value: Any) -> str:
    """Dtype and shape of a tensor, such as ``float32[2, 4]``, and its device where that is another than the CPU.

    The same of tensors in lists; the value of others.
    """
    if isinstance(value, torch.Tensor):
        where = f" on {value.device}" if value.device.type != "cpu" else ""
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}{where}"
    if isinstance(value, (list, tuple)):
        shown = [described(item) for item in value[:MOST_SHOWN]] + ["..."] * (len(value) > MOST_SHOWN)
        return f"({', '.join(shown)})" if isinstance(value, tuple) else f"[{', '.join(shown)}]"
    return repr(value)[:80]


def _named_arguments(node: torch.fx.Node, args: Sequence[Any], kwargs: dict[str, Any]) -> list[str]:
    """What a node is given, each under the name of the node that it comes from, or of the parameter."""
    named = []
    for written, value in zip(node.args, args, strict=True):
        name = f"{written.name} " if isinstance(written, torch.fx.Node) else ""
        named.append(name + described(value))
    return named + [f"{key}={described(value)}" for key, value in kwargs.items()]


def _import(name: str) -> None:
    sys.path.insert(0, str(Path.cwd()))
    try:
        importlib.import_module(name)
    except Exception as error:
        raise RefusedError(f"{name} cannot be imported: {blame.words(error)}") from error


def _program(file: str, needs: Mapping[str, Sequence[str]]) -> ExportedProgram:
    try:
        return torch.export.load(file)
    except Exception as error:
        traceback.print_exception(error)
        why = "; ".join(_missing(needs)) or blame.words(error)
        raise RefusedError(f"{file} cannot be loaded as a program: {why}") from error


def _missing(needs: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """What the program needs and nobody has registered: of that, torch's own error says nothing."""
    operators = [name for name in needs.get("operators", ()) if not _is_registered(name)]
    if operators:
        yield f"nobody has registered {listed(operators, MOST_SHOWN)}: give --import MODULE, which registers operators"
    known = pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE
    classes = [name for name in needs.get("classes", ()) if name not in known]
    if classes:
        yield f"nobody has registered the classes {listed(classes, MOST_SHOWN)}: give --import MODULE, which does"


def _is_registered(operator: str) -> bool:
    """Whether there is an operator such as ``aten::add.Tensor``."""
    namespace, _, name = operator.partition("::")
    name, _, overload = name.partition(".")
    if namespace == "higher_order":  # which are no operators of a namespace of their own
        return True
    try:
        return hasattr(getattr(getattr(torch.ops, namespace), name), overload or "default")
    except (AttributeError, RuntimeError):
        return False


def _inputs(file: str) -> Inputs:
    """The arguments that a file of ``torch.save`` holds, without running what it pickles."""
    try:
        made = torch.load(file, weights_only=True, map_location="cpu")
    except pickle.UnpicklingError as error:  # whose words advise to run what is pickled
        raise RefusedError(f"{file} holds no inputs: tensors, numbers and plain containers, by torch.save") from error
    except Exception as error:  # of what is no pickle, the words are those of a parser
        traceback.print_exception(error)
        why = "it is empty" if not Path(file).stat().st_size else "torch.save did not write it, or it is damaged"
        raise RefusedError(f"{file} holds no inputs: {why}") from error
    try:
        return as_inputs(made, f"{file}: the inputs")
    except TypeError as error:
        raise RefusedError(f"{file} holds no inputs: {blame.words(error)}") from error


def _captured_with(program: ExportedProgram) -> Inputs:
    if program.example_inputs is None:
        raise RefusedError("the program was saved without the inputs that it was captured with: give --inputs")
    args, kwargs = program.example_inputs
    return tuple(args), dict(kwargs)


def _flat(program: ExportedProgram, inputs: Inputs) -> list[Any]:
    """The arguments flattened, keywords in the order in which the program has them."""
    wanted = program.call_spec.in_spec
    args, kwargs = inputs
    if wanted is None:
        return list(pytree.tree_leaves(inputs))
    names = list(wanted.child(1).context)
    if set(names) == set(kwargs):
        kwargs = {name: kwargs[name] for name in names}
    flat, found = pytree.tree_flatten((args, kwargs))
    if found != wanted:
        raise RefusedError(f"the program takes {_words(wanted)}, and the inputs are {_words(found)}")
    _check_kinds(program, flat)
    return list(flat)


def _check_kinds(program: ExportedProgram, flat: Sequence[Any]) -> None:
    """Refuse what is no value of the kind that the program has: its guards and nodes fail on it in any way."""
    arguments = [spec.arg for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    if len(arguments) != len(flat):
        return
    for argument, value in zip(arguments, flat, strict=True):
        kind = KINDS.get(type(argument))
        if isinstance(argument, ConstantArgument):
            kind = type(argument.value)
        if kind is not None and not isinstance(value, kind):
            wanted = "None" if kind is type(None) else _kind_words(kind)
            raise RefusedError(f"the program takes {wanted} for {argument.name}, and not {described(value)}")


def _kind_words(kind: type) -> str:
    """``a tensor``, ``an int``."""
    name = "tensor" if kind is torch.Tensor else kind.__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _words(spec: Any) -> str:
    """The structure of a call: how many positional arguments, and the names of the others."""
    positional, names = spec.child(0).num_children, list(spec.child(1).context)
    given = [f"{positional} positional arguments" if positional != 1 else "1 positional argument"]
    given += [f"{', '.join(map(str, names))} by name"] if names else []
    return f"{' and '.join(given)} ({spec.num_leaves} values in all)"
