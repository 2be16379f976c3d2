"""Results that are made outside of a check: for one that died, that did not run, or that was expected to fail."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from exportlint import blame, places
from exportlint.findings import RED, CheckResult
from exportlint.joining import CONFIRMED_BY
from exportlint.joining import NAME as LINT
from exportlint.text import duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from exportlint.checks.context import ModelError
    from exportlint.checks.isolation.job import Ending
    from exportlint.findings import Finding, Outcome
    from exportlint.places import Place

RAN_NOT = "the model does not run"
NOT_ASKED = "not asked for"  # begins the reason of a check that only some cases ask for
PLACED_IN_THE_CASE = frozenset({"EXP002", "EXP603"})
MODEL_STAGES = frozenset({"build", "inputs", "inputs2", "eager call", "second call"})
# Stages that are no events, in words.
MAKING = {"inputs": "making of the example inputs", "inputs2": "making of the inputs of a further call"}
BEFORE_ANY_CALL = frozenset({"build", "inputs"})  # of the model
RUNS = re.compile(r"\b(call|runs?|examples|export)\b")  # stages in which forward of the model runs
# What to do about a stage that fails, where that is not about what the factory returns.
REWRITES = {
    "inputs": "Let the case give a tuple of positional arguments and a mapping of keyword arguments, or functions that "
    "return them.",
    "no inputs": "Give the case an example call beside the model: args, a tuple such as (x,), or kwargs, a mapping.",
    "eager call": "Give the case an example call that forward takes, or let the factory return a module that takes it.",
    "result": "Return tensors, or lists, tuples and mappings of them of which none contains itself.",
    "inputs2": "Let inputs2, and each call of more_inputs, be a tuple of arguments, or a pair (args, kwargs).",
    "checkpoint": "Let checkpoint be the path of a file of weights, from the working directory on.",
    "second call": "Give the call arguments that the model accepts in eager mode, or let the model accept them.",
    "value_ranges": "Name the inputs in value_ranges as the parameters of forward are named.",
    "dynamic_shapes": "Let dynamic_shapes be made from the tensors and the calls that the case itself gives.",
    "step": "Let the step return arguments that the eager model accepts after the calls before it, or None.",
    "training": "Let the loss take what the model returns in training mode, and return a scalar that needs a gradient.",
    "canonical": "Let canonical take what the eager model returns, or leave it out.",
    "later call": "Let the model take further calls as it takes its first; what it carries between them belongs in "
    "buffers.",
    "question": "Let it do what torch.nn.Module says of it: a check asks for the parts of the model.",
    "drawn call": "Let the model accept every call that dynamic_shapes and value_ranges allow, or allow fewer.",
}
IN_VARIANTS = {  # where the case that a variant was made from does not fail
    "autocast": "Let the model run under autocast to bfloat16: give the two sides one dtype where it joins or writes "
    "tensors, or disable autocast around this; or leave the variant out.",
    **dict.fromkeys(
        ("bfloat16", "float16"),
        "Let the model compute in this dtype, or cast to float32 around what cannot; or leave the variant out.",
    ),
}
# What to do about a process that did not come to its end, by how it ended.
ENDINGS = {
    "wall": "Allow more time (timeout), or let the example compute less.",
    "cpu": "Allow more time (timeout), or let the example compute less.",
    "late": "Let the call come to its end, or allow no such call in dynamic_shapes and value_ranges.",
    "memory": "Let the example need less memory, or give the checks more: check fewer cases at once, or take a larger "
    "machine (with pytest also: the setting memory).",
    "output": "Let the model print less.",
    "lost": "Run it again: the server of the workers was killed, perhaps for want of memory.",
    "signal": "Call the line by itself, without exportlint: native code, or a call that exits, ends the process.",
    "exit": "Call the line by itself, without exportlint: native code, or a call that exits, ends the process.",
    "raised": "Raise an exception that Python programs catch, such as RuntimeError, where the model cannot go on.",
}
BY_RULE = frozenset({"EXP003", "EXP701"})  # whose rewrites help a process that died, too
MOST_WORDS = 100  # last lines of a process that are kept
SPOKEN, FRAMES = 5, 8  # last lines before the stack that are shown, and frames of it
FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+)(?:,? in (.+))?')
TRACEBACK = "Traceback (most recent call last):"
UNCAUGHT = re.compile(r"^(SystemExit|KeyboardInterrupt|GeneratorExit)\b")
THREAD = re.compile(r"^(Current thread|Thread|Stack)\b.*\(most recent call first\)")


def of_death(check: str, stage: str | None, ending: Ending, head: Place | None = None) -> CheckResult:
    """The result of a check whose process died or was stopped.

    Args:
        check: Name of the check that was running.
        stage: What it was doing.
        ending: How the process ended.
        head: Where the model begins, which is blamed where the model ran and no stack is known.
    """
    outcome: Outcome = "timed_out" if ending.how in ("wall", "cpu", "late") else "crashed"
    words = last_words(ending.output)
    raised = uncaught(ending)
    during = f" during the {MAKING.get(stage, stage)}" if stage else ""
    stopped = f"the process {ending.words}{during}"
    message = f"{raised} was raised{during}, which ends the process" if raised else stopped
    reason = f"{message}: {words}" if words else message
    runs = check != "capture" or stage not in MODEL_STAGES
    place = fatal_place(ending.output)
    if place is None and head is not None and RUNS.search(stage or ""):
        place, message = head, f"{message}; it left no stack, and this is where the model begins"
    finding = _finding(check, stage, message, ending, place, how="raised" if raised else ending.how)
    stack = "\n".join(ending.output[-MOST_WORDS:]) or None
    return CheckResult(
        name=check,
        outcome=outcome,
        reason=reason,
        findings=(finding,),
        notes=tuple(frames(ending.output)),
        stack=stack,
        runs=runs,
    )


def uncaught(ending: Ending) -> str:
    """The exception that ended a process though no ``except Exception`` catches it; empty where there is none."""
    found = UNCAUGHT.match(last_words(ending.output) or "") if ending.how == "exit" else None
    return found[1] if found else ""


def _finding(check: str, stage: str | None, message: str, ending: Ending, place: Place | None, *, how: str) -> Finding:
    by_check = {"capture": "EXP003", "reload": "EXP701", "opset": "EXP709"}
    rule = "EXP002" if stage in MODEL_STAGES else by_check.get(check, "EXP004")
    rewrite = None if how in ("signal", "exit") and rule in BY_RULE else ENDINGS[how]
    evidence = "\n".join(spoken(ending.output)) or None
    return blame.finding(rule, message, place, outcome="breaks", rewrite=rewrite, evidence=evidence)


def not_made(check: str, stage: str, seconds: float) -> CheckResult:
    """The result of a check of a case of which another found that its model, or its inputs, take too long to make.

    Args:
        check: Name of the check.
        stage: What did not come to its end.
        seconds: What was allowed for it.
    """
    what = "building it" if stage == "build" else f"the {MAKING[stage]}"
    return CheckResult(name=check, outcome="not_checked", reason=f"{what} took more than {duration(seconds)}")


def of_drawn_call(check: str, who: str, words: str, code: str, ending: Ending) -> CheckResult:
    """The result of a check whose process ended in a drawn call, where that was not replayed to its end.

    Args:
        check: Name of the check.
        who: What ran the call, such as ``eager model``.
        words: The call in words.
        code: The call as code; empty where it cannot be written down.
        ending: How the process ended.
    """
    late = ending.how == "late"
    message = f"the process {ending.words} while the {who} ran a drawn call"
    if late:
        message = f"the {who} does not end in a call inside the contract"
    rule = "EXP002" if who == "eager model" else "EXP004"
    rewrite = ENDINGS[ending.how] if not late else REWRITES["drawn call"] if rule == "EXP002" else None
    place = fatal_place(ending.output)
    finding = blame.finding(rule, message, place, outcome="breaks", rewrite=rewrite, evidence=words)
    outcome: Outcome = "timed_out" if ending.how in ("wall", "cpu", "late") else "crashed"
    notes = (f"the call: {code}",) if code else ()
    return CheckResult(name=check, outcome=outcome, reason=f"{message}: {words}", findings=(finding,), notes=notes)


def in_variant(variant: str) -> str:
    """What to add to a message about what fails in this variant of a case only."""
    return f" in the variant {variant}, and not without it" if variant else ""


def of_model_error(check: str, message: str, error: ModelError, variant: str = "") -> CheckResult:
    """The result of a check that needs what the model, or its case, fails to do.

    Args:
        check: Name of the check.
        message: What fails.
        error: The failure.
        variant: The variant of the case, where it fails in that only.
    """
    cause = error.__cause__ or error
    place, words, message = blame.place_of(cause), blame.words(cause), message + in_variant(variant)
    rewrite = IN_VARIANTS.get(variant) or REWRITES.get(error.stage)
    found = blame.finding("EXP002", message, place, outcome="breaks", rewrite=rewrite, evidence=words)
    return CheckResult(name=check, outcome="errored", reason=f"{message}: {words}", findings=(found,))


def in_file(checks: Sequence[CheckResult], source: str) -> tuple[CheckResult, ...]:
    """The results, in which the faults of a case that no line is known of are placed in the file of the case.

    Args:
        checks: The results.
        source: The file, or the name of the module, that holds the case; of a module no file is known.
    """
    if not source.endswith(".py"):
        return tuple(checks)
    file = places.display_path(source)
    return tuple(
        dataclasses.replace(
            check,
            findings=tuple(
                dataclasses.replace(f, file=file) if f.file is None and f.rule in PLACED_IN_THE_CASE else f
                for f in check.findings
            ),
        )
        for check in checks
    )


def fatal_place(output: tuple[str, ...]) -> Place | None:
    """The innermost line of the user's in the stack that a dying process printed, or in its last traceback."""
    found = (places.of_frames((file, line) for file, line, _ in stack) for stack in _stacks(output))
    return next((place for place in found if place is not None), None)


