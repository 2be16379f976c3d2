"""Load a saved program where the model's own packages cannot be imported, run it, and compare; in its own process.

It is a job of the worker server, or the main program of a fresh interpreter. Beside the standard library only torch,
what torch needs, and exportlint can be imported in it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.metadata
import json
import logging
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

    from torch.export import ExportedProgram

PROGRAM = "program.pt2"
CALL = "call.pt"
ELSEWHERE = "elsewhere.pt"  # the calls of programs that are to run on another device
MESSAGES = "loaded.jsonl"
SECOND = "second"
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

    def __init__(self, finders: Sequence[Any], allowed: frozenset[str]) -> None:
        self.finders = finders
        self.allowed = allowed

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


@functools.cache
def allowed_packages() -> frozenset[str]:
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
    return frozenset(names | set(ROOTS) | FURTHER)


def job(emit: Callable[[dict[str, Any]], None], folder: str, allowed: Sequence[str] = ()) -> None:
    """Load, run and compare; one message with what happened.

    Args:
        emit: Sends a message.
        folder: Where the program and its call are.
        allowed: What `allowed_packages` says, where it is known.
    """
    _leave_the_source(allowed)
    emit({"stage": "load"})
    emit({"loaded": load(Path(folder))})


def job_elsewhere(emit: Callable[[dict[str, Any]], None], folder: str, allowed: Sequence[str] = ()) -> None:
    """The same for programs of another device: one message with what happened to each, in the order of the record."""
    import torch

    _leave_the_source(allowed)
    emit({"stage": "load"})
    known = torch.load(Path(folder) / ELSEWHERE, weights_only=True)
    loaded = {
        program["how"]: {**_run(Path(folder) / program["file"], {**known, **program}), "suspect": program["suspect"]}
        for program in known["programs"]
    }
    emit({"loaded": loaded})


def _leave_the_source(allowed: Sequence[str]) -> None:
    sys.meta_path[:] = [OnlyTorch(tuple(sys.meta_path), frozenset(allowed) or allowed_packages())]
    os.chdir(tempfile.gettempdir())


def load(folder: Path) -> dict[str, Any]:
    """What happened: ``error`` in one line or ``None``, the step, the seconds that loading took."""
    import torch

    known = torch.load(folder / CALL, weights_only=True)
    _stand_ins(known)
    return _run(folder / PROGRAM, known)


def _run(file: Path, known: dict[str, Any]) -> dict[str, Any]:
    """Load a program, call it on the device that the record names, and compare."""
    import torch
    from torch.utils import _pytree as pytree

    from exportlint.checks.context import call
    from exportlint.parity.compare import compare
    from exportlint.torch_hooks import serialisation

    device, step = known.get("device"), "load"
    logged = _Logged()
    try:
        with _computing_on(device), logged:
            began = time.monotonic()
            with contextlib.nullcontext() if device is None else serialisation.quick():  # whose time nobody is told
                program = torch.export.load(file)
            seconds = time.monotonic() - began
            step = "run"
            inputs = _moved(pytree.tree_unflatten(known["inputs"], program.call_spec.in_spec), device)
            actual = call(program.module(), inputs)
        difference = compare(known["expected"], _brought_back(actual, device), **known["tolerance"])
    except Exception as error:
        return {"step": step, "error": _words(logged.error if logged.error is not None and step == "load" else error)}
    if difference is None:
        return {"step": "compare", "error": None, "seconds": seconds}
    return {"step": "compare", "error": str(difference), "seconds": seconds, "where": _where(program, known)}


class _Logged(logging.Handler):
    """Hears why a file cannot be loaded: torch logs the reason, and raises that it is in the log."""

    def __init__(self) -> None:
        super().__init__()
        self.error: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the exception that is logged."""
        error = record.exc_info[1] if record.exc_info else None
        while error is not None:  # the innermost reason: around it, torch writes out the node that it was at
            self.error, error = error, error.__cause__

    def __enter__(self) -> None:
        logging.getLogger("torch.export").addHandler(self)

    def __exit__(self, *_: object) -> None:
        logging.getLogger("torch.export").removeHandler(self)


def _words(error: BaseException) -> str:
    """The exception in one line: its class, and the first line of its message that says something."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {text}"[:300]


def _where(program: ExportedProgram, known: dict[str, Any]) -> dict[str, Any] | None:
    """Where a loaded program parts from the one that was saved: in words, and file and line where they are known."""
    from exportlint.checks.context import flat_call
    from exportlint.parity.parting import parted_from

    found = parted_from(known.get("values", ()), program, known["inputs"], flat_call) if known.get("values") else None
    if found is None:
        return None
    place = found.place and (found.place.file, found.place.line)
    return {"words": str(dataclasses.replace(found, place=None)), "place": place}


def _computing_on(device: str | None) -> contextlib.AbstractContextManager[Any]:
    """A context in which the device can be used; the second device stays registered."""
    if device != SECOND:
        return contextlib.nullcontext()
    from exportlint.devices import policy, second_device

    second_device()
    return policy("raise")


def _moved(inputs: Any, device: str | None) -> Any:
    from torch.utils import _pytree as pytree

    if device == SECOND:
        from exportlint.devices import to_second

        return to_second(inputs)
    import torch

    return inputs if device is None else pytree.tree_map_only(torch.Tensor, lambda t: t.to(device), inputs)


def _brought_back(result: Any, device: str | None) -> list[Any]:
    """The leaves of a result; of one that was computed elsewhere, its tensors, on the CPU."""
    from torch.utils import _pytree as pytree

    if device is None:
        return pytree.tree_leaves(result)
    import torch

    return [leaf.cpu() for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def _stand_ins(known: dict[str, Any]) -> None:
    for described in known["classes"]:
        stand_in(**described)


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


def main(folder: str, job_name: str = "job") -> None:
    """The main program of a fresh interpreter; its messages go to a file, since the program itself may print."""
    run = {"job": job, "job_elsewhere": job_elsewhere}[job_name]
    with (Path(folder) / MESSAGES).open("w", encoding="ascii") as file:
        run(lambda message: print(json.dumps(message), file=file, flush=True), folder)
