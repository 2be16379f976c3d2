"""The check ``aoti``: is the program compiled ahead of time by AOTInductor, and right where there is only torch?

The program is compiled into a package, which a fresh interpreter loads and runs: the example twice, since buffers may
change, then the second call where the program takes it. What it returns must be what the eager model returns, called
alike. A package holds no guards, so calls that the program refuses are not tried.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from exportlint import blame, places
from exportlint.checks import aoti_loader, inductor, uncaptured
from exportlint.checks.aoti_loader import CALLS, PACKAGE, RESULTS, SAID
from exportlint.checks.compiled_breaks import HERE
from exportlint.checks.context import call, fresh, unchanged
from exportlint.checks.isolation.client import environment
from exportlint.checks.isolation.job import signal_name
from exportlint.checks.state import remembered
from exportlint.findings import CheckResult
from exportlint.parity.compare import compare
from exportlint.text import said

if TYPE_CHECKING:
    from pathlib import Path

    from torch.export import ExportedProgram

    from exportlint.checks.case import Inputs
    from exportlint.checks.context import Context
    from exportlint.findings import Finding, Outcome, Result
    from exportlint.places import Place

NAME = "aoti"
SAME_CALLS = 2  # of the example, before any other call
BAKED = "the package does not see what the model changes here and reads in its next call"
MOST_SECONDS = 600  # of the process that loads, which the limits of the worker hold too


def run(ctx: Context) -> CheckResult:
    """Run the check."""
    try:
        program, calls = ctx.program(), _calls(ctx)
        expected = _eager(ctx, calls)
    except Exception as error:
        return uncaptured.result(NAME, error)
    if not ctx.settings.workdir:
        return _not_checked("there is no folder for a package")
    if not all(isinstance(leaf, torch.Tensor) for leaves in expected for leaf in leaves):
        return _not_checked("the model returns what is no tensor")
    try:
        torch.save(calls, ctx.path(CALLS))
        torch.load(ctx.path(CALLS), weights_only=True)
    except Exception as error:
        return _not_checked(f"the arguments hold what another process cannot load: {blame.words(error)}")
    ctx.stage("AOTInductor")
    began = time.monotonic()
    try:
        package(program, ctx.path(PACKAGE))
    except Exception as error:
        return _not_compiled(ctx, error)
    seconds = time.monotonic() - began
    ctx.stage("run of the package")
    return _judged(ctx, _loaded(ctx), expected, calls, seconds)


def package(program: ExportedProgram, path: Path) -> None:
    """Compile a program into a file.

    Raises:
        Exception: What TorchInductor raises.
    """
    with unchanged(program), torch.no_grad():
        torch._inductor.aoti_compile_and_package(
            program, package_path=str(path), inductor_configs=dict(inductor.OPTIONS)
        )


def _not_checked(reason: str) -> CheckResult:
    return CheckResult(name=NAME, outcome="not_checked", reason=reason)


def _calls(ctx: Context) -> list[Inputs]:
    """The calls that the package gets."""
    calls, second = [ctx.example() for _ in range(SAME_CALLS)], ctx.second_example()
    if second is not None:
        ctx.call_second(second)
        try:
            with unchanged(ctx.program()):
                call(ctx.program().module(), fresh(second))
        except Exception:  # outside of what the program was captured for
            return calls
        calls.append(second)
    return calls


def _eager(ctx: Context, calls: list[Inputs]) -> list[list[Any]]:
    """What an eager model returns for the calls, one after the other."""
    model = ctx.build()
    results = (pytree.tree_leaves(ctx.call_eager(model, fresh(inputs))) for inputs in calls)
    return [
        [leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves] for leaves in results
    ]


def _not_compiled(ctx: Context, error: Exception) -> CheckResult:
    blame.pass_on_memory_error(error)
    missing = inductor.lacks(error)
    if missing is not None:
        return _not_checked(missing)
    ctx.last_error = error
    frames = [(file, int(line)) for file, line in HERE.findall(said(error))]
    place = places.of_frames(reversed(frames)) or blame.place_of(error) or ctx.head()
    message = "AOTInductor cannot compile the program"
    found = blame.finding("EXP003", message, place, outcome="breaks", evidence=blame.words(error))
    return CheckResult(name=NAME, outcome="failed", reason=f"{message}: {blame.words(error)}", findings=(found,))


def _loaded(ctx: Context) -> dict[str, Any]:
    """What the process that loads the package said, and how it ended where it said nothing."""
    folder = ctx.settings.workdir
    command = [sys.executable, "-I", aoti_loader.__file__, folder]
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="backslashreplace", timeout=MOST_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"died": f"did not end within {MOST_SECONDS} seconds"}
    said = ctx.path(SAID)
    if done.returncode == 0 and said.is_file():
        heard: dict[str, Any] = json.loads(said.read_text(encoding="ascii"))
        return heard
    how = f"status {done.returncode}" if done.returncode > 0 else signal_name(-done.returncode)
    last = next((line.strip() for line in reversed(done.stderr.splitlines()) if line.strip()), "")
    return {"died": f"ended with {how}" + (f": {last[:300]}" if last else "")}


def _judged(
    ctx: Context, said: dict[str, Any], expected: list[list[Any]], calls: list[Inputs], seconds: float
) -> CheckResult:
    """The result for what the package did in the other process."""
    if "died" in said:
        return _failed(ctx, "the process that runs the package dies", said["died"], "breaks", outcome="crashed")
    if said["error"] is not None:
        where = "cannot be loaded" if said["step"] == "load" else f"does not run {said['step']}, which eager does"
        return _failed(ctx, f"the package {where}", said["error"], "breaks")
    results = torch.load(ctx.path(RESULTS), weights_only=True)
    for number, (wanted, actual) in enumerate(zip(expected, results, strict=True), 1):
        reference = ctx.reference(*calls[:number], call_of=lambda model, _: _flat(model))
        difference = compare(wanted, actual, reference=reference, **ctx.tolerance)
        if difference is not None:
            words = f"call {number}: {difference}".replace("in the program", "in the package")
            baked = _baked(ctx, expected) if number == SAME_CALLS else None
            if baked is not None:
                found = blame.finding("EXP501", BAKED, baked, outcome="silent", evidence=words)
                return CheckResult(name=NAME, outcome="failed", reason=f"{BAKED}: {words}", findings=(found,))
            return _failed(ctx, "the package computes something else than the eager model", words, "silent")
        ctx.judge(reference)
    size = ctx.path(PACKAGE).stat().st_size / 2**20
    reason = f"compiled in {seconds:.0f} s into {size:.1f} MiB, which loads in {said['seconds']:.1f} s"
    return CheckResult(name=NAME, outcome="passed", reason=reason, notes=tuple(ctx.judged))


def _baked(ctx: Context, expected: list[list[Any]]) -> Place | None:
    """The line of what the model remembers, where the program itself, called twice, is as wrong as the package."""
    program = ctx.program()
    with unchanged(program):
        module = program.module()
        results = [pytree.tree_leaves(call(module, ctx.example())) for _ in range(SAME_CALLS)]
    if compare(expected[SAME_CALLS - 1], results[-1], **ctx.tolerance) is None:
        return None
    return remembered.line(ctx)


def _flat(model: Any) -> Any:
    return lambda *args, **kwargs: pytree.tree_leaves(model(*args, **kwargs))


def _failed(ctx: Context, message: str, evidence: str, result: Result, *, outcome: Outcome = "failed") -> CheckResult:
    found: Finding = blame.finding("EXP004", message, ctx.head(), outcome=result, evidence=evidence)
    return CheckResult(name=NAME, outcome=outcome, reason=f"{message}: {evidence}", findings=(found,))
