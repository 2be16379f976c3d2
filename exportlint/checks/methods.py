"""The check ``methods``: do the programs of several methods of one model work together, and when they are saved as one?

1. All methods are captured from one model, so that their programs share its weights and buffers, and are called one
   after the other, as the eager model's methods are, and all once more. After each call results, arguments, buffers and
   shared memory are compared.
2. They are saved in one file, loaded and called again. Each loaded program has state of its own: what one writes into a
   buffer, the others no longer see. That is a finding where a call differs by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exportlint import blame, text
from exportlint.checks import programs, sequences
from exportlint.checks.context import Context, ModelError
from exportlint.checks.programs import Programs
from exportlint.checks.results import NOT_ASKED
from exportlint.checks.sequences import Done, PartedError, Run
from exportlint.findings import CheckResult
from exportlint.torch_hooks import packages

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch
    from torch.export import ExportedProgram

    from exportlint.checks.case import Inputs
    from exportlint.findings import Finding

NAME = "methods"
FILE = "methods.pt2"


def run(ctx: Context) -> CheckResult:
    """Run the check."""
    case = ctx.case.whole
    if case is None or len(case.methods) < 2:
        return _not_checked(f"{NOT_ASKED}: the case has no two methods")
    first = f"{case.name}.{next(iter(case.methods))}"
    if ctx.case.name != first:
        return _not_checked(f"{NOT_ASKED}: the methods are checked with {first}")
    try:
        return _check(programs.of_case(ctx))
    except programs.NotExportedError as error:
        return _not_checked(f"a method is not captured: {error}")
    except ModelError as error:
        words = blame.words(error.__cause__ or error)
        what = (
            "a method fails when it is called after the others" if error.stage == "step" else f"the {error.stage} fails"
        )
        return _not_checked(f"the model does not run: {what}: {words}")


def _not_checked(reason: str) -> CheckResult:
    return CheckResult(name=NAME, outcome="not_checked", reason=reason)


def _check(subject: Programs) -> CheckResult:
    parted = _part(subject)
    if parted is not None:
        message = f"the program of {parted.done[-1].name} does something else than the method, called after the others"
        return _failed(_finding(subject, parted, message, silent=True), ())
    shared, notes = _shared(subject), []
    if shared:
        size, are = sum(nbytes for _, nbytes in shared.values()), "is" if len(shared) == 1 else "are"
        notes.append(f"{text.counted(len(shared), 'tensor')} of {text.size(size)} {are} used by more than one method")
    why_not = packages.why_not()
    if why_not is not None:
        return CheckResult(
            name=NAME,
            outcome="not_checked",
            reason=f"the methods are not saved together: {why_not}",
            notes=tuple(notes),
        )
    return _saved(subject, notes)


def _saved(subject: Programs, notes: list[str]) -> CheckResult:
    """Save all programs as one file, load them and call them again."""
    file = subject.ctx.path(FILE)
    subject.ctx.stage("save of all methods")
    try:
        packages.save(subject.programs, file)
        loaded = packages.load(file)
    except Exception as error:
        blame.pass_on_memory_error(error)
        return _not_checked(f"the methods are not saved together: {blame.words(error)}")
    size = file.stat().st_size
    file.unlink()
    notes.append(_about_size(subject.programs, loaded, size))
    again = Programs(subject.ctx, loaded, {name: program.module() for name, program in loaded.items()})
    parted = _part(again)
    if parted is None:
        reason = f"{len(loaded)} methods in a file of {text.size(size)}"
        return CheckResult(name=NAME, outcome="passed", reason=reason, notes=(*notes, *subject.ctx.judged))
    name = parted.done[-1].name
    message = f"saved in one file, the methods no longer share state: {name} does not see what the others wrote"
    return _failed(_finding(again, parted, message, silent=False), tuple(notes))


def _examples(subject: Programs) -> dict[str, Inputs]:
    """Fresh arguments of the example call of each method."""
    settings, announce = subject.ctx.settings, subject.ctx.announce
    return {
        name: Context(part, settings, announce).example() for name, part in programs.parts(subject.ctx.case).items()
    }


def _part(subject: Programs) -> PartedError | None:
    """Where the sides part, if every method is called in the order of the case, and all once more.

    Raises:
        ModelError: When the eager model fails the first time round; the second time, it may have come to an end.
    """
    run, examples = Run(subject), _examples(subject)
    try:
        for inputs in (examples, examples):
            for name, arguments in inputs.items():
                run.call(Done(name, name, arguments, arguments))
    except PartedError as parted:
        return parted
    except ModelError:
        if len(run.done) <= len(examples):
            raise
    finally:
        run.end()
    return None


def _failed(finding: Finding, notes: tuple[str, ...]) -> CheckResult:
    return CheckResult(name=NAME, outcome="failed", reason=finding.message, findings=(finding,), notes=notes)


def _finding(subject: Programs, parted: PartedError, message: str, *, silent: bool) -> Finding:
    evidence, place = sequences.blamed(subject, parted, parted.words)
    if not silent:  # nothing is wrong at the line that first sees it
        place = sequences.method_of(subject, parted)
    rewrite = None if silent else "Pass what is carried between the methods in and out, or export them as one method."
    outcome: Any = "silent" if silent else "unportable"
    return blame.finding("EXP004", message, place, outcome=outcome, rewrite=rewrite, evidence=evidence)


def _tensors(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """The parameters, buffers and constants of a program by name."""
    import torch

    named = {**program.state_dict, **program.constants}
    return {name: value for name, value in named.items() if isinstance(value, torch.Tensor)}


def _shared(subject: Programs) -> dict[str, tuple[set[str], int]]:
    """The tensors that more than one program uses in the same memory: by name, which programs, and bytes."""
    owners: dict[int, tuple[str, set[str], int]] = {}
    for method, program in subject.programs.items():
        used = programs.used(program)
        for name, tensor in _tensors(program).items():
            if tensor.numel() and name in used:
                owners.setdefault(tensor.data_ptr(), (name, set(), tensor.nbytes))[1].add(method)
    return {name: (methods, size) for name, methods, size in owners.values() if len(methods) > 1}


def _about_size(programs: Mapping[str, ExportedProgram], loaded: Mapping[str, ExportedProgram], size: int) -> str:
    """The size of the file, and how much of it is there more than once."""
    once, twice = _memory(programs), _memory(loaded)
    again = f", {text.size(twice - once)} of it more than once" if twice > once else ""
    return f"the file of {text.size(size)} holds tensors of {text.size(twice)}{again}"


def _memory(programs: Mapping[str, ExportedProgram]) -> int:
    """Bytes of all tensors, those in the same memory counted once."""
    sizes = {t.data_ptr(): t.nbytes for program in programs.values() for t in _tensors(program).values() if t.numel()}
    return sum(sizes.values())
