"""Patches for lines of libraries that make tensors on a device of their own: proposed where they were seen to help.

Such a line cannot be edited by who runs the model. A correction takes the device from something at hand in the
function: each candidate is tried on the second device, and the first with which the finding is gone is proposed.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exportlint.checks.context import call
from exportlint.checks.device.report import blame_origin
from exportlint.patching import patched
from exportlint.places import display_path, is_installed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.checks.context import Context
    from exportlint.checks.device.report import Report
    from exportlint.findings import Finding

RULES = frozenset({"EXP201", "EXP202"})
MOST_FINDINGS, MOST_TRIES = 3, 6
_ASKED = ("device", "dtype", "shape", "size", "to", "dim", "view", "ndim")  # of tensors, the surest first
_MOVES = frozenset({"cuda", "cpu", "xpu", "mps"})
ADVICE = (
    "The line is a library's. Export on the target device, or move the program with move_to_device_pass, or export "
    "under this patch: with exportlint.patched({}):"
)


def propose(ctx: Context, report: Report) -> None:
    """Give the findings in libraries a patch as their rewrite, where one is known to work."""
    mine = [(key, found) for key, found in report.findings.items() if found.rule in RULES and found.counts]
    installed = [(key, found) for key, found in mine if found.line and is_installed(found.file or "")]
    for key, found in installed[:MOST_FINDINGS]:
        for place, old, new in list(_candidates(found))[:MOST_TRIES]:
            ctx.stage(f"eager run on the second device with a patch of {found.place}")
            if _helps(ctx, found, (place, old, new)):
                arguments = ", ".join(map(repr, (place, old, new)))
                report.findings[key] = dataclasses.replace(found, rewrite=ADVICE.format(arguments))
                break


def _helps(ctx: Context, found: Finding, patch: tuple[str, str, str]) -> bool:
    """Whether the model runs on the second device under the patch, and no tensor of this line stays on the CPU."""
    from exportlint.devices import second
    from exportlint.devices.hooks import NAME
    from exportlint.devices.kept import find_kept
    from exportlint.devices.provenance import Provenance

    try:
        with patched(*patch):
            model, inputs = second.move_module(ctx.build()), second.to_second(ctx.example())
            provenance = Provenance(NAME, find_kept(model))
            with second.policy("record", provenance.origin) as mismatches, provenance:
                call(model, inputs)
    except Exception:
        return False
    blamed = [blame_origin(each.origin, each.place)[2] for each in mismatches]  # type: ignore[arg-type]
    return all(p is None or (display_path(p.file), p.line) != (found.file, found.line) for p in blamed)


def _candidates(found: Finding) -> Iterator[tuple[str, str, str]]:
    """Place, old and new text of corrections of the line."""
    file = os.path.realpath(found.file or "")
    module = next((n for n, m in list(sys.modules.items()) if _file(m) == file and not n.startswith("__")), None)
    try:
        source = Path(file).read_text(encoding="utf-8")
        tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError):
        return
    lines = source.splitlines()
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and found.line in range(n.lineno, _end(n) + 1)]
    for node in calls if module else ():
        for device in _devices(tree, node):
            with contextlib.suppress(UnicodeError, IndexError):
                edit = _edit(lines, node, device)
                if edit is not None:
                    yield (f"{module}:{edit[0]}", edit[1], edit[2])


def _file(module: Any) -> str:
    file = getattr(module, "__file__", None)
    return os.path.realpath(file) if isinstance(file, str) else ""


def _end(node: ast.expr) -> int:
    return node.end_lineno or node.lineno


def _devices(tree: ast.Module, node: ast.Call) -> list[str]:
    """Expressions for a device at hand: of what the function asks tensors' questions before the line, of parameters."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    around = [n for n in ast.walk(tree) if isinstance(n, kinds) and n.lineno <= node.lineno <= (n.end_lineno or 0)]
    if not around:
        return []
    function = min(around, key=lambda n: n.lineno)  # what an inner one sees, too
    arguments = [n.args for n in around]
    parameters = [a.arg for each in arguments for a in (*each.posonlyargs, *each.args, *each.kwonlyargs)]
    rank: dict[str, int] = {}
    asked = [n for n in ast.walk(function) if isinstance(n, ast.Attribute) and n.attr in _ASKED]
    for each in asked:
        name = each.value.id if isinstance(each.value, ast.Name) else ""
        if name in parameters or (name and each.lineno < node.lineno):
            rank[name] = min(rank.get(name, len(_ASKED)), _ASKED.index(each.attr))
    names = [name for name in sorted(rank, key=lambda name: rank[name]) if name not in ("self", "torch", "cls")]
    names += [name for name in parameters if name not in names and name not in ("self", "cls")]
    weights = ["next(self.parameters()).device"] if parameters[:1] == ["self"] else []
    return [*(f"{name}.device" for name in names[:3]), *weights]


def _edit(lines: list[str], node: ast.Call, device: str) -> tuple[int, str, str] | None:
    """The line, and its text before and after the device is written into the call; ``None`` where that is unknown."""
    given = next((k.value for k in node.keywords if k.arg == "device"), None)
    moved = [a for a in node.args[:1] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if name == "to" and moved:
        given = moved[0]
    if given is not None:
        return _splice(lines, (given.lineno, given.col_offset), (_end(given), given.end_col_offset or 0), device)
    end = (_end(node), node.end_col_offset or 0)
    if name in _MOVES and isinstance(node.func, ast.Attribute):
        start = node.func.value
        return _splice(lines, (_end(start), start.end_col_offset or 0), end, f".to({device})")
    before = lines[end[0] - 1].encode()[: end[1] - 1].decode().rstrip()
    comma = "" if before.endswith((",", "(")) or (not before and not node.args) else ", "
    if not before:
        comma = "" if lines[end[0] - 2].rstrip().endswith((",", "(")) else ", "
    return _splice(lines, (end[0], end[1] - 1), end, f"{comma}device={device})")


def _splice(lines: list[str], start: tuple[int, int], end: tuple[int, int], text: str) -> tuple[int, str, str] | None:
    """The whole line before and after bytes between two positions are replaced; ``None`` over several lines."""
    if start[0] != end[0]:
        return None
    raw = lines[start[0] - 1].encode()
    new = (raw[: start[1]] + text.encode() + raw[end[1] :]).decode()
    return start[0], lines[start[0] - 1].strip(), new.strip()
