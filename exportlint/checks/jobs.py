"""What runs inside workers: list the cases of a TARGET, and run checks on one of them."""

from __future__ import annotations

import dataclasses
import importlib
import time
import traceback
import warnings
from typing import TYPE_CHECKING, Any

import msgspec

from exportlint import blame, joining, places, zoo
from exportlint.checks import loading, results, strange_tensors, weightless
from exportlint.checks.case import NoExampleError
from exportlint.checks.context import Context, ModelError, Settings, call, result_of
from exportlint.checks.dependencies import Recorder
from exportlint.checks.results import RAN_NOT
from exportlint.findings import CHECKS, RED, CheckResult
from exportlint.text import own_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from exportlint.checks.case import ModelCase
    from exportlint.checks.isolation.job import Emit

PACKAGES = frozenset({"checkpoint", "device", "opset", "shapes", "state"})  # checks of more than one module

NAMED_OTHERWISE = {"compile": "compiled"}  # the module, where it is not named as its check is


def module_of(check: str) -> str:
    """The module that holds the function ``run`` of this check."""
    name = NAMED_OTHERWISE.get(check, check)
    return f"exportlint.checks.{name}.check" if check in PACKAGES else f"exportlint.checks.{name}"


def list_cases(emit: Emit, target: str, variants: list[str]) -> None:
    """Send the names of the cases of a target, with what each expects to fail, or why it cannot be loaded."""
    try:
        cases = loading.cases_of(target, tuple(variants))
    except loading.TargetError as error:
        emit({"target_error": str(error)})
        return
    emit(
        {
            "cases": [
                {"name": case.name, "expected": dict(case.expected_failures), "asks": _asks(case)} for case in cases
            ]
        }
    )


def _asks(case: ModelCase) -> list[str]:
    return [check for check in CHECKS if case.asks_for(check)]


_recorders: list[Recorder] = []  # the one that `prepare` started, in a process that was forked after it


def _recording() -> Recorder:
    """The recorder of this process, started when it is first asked for."""
    if not _recorders:
        _recorders.append(Recorder())
        _recorders[0].start()
    return _recorders[0]


def prepare(emit: Emit, target: str, *, record: bool) -> None:
    """Import what the cases of a target import, in a process that is kept for them; what fails is for them to say."""
    if record:
        _recording()
    if zoo.source_of(target) == target:
        zoo.import_shared(target)
    else:
        loading.cases_of(target)
    emit({"stage": "prepared"})


def check_named(emit: Emit, target: str, name: str, settings: dict[str, Any]) -> None:
    """Run checks on the case of this name."""
    wanted = msgspec.convert(settings, Settings)
    recorder = _recording() if wanted.record else None
    if recorder is not None:
        recorder.ignore(wanted.workdir)
    try:
        found = loading.cases_of(target, wanted.variants)
    except loading.TargetError as error:
        emit({"target_error": str(error)})
        return
    check(
        emit, _called(found, name), wanted, recorder, lambda: _called(loading.cases_of(target, wanted.variants), name)
    )


def _called(cases: list[ModelCase], name: str) -> ModelCase:
    """The case of this name, as the channel tells it: lone surrogates are escapes."""
    return next(case for case in cases if case.name.encode("utf-8", "backslashreplace").decode() == name)


def check(
    emit: Emit,
    case: ModelCase,
    settings: Settings,
    recorder: Recorder | None = None,
    load: Callable[[], ModelCase] | None = None,
) -> None:
    """Run checks on a case; each result is sent as soon as it is there, after what it depends on.

    Args:
        emit: Sends a message.
        case: The case.
        settings: What the caller asked for.
        recorder: Tells what each check depends on.
        load: Makes the case anew; `None` where it exists only as an object.
    """
    warnings.simplefilter("ignore")
    kind = Context if case.weights == "real" else weightless.WeightlessContext
    ctx = kind(
        case,
        settings,
        announce=lambda stage: emit({"stage": stage}),
        provisional=lambda result: emit({"provisional": msgspec.to_builtins(result)}),
        locate=lambda place: emit({"head": [place.file, place.line]}),
        observe=lambda exercised: emit({"exercised": exercised}),
        load=load,
    )
    runs = True
    for name in settings.checks:
        emit({"check": name})
        result = run_check(name, ctx) if runs else does_not_run(name)
        runs = runs and result.runs
        if recorder is not None:
            emit({"depends": {"on": name, **msgspec.to_builtins(recorder.so_far())}})
        emit({"result": msgspec.to_builtins(_told(result, case) if name == settings.checks[0] and runs else result)})


def _told(result: CheckResult, case: ModelCase) -> CheckResult:
    """The result with how the case was made, where nobody wrote the case down."""
    if case.about is None:
        return result
    words = case.about()
    return dataclasses.replace(result, notes=(*result.notes, words), inferred=words if case.inferred else None)


MOST_STACK_LINES = 400
NEEDED = frozenset({"hypothesis"})  # beside torch, without which there is no worker


