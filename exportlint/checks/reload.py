"""The check ``reload``: save the program, then load and run it in a process that lacks the model's source.

The first half runs beside the model and writes the program, the flattened arguments and the flattened result that the
program gives there; whether that is the eager model's is for the other checks to say. The file is written twice, since
caches and deltas want the same bytes. The second half is `loader`, in another process, and in the interpreters of other
environments that the caller names.

A class that inputs are made of belongs to whoever calls the program, so the loader is given a stand-in for it, and the
need is named as information. A class of the outputs is the program's own to make: without it the program cannot be
loaded.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import filecmp
import inspect
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exportlint import blame, places
from exportlint.checks import uncaptured
from exportlint.checks.context import flat_call, result_of, unchanged
from exportlint.checks.loader import CALL, PROGRAM
from exportlint.findings import CheckResult, severity
from exportlint.places import Place
from exportlint.text import listed, size
from exportlint.torch_hooks import serialisation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.export import ExportedProgram

    from exportlint.checks.context import Context
    from exportlint.findings import Finding, Outcome, Outcomes, Result

NAME = "reload"
KNOWN_MODULES = frozenset({"builtins", "collections", "torch"})
MOST_COMPARED = 2**28  # bytes of a file that is saved twice
FEW = 3
DENSE = "Keep the values and indices as dense buffers, and make the tensor of another layout from them in forward."
PENDING = "saved"  # the reason of a result whose second half is still to come


def run(ctx: Context) -> CheckResult:
    """The first half: a result with the reason `PENDING` when the program was saved."""
    import torch

    try:
        program = ctx.program()
    except Exception as error:
        return uncaptured.result(NAME, error)
    try:
        ctx.stage("run of the program")
        expected = result_of(program, ctx.example(), ctx.module())
    except Exception as error:
        blame.pass_on_memory_error(error)
        reason = f"the program does not run: {blame.words(error)}"
        return CheckResult(name=NAME, outcome="not_checked", reason=reason)
    ctx.stage("save")
    began = time.monotonic()
    try:
        torch.export.save(program, ctx.path(PROGRAM))
    except Exception as error:
        blame.pass_on_memory_error(error)
        return _not_saved(ctx, program, error)
    notes = (
        f"{size(ctx.path(PROGRAM).stat().st_size)}, saved in {time.monotonic() - began:.2f} s",
        *_unstable(ctx, program),
    )
    torch.save(record(ctx, expected, _values(ctx, program)), ctx.path(CALL))
    return CheckResult(name=NAME, outcome="not_checked", reason=PENDING, findings=_suspect(ctx, program), notes=notes)


def record(ctx: Context, expected: Any, values: Sequence[Any] = ()) -> dict[str, Any]:
    """What the loader needs to call a program and to compare.

    Args:
        ctx: The case, whose example is the call.
        expected: The result of that call.
        values: What tells where values part.
    """
    from torch.utils import _pytree as pytree

    return {
        "inputs": [plain(leaf) for leaf in pytree.tree_leaves(ctx.example())],
        "expected": [plain(leaf) for leaf in pytree.tree_leaves(expected)],
        "tolerance": ctx.tolerance,
        "classes": described_classes(ctx),
        "values": values,
    }


def _unstable(ctx: Context, program: ExportedProgram) -> tuple[str, ...]:
    """What is not the same byte for byte when the program is saved once more under the same file name, if anything."""
    import torch

    first, again = ctx.path(PROGRAM), ctx.path("again") / PROGRAM
    if first.stat().st_size > MOST_COMPARED:
        return (f"not saved once more: larger than {size(MOST_COMPARED)}",)
    again.parent.mkdir(exist_ok=True)
    with serialisation.quick():
        torch.export.save(program, again)
    if filecmp.cmp(first, again, shallow=False):
        return ()
    with zipfile.ZipFile(first) as one, zipfile.ZipFile(again) as other:
        names = dict.fromkeys([*one.namelist(), *other.namelist()])
        inside = [set(one.namelist()), set(other.namelist())]
        parts = [n for n in names if not all(n in found for found in inside) or one.read(n) != other.read(n)]
    where = ", ".join(name.partition("/")[2] for name in parts[:FEW]) or "the order of its parts"
    return (f"a file that is saved once more under this name is another: {where}",)


def _values(ctx: Context, program: ExportedProgram) -> list[tuple[Any, ...]]:
    """Fingerprints of what the program computes in the example call, by which the loaded one tells where it parts."""
    from torch.utils import _pytree as pytree

    from exportlint.parity.parting import values_of

    try:
        with unchanged(program):
            return sorted(values_of(program, pytree.tree_leaves(ctx.example()), flat_call), key=str)
    except Exception:
        return []


def _input_classes(ctx: Context) -> list[type]:
    """Classes of the user's that the inputs are made of."""
    from torch.utils import _pytree as pytree

    return sorted(_custom_types(pytree.tree_structure(ctx.example())), key=lambda cls: cls.__qualname__)


