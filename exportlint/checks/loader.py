"""Load a saved program where the model's own packages cannot be imported, run it, and compare; in its own process.

It is a job of the worker server, or the main program of a fresh interpreter. Beside the standard library only torch,
what torch needs, and exportlint can be imported in it.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import re
import sys
import tempfile
import time
import types
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec

PROGRAM = "program.pt2"
CALL = "call.pt"
MESSAGES = "loaded.jsonl"
ROOTS = ("torch", "numpy", "exportlint")
# Imported by torch without being named among its requirements.
FURTHER = {
    "torchgen",
    "functorch",
    "mpmath",
    "markupsafe",
    "setuptools",
    "pkg_resources",
    "_distutils_hack",
    "triton",
    "caffe2",
}


class OnlyTorch(MetaPathFinder):
    """Finds what other finders find, unless it belongs to a package that torch does not need.

    To a package that is refused it looks as if it were not installed: torch itself probes for optional ones.
    """

    def __init__(self, finders: Sequence[Any]) -> None:
        self.finders = finders
        self.allowed = allowed_packages()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's spec, or ``None`` for a package that is refused."""
        top = fullname.partition(".")[0]
        if not (top in self.allowed or top in sys.stdlib_module_names or top.startswith("_")):
            return None
        for finder in self.finders:
            spec: ModuleSpec | None = finder.find_spec(fullname, path, target)
            if spec is not None:
                return spec
        return None


def allowed_packages() -> set[str]:
    """The import names of torch, of what it requires, and of exportlint."""
    wanted, todo = set(), list(ROOTS)
    while todo:
        name = re.split(r"[\s;\[<>=!~(]", todo.pop())[0].lower().replace("_", "-")
        if name in wanted:
            continue
        wanted.add(name)
        try:
            requires = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        todo += [line for line in requires if "extra ==" not in line]
    modules = importlib.metadata.packages_distributions()
    names = {module for module, owners in modules.items() if {o.lower().replace("_", "-") for o in owners} & wanted}
    return names | set(ROOTS) | FURTHER


def job(emit: Callable[[dict[str, Any]], None], folder: str) -> None:
    """Load, run and compare; one message with what happened."""
    sys.meta_path[:] = [OnlyTorch(tuple(sys.meta_path))]
    os.chdir(tempfile.gettempdir())
    emit({"stage": "load"})
    emit({"loaded": load(Path(folder))})


def load(folder: Path) -> dict[str, Any]:
    """What happened: ``error`` in one line or ``None``, the step, the seconds that loading took."""
    import torch
    from torch.utils import _pytree as pytree

    from exportlint.checks.context import call
    from exportlint.parity.compare import compare

    known = torch.load(folder / CALL, weights_only=True)
    for described in known["classes"]:
        stand_in(**described)
    step = "load"
    try:
        began = time.monotonic()
        program = torch.export.load(folder / PROGRAM)
        seconds = time.monotonic() - began
        step = "run"
        args, kwargs = pytree.tree_unflatten(known["inputs"], program.call_spec.in_spec)
        actual = call(program.module(), (args, kwargs))
        difference = compare(known["expected"], pytree.tree_leaves(actual), **known["tolerance"])
    except Exception as error:
        text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        return {"step": step, "error": f"{type(error).__name__}: {text}"[:300]}
    return {"step": "compare", "error": None if difference is None else str(difference), "seconds": seconds}


def stand_in(module: str, name: str, fields: list[str], serialised: str) -> None:
    """Make and register a dataclass in the place of one of the model's own, as its caller would have it."""
    import torch

    cls = dataclasses.make_dataclass(name, fields)
    cls.__module__ = module
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        sys.modules.setdefault(".".join(parts[:end]), types.ModuleType(".".join(parts[:end])))
    setattr(sys.modules[module], name, cls)
    torch.export.register_dataclass(cls, serialized_type_name=serialised)


def main(folder: str) -> None:
    """The main program of a fresh interpreter; its messages go to a file, since the program itself may print."""
    with (Path(folder) / MESSAGES).open("w", encoding="ascii") as file:
        job(lambda message: print(json.dumps(message), file=file, flush=True), folder)