def does_not_run(name: str) -> CheckResult:
    """The result of a check of a model of which `capture` found that it does not run."""
    return CheckResult(name=name, outcome="not_checked", reason=RAN_NOT)


def run_check(name: str, ctx: Context) -> CheckResult:
    """Run one check and time it; a fault of the check itself is an error of the check."""
    began, ctx.last_error, ctx.doing = time.monotonic(), None, ""
    lacking = _no_example(ctx)
    if lacking is not None:
        return CheckResult(name=name, outcome="errored", reason=lacking, runs=False)
    try:
        result = weightless.run(name, ctx) if isinstance(ctx, weightless.WeightlessContext) else _run(name, ctx)
    except MemoryError:
        raise
    except Exception as error:
        known = _unjudged(name, ctx) or _without_program(name, ctx)
        result = known or _of_users(name, ctx, error) or _of_fault(name, error)
    stack = _stack(ctx.last_error) if result.outcome in RED and ctx.last_error is not None else None
    return dataclasses.replace(result, stack=stack, seconds=round(time.monotonic() - began, 3))


def _run(name: str, ctx: Context) -> CheckResult:
    reason = strange_tensors.why_not_checked(name, ctx) if name not in SEES_TENSORS else None
    if reason is not None:
        return CheckResult(name=name, outcome="not_checked", reason=reason)
    result: CheckResult = importlib.import_module(module_of(name)).run(ctx)
    nothing = result.outcome == "not_checked" and not result.findings
    return result if nothing else _unjudged(name, ctx) or result


def _unjudged(name: str, ctx: Context) -> CheckResult | None:
    """The result of a check of a model whose results cannot be compared; ``None`` for any other."""
    if name in SEES_TENSORS or isinstance(ctx, weightless.WeightlessContext):
        return None
    reason = strange_tensors.why_not_judged(ctx)
    return None if reason is None else CheckResult(name=name, outcome="not_checked", reason=reason)


def _without_program(name: str, ctx: Context) -> CheckResult | None:
    """The result of a check of a program that does not run at all, of which `capture` tells the cause."""
    if isinstance(ctx, weightless.WeightlessContext):
        return None
    try:
        program = ctx.program()
    except Exception:
        return None
    try:
        result_of(program, ctx.example())
    except Exception as error:
        blame.pass_on_memory_error(error)
        return CheckResult(name=name, outcome="not_checked", reason=f"the program does not run: {blame.words(error)}")
    return None


SEES_TENSORS = ("capture", joining.NAME)  # says itself what it cannot compare; compares none


def _no_example(ctx: Context) -> str | None:
    """Why there is no example call, of a case that nobody wrote down: nothing that the model does wrong."""
    if ctx.case.about is None:
        return None
    try:
        ctx.example()
    except ModelError as error:
        return str(error.__cause__) if isinstance(error.__cause__, NoExampleError) else None
    return None


def _stack(error: BaseException) -> str:
    """The traceback, without the middle of a very long one."""
    lines = "".join(traceback.format_exception(error)).splitlines()
    half = MOST_STACK_LINES // 2
    if len(lines) > MOST_STACK_LINES:
        lines = [*lines[:half], f"  ... {len(lines) - 2 * half} lines are left out ...", *lines[-half:]]
    return "\n".join(lines)


RAISED = {
    "canonical": "the case's canonical fails for what the eager model returns",
    "later call": "the model, or its case, fails in a later call than the first",
}


def _of_users(name: str, ctx: Context, error: Exception) -> CheckResult | None:
    """The result of a check in which code of the model's, or of its case, raised; ``None`` where exportlint did."""
    blame.pass_on_memory_error(error)
    if not isinstance(error, ModelError):
        if not places.raised_by_users(error.__traceback__):
            return None
        asked = places.asked_of_users(error.__traceback__) if not _in_a_call(error) else None
        ctx.last_error, raised = error, ModelError("later call" if asked is None else "question")
        raised.__cause__ = error
        if asked is not None:
            result = results.of_model_error(
                name, f"the model, or its case, fails in {asked}, which a check calls", raised
            )
            return dataclasses.replace(result, runs=name != "capture")
        error = raised
    return results.of_model_error(name, RAISED.get(error.stage, f"the {error.stage} fails"), error)


def _in_a_call(error: Exception) -> bool:
    """Whether the model was called as a check calls it."""
    return any(frame.f_code is call.__code__ for frame, _ in traceback.walk_tb(error.__traceback__))


def _of_fault(name: str, error: Exception) -> CheckResult:
    """The result of a check that raised: a package is missing, or exportlint is at fault."""
    if isinstance(error, ModuleNotFoundError) and error.name in NEEDED:
        reason = f"{error.name} is not installed: pip install 'exportlint[pytest]'"
        return CheckResult(name=name, outcome="not_checked", reason=reason)
    traceback.print_exception(error)
    return CheckResult(name=name, outcome="errored", reason=own_fault(error))