def described_classes(ctx: Context) -> list[dict[str, Any]]:
    """What the loader needs to make stand-ins for the classes of the inputs."""
    return [described for cls in _input_classes(ctx) if (described := _described(cls))]


def _described(cls: type) -> dict[str, Any] | None:
    """What the loader needs to make a stand-in; ``None`` for a class that is no registered dataclass."""
    from torch.utils import _pytree as pytree

    known = pytree.SUPPORTED_SERIALIZED_TYPES.get(cls)
    if known is None or not dataclasses.is_dataclass(cls) or "." in cls.__qualname__:
        return None
    fields = [field.name for field in dataclasses.fields(cls)]
    return {"module": cls.__module__, "name": cls.__name__, "fields": fields, "serialised": known.serialized_type_name}


def plain(leaf: Any) -> Any:
    """A tensor without its graph, or a plain value; anything else by its words, which compares as different."""
    import torch

    if isinstance(leaf, torch.Tensor):
        return leaf.detach().as_subclass(torch.Tensor) if type(leaf) is not torch.Tensor else leaf.detach()
    return leaf if isinstance(leaf, (int, float, complex, bool, str, type(None))) else repr(leaf)


def _not_saved(ctx: Context, program: ExportedProgram, error: Exception) -> CheckResult:
    """The result for a program that torch does not save: where torch itself lacks the means, nothing can be checked.

    A tensor of a layout that it does not write is the model's to keep otherwise.
    """
    reason = f"the program cannot be saved: {blame.words(error)}"
    unwritten = _unwritten(ctx, program)
    if unwritten is not None:
        message, place = unwritten
        held = blame.finding("EXP701", message, place, outcome="breaks", rewrite=DENSE, evidence=reason)
        return CheckResult(name=NAME, outcome="failed", reason=reason, findings=(held,))
    lacks = type(error).__name__ in ("NotImplementedError", "SerializeError")
    message = "torch cannot save this program" if lacks else "the program cannot be saved"
    outcome: Result | None = None if lacks else "breaks"
    place = _place_of_custom(ctx) or ctx.head()
    found = blame.finding("EXP701", message, place, outcome=outcome, evidence=reason)
    return CheckResult(name=NAME, outcome="not_checked" if lacks else "failed", reason=reason, findings=(found,))


def _unwritten(ctx: Context, program: ExportedProgram) -> tuple[str, Place | None] | None:
    """The first tensor in the program's state whose layout has no memory that is written, in words, and its line."""
    import torch

    held = {**program.state_dict, **program.constants}
    for name, tensor in held.items():
        if isinstance(tensor, torch.Tensor) and tensor.layout is not torch.strided:
            owner, _, attribute = name.rpartition(".")
            model = ctx.build()
            module = dict(model.named_modules()).get(owner, model)
            message = f"the program cannot be saved: torch.export.save does not write {name}, which is {tensor.layout}"
            return message, blame.assignment_of(type(module), attribute) or ctx.head()
    return None


def _suspect(ctx: Context, program: ExportedProgram) -> tuple[Finding, ...]:
    """The finding to report if the second half fails, and what whoever loads the program needs in any case."""
    names, place = _operators(program)
    needed = f", which registers {listed(names, FEW)}" if names else ""
    message = f"the saved program cannot be loaded without the model's source{needed}"
    place = _place_of_custom(ctx) or place or ctx.head()
    found = blame.finding("EXP701", message, place, outcome="unportable")
    needs = [
        blame.finding(
            "EXP701",
            f"whoever loads the program needs the class {cls.__name__}, of which an input is made",
            blame.definition_of(cls),
            outcome=None,
            rewrite=f"Keep {cls.__name__} in a module of its own that is shipped with the program.",
        )
        for cls in _input_classes(ctx)
        if _described(cls)
    ]
    return (found, *needs)


def _operators(program: ExportedProgram) -> tuple[list[str], Place | None]:
    """Operators that torch itself does not have, and the line of the first call of one."""
    from exportlint.checks.opset.facts import kind_of, nodes
    from exportlint.parity.parting import line_of

    found = [node for node in nodes(program) if kind_of(node) == "custom"]
    lines = (place for node in found if (place := line_of(node)) is not None)
    return [f"`{name}`" for name in dict.fromkeys(str(node.target) for node in found)], next(lines, None)