def _stacks(output: tuple[str, ...]) -> list[list[tuple[str, int, str]]]:
    """The stacks that a dying process printed, or its tracebacks in one; each as file, line, function, innermost first.

    The last stack, which is the main thread's, comes first.
    """
    stacks: list[list[tuple[str, int, str]]] = []
    for line in output:
        if THREAD.match(line):
            stacks.append([])
        elif (frame := FRAME.match(line)) and stacks:
            stacks[-1].append((frame[1], int(frame[2]), frame[3] or ""))
    traced = [(m[1], int(m[2]), m[3] or "") for m in map(FRAME.match, output) if m]
    return stacks[::-1] if stacks else [traced[::-1]]


def frames(output: tuple[str, ...]) -> list[str]:
    """The model's own lines in the stack of a dying process, the innermost first, as far as exportlint's own."""
    for stack in _stacks(output):
        own: list[tuple[str, int, str]] = []
        for file, line, function in stack:
            if places.is_users(file):
                own.append((file, line, function))
            elif own and places.is_ours(file):
                break
        if own and places.of_frames((file, line) for file, line, _ in stack) is not None:
            shown = [f"{places.display_path(file)}:{line}" + f" in {name}" * bool(name) for file, line, name in own]
            more = [f"called at {len(shown) - FRAMES} more lines"] if len(shown) > FRAMES else []
            return [f"at {shown[0]}", *(f"called at {frame}" for frame in shown[1:FRAMES]), *more]
    return []


