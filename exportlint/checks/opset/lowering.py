"""The runtimes themselves, where they are installed: the program is lowered and run."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from exportlint import blame
from exportlint.checks.opset.profiles import NEEDED, version

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch.export import ExportedProgram


@dataclass(frozen=True, slots=True)
class Lowered:
    """What became of a program.

    Attributes:
        name: The runtime.
        why_not: Why it was not tried; ``None`` where it was.
        error: What failed, in words.
        stage: Where.
        result: The tensors that it returned.
        words: The versions that did it.
    """

    name: str
    why_not: str | None = None
    error: str | None = None
    stage: str = ""
    result: tuple[Any, ...] = ()
    words: str = ""

    @property
    def ran(self) -> bool:
        """Whether the runtime took the program and ran it."""
        return self.why_not is None and self.error is None


def lower(name: str, program: ExportedProgram, flat: list[Any]) -> Lowered | None:
    """Lower a program for a runtime and run it there; ``None`` for one that another check is about.

    Args:
        name: The runtime.
        program: The program, which is left as it is.
        flat: Its flattened arguments.
    """
    if name not in NEEDED:
        return None
    missing = [package for package in NEEDED[name] if importlib.util.find_spec(package) is None]
    if missing:
        return Lowered(name, why_not=f"{' and '.join(missing)} not installed")
    words = ", ".join(f"{package} {version(package)}" for package in NEEDED[name])
    stage = "convert"
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            run = _MAKERS[name](copy.deepcopy(program))
            stage = "run"
            result = run([leaf for leaf in flat if isinstance(leaf, (torch.Tensor, int, float))])
    except Exception as error:
        blame.pass_on_memory_error(error)
        return Lowered(name, error=_words(error), stage=stage, words=words)
    return Lowered(name, result=tuple(leaf for leaf in pytree.tree_leaves(result)), words=words)


def _words(error: Exception) -> str:
    """The innermost reason, since converters wrap it in advice."""
    while error.__cause__ is not None and isinstance(error.__cause__, Exception):
        error = error.__cause__
    return blame.words(error)


def _onnx(program: ExportedProgram) -> Callable[[list[Any]], Any]:
    made: Any = torch.onnx.export(program, dynamo=True, verbose=False)
    return lambda flat: made(*flat)


def _executorch(program: ExportedProgram) -> Callable[[list[Any]], Any]:
    from executorch.exir import to_edge_transform_and_lower
    from executorch.runtime import Runtime

    made = to_edge_transform_and_lower(program).to_executorch()
    loaded = Runtime.get().load_program(made.buffer)
    method = loaded.load_method("forward")
    return lambda flat: (method.execute(flat), made, loaded)[0]  # which must live as long as it runs


_MAKERS: Mapping[str, Callable[[ExportedProgram], Callable[[list[Any]], Any]]] = {
    "onnx": _onnx,
    "executorch": _executorch,
}