def conclude(first: CheckResult, loaded: dict[str, Any] | None, ending: str, seconds: float) -> CheckResult:
    """The result of both halves.

    Args:
        first: The first half, with the finding to report in case.
        loaded: What `loader.load` returned; ``None`` when its process died.
        ending: How that process ended, in words.
        seconds: Time that both halves took.
    """
    if loaded is not None and loaded["error"] is None:
        reason = f"loads in {loaded['seconds']:.1f} s"
        needs = tuple(f for f in first.findings if f.severity == "info")
        return CheckResult(
            name=NAME, outcome="passed", reason=reason, seconds=seconds, findings=needs, notes=first.notes
        )
    outcome: Outcome
    if loaded is None:
        outcome, reason = "crashed", f"the process that loads the program {ending}"
    else:
        outcome, reason = "failed", f"{loaded['step']}: {loaded['error']}"
    findings = tuple(dataclasses.replace(f, evidence=reason) for f in first.findings if f.severity != "info")
    if loaded is not None and loaded["step"] == "compare":
        findings = tuple(_of_difference(f, loaded) for f in findings)
    return CheckResult(name=NAME, outcome=outcome, reason=reason, seconds=seconds, findings=findings, notes=first.notes)


def conclude_elsewhere(
    result: CheckResult, first: CheckResult, other: str, loaded: dict[str, Any] | None, ending: str
) -> CheckResult:
    """The result with what another environment made of the same file.

    Args:
        result: What is known so far.
        first: The first half, with the finding to report in case.
        other: The environment, in words.
        loaded: What `loader.load` returned there; ``None`` when its process died.
        ending: How that process ended, in words.
    """
    if loaded is not None and loaded["error"] is None:
        note = f"loads in {loaded['seconds']:.1f} s with {other}, and computes the same"
        return dataclasses.replace(result, notes=(*result.notes, note))
    reason = f"the process {ending}" if loaded is None else f"{loaded['step']}: {loaded['error']}"
    if reason == result.reason:
        return dataclasses.replace(result, notes=(*result.notes, f"the same with {other}"))
    findings = tuple(
        dataclasses.replace(f, message=f"the saved program cannot be loaded with {other}", evidence=reason)
        for f in first.findings
        if f.severity != "info"
    )
    if loaded is not None and loaded["step"] == "compare":
        message = f"the program returns something else with {other}"
        findings = tuple(dataclasses.replace(_of_difference(f, loaded), message=message) for f in findings)
    if result.outcome == "passed":
        result = dataclasses.replace(result, outcome="failed", reason=f"with {other}: {reason}")
    return dataclasses.replace(result, findings=(*findings, *result.findings))


def _of_difference(suspect: Finding, loaded: dict[str, Any]) -> Finding:
    """The finding for a loaded program that returns something else, with where its values part."""
    silent: Outcomes = {"export": "silent"}
    message, where = "the program returns something else after save and load", loaded.get("where")
    found = dataclasses.replace(
        suspect, rule="EXP004", message=message, severity=severity(silent) or suspect.severity, outcomes=silent
    )
    if where is None:
        return found
    evidence = f"{found.evidence}; {where['words']}"
    if where["place"] is None:
        return dataclasses.replace(found, evidence=evidence)
    place = Place(*where["place"])
    evidence += f" at {places.display_path(place.file)}:{place.line}"
    return blame.finding(found.rule, message, place, outcome="silent", evidence=evidence)


def _place_of_custom(ctx: Context) -> Place | None:
    """Where a class among the inputs and outputs that torch does not know is returned, or registered."""
    from torch.utils import _pytree as pytree

    names = {t.__name__ for t in _custom_types(pytree.tree_structure((ctx.example(), ctx.expected())))}
    head = ctx.forward()
    if not names or head is None:
        return None
    tree = ast.parse(Path(head.file).read_bytes())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    returns = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return) and node.value is not None]
    for node in [*returns, *calls]:
        mentioned = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        if mentioned & names and (node in returns or "register" in ast.unparse(node.func)):  # type: ignore[attr-defined]
            return Place(head.file, node.lineno)
    return None


def _custom_types(spec: Any) -> set[type]:
    """The classes in a tree of arguments or results that come from the user's own modules."""
    # Of a named tuple, the class stands in the context.
    cls = spec.context if spec.type is collections.namedtuple else spec.type
    found = {cls} if inspect.isclass(cls) and cls.__module__.partition(".")[0] not in KNOWN_MODULES else set()
    for child in spec.children():
        found |= _custom_types(child)
    return found