def spoken(output: tuple[str, ...]) -> list[str]:
    """The last lines that a process printed before its stack, or the last words of its traceback."""
    end = next((i for i, line in enumerate(output) if THREAD.match(line)), len(output))
    lines, traced = list[str](), False
    for line in output[:end]:
        traced = (traced and line[:1].isspace()) or line.startswith(TRACEBACK)
        if not traced and line.strip():
            lines.append(line.strip()[:300])
    fatal = [line for line in lines if line.startswith("Fatal Python error")]
    return [line for line in lines if line not in fatal][-SPOKEN:] or fatal


def last_words(output: tuple[str, ...]) -> str | None:
    """The last line before the stack, which says why the process died, or the last line of its traceback."""
    end = next((i for i, line in enumerate(output) if line.startswith("Fatal Python error")), None)
    if end is not None:
        before = [line.strip() for line in output[max(0, end - 3) : end] if line.strip()]
        return (before[-1] if before else output[end].strip())[:300]
    if any(THREAD.match(line) for line in output):
        return None
    spoken = [line.strip() for line in output if line.strip()]
    return spoken[-1][:300] if spoken else None


def with_expectations(checks: Sequence[CheckResult], expected: Mapping[str, str]) -> tuple[CheckResult, ...]:
    """The results, marked where the case expects them to fail, and with them the predictions that they confirm."""
    marked = tuple(_with_expectation(check, expected) for check in checks)
    known = {check.name: check.expected for check in marked if check.expected is not None}
    return tuple(_confirmed_by(check, known) if check.name == LINT else check for check in marked)


def _confirmed_by(lint: CheckResult, known: Mapping[str, str]) -> CheckResult:
    """The check ``lint``, expected to fail where checks that are expected to fail confirm all that counts in it."""
    counting = [finding for finding in lint.findings if finding.counts]
    names = [set((f.evidence or "").removeprefix(CONFIRMED_BY).split(", ")) for f in counting]
    if lint.expected is None and counting and all(found <= known.keys() for found in names):
        return dataclasses.replace(lint, expected=known[min(names[0])])
    return lint


def _with_expectation(result: CheckResult, expected: Mapping[str, str]) -> CheckResult:
    """The result, marked where the case expects it to fail; an expected failure that passes is a failure."""
    reason = expected.get(result.name)
    if reason is None or result.outcome == "not_checked":
        return result
    if result.outcome in RED or result.red:
        return dataclasses.replace(result, expected=reason)
    unexpected = f"passes although it is expected to fail ({reason}): remove the expectation"
    return dataclasses.replace(result, outcome="failed", reason=unexpected)
