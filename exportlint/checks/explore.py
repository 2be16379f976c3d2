"""After a capture failed: what else would fail, and what does export.

`torch.export.export` stops at the first problem. A draft export goes on with real values and lists the others; and each
submodule that the model calls can be exported by itself, the largest first.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from exportlint import blame, places
from exportlint.checks.context import ModelError, call, fresh
from exportlint.torch_hooks import interned

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import torch

    from exportlint.checks.context import Context
    from exportlint.findings import Finding

MAX_SUBMODULES = 24
# Here a draft export compares results with those of real tensors, and decides on data in doing so: an export does not.
COMPARES = "/torch/_subclasses/fake_utils.py"


def after_failure(ctx: Context, known: Iterable[Finding]) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """Further findings, and notes on the submodules that do export."""
    seen = {(f.file, f.line) for f in known}
    more = tuple(f for f in draft_findings(ctx) if (f.file, f.line) not in seen and f.line is not None)
    why = interned.why_not()
    unknown = () if why is None else (f"further failures whose files are not known are left out: {why}",)
    return more, (*submodule_notes(ctx), *unknown)


def draft_findings(ctx: Context) -> list[Finding]:
    """What a draft export finds to be wrong, each place once; nothing where it fails itself."""
    import torch

    model, (args, kwargs) = ctx.build(), ctx.example()
    ctx.stage("draft export")
    try:
        with torch.no_grad(), contextlib.redirect_stderr(None):
            program = torch.export.draft_export(model, args, kwargs, dynamic_shapes=ctx.dynamic_shapes, strict=False)
    except Exception:  # draft export has no way to go on from failures of other kinds
        return []
    report: Any = getattr(program, "_report", None)
    findings: dict[tuple[str | None, int | None], Finding] = {}
    for failure in getattr(report, "failures", ()):
        found = _of_draft(failure, {**report.str_to_filename, **interned.strings()})
        if found is not None:
            findings.setdefault((found.file, found.line), found)
    return list(findings.values())


def _of_draft(failure: Any, file_names: dict[int, str]) -> Finding | None:
    kind, data = str(failure.failure_type), failure.data
    if any(file_names.get(f["filename"], "").endswith(COMPARES) for f in data.get("stack", ())):
        return None
    if kind == "DATA_DEPENDENT_ERROR":
        expression = str(data.get("expr", ""))
        rule = "EXP101" if expression.startswith("Eq(u") and expression.endswith(", 1)") else "EXP102"
        message = "this line would fail as well: it decides on a value that depends on the data"
    elif kind == "MISSING_FAKE_KERNEL":
        rule, message = "EXP801", f"this line would fail as well: {data.get('op')} has no fake kernel"
    else:
        return None
    frames = [
        (file_names.get(f["filename"], ""), int(f["line"])) for f in data.get("user_stack") or data.get("stack", ())
    ]
    place = places.of_frames(reversed(frames))
    return blame.finding(
        rule, message, place, outcome="breaks", evidence=f"draft export: {data.get('expr') or data.get('op')}"
    )


def submodule_notes(ctx: Context) -> tuple[str, ...]:
    """Which of the model's submodules export by themselves, the largest first."""
    calls = _record_calls(ctx)
    good: list[str] = []
    bad: list[str] = []
    tried = 0
    for name, module in _largest_first(ctx.build()):
        if name not in calls or tried >= MAX_SUBMODULES or any(name.startswith(f"{done}.") for done in good):
            continue
        tried += 1
        (good if _exports(ctx, name, module, calls[name]) else bad).append(name)
    notes = []
    if good:
        notes.append("these submodules do export by themselves: " + ", ".join(good))
    if bad:
        notes.append("these submodules do not: " + ", ".join(bad))
    return tuple(notes)


def _record_calls(ctx: Context) -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    """The arguments of the first call of each submodule in one eager run."""
    model, inputs = ctx.build(), ctx.example()
    calls: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {}

    def remember(name: str) -> Any:
        def hook(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            calls.setdefault(name, (fresh(args), fresh(kwargs)))

        return hook

    for name, module in model.named_modules():
        if name:
            module.register_forward_pre_hook(remember(name), with_kwargs=True)
    ctx.stage("eager call that records submodules")
    with contextlib.suppress(Exception):
        call(model, inputs)
    return calls


def _largest_first(model: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    from torch.nn.parameter import is_lazy

    modules = [(name, module) for name, module in model.named_modules() if name]
    size = {name: sum(p.numel() for p in module.parameters() if not is_lazy(p)) for name, module in modules}
    return iter(sorted(modules, key=lambda item: (-size[item[0]], item[0].count("."))))


def _exports(ctx: Context, name: str, module: torch.nn.Module, inputs: tuple[tuple[Any, ...], dict[str, Any]]) -> bool:
    import torch

    ctx.stage(f"export of the submodule {name}")
    try:
        with torch.no_grad():
            torch.export.export(module, *fresh(inputs), strict=False)
    except ModelError:
        raise
    except Exception:
        return False
    return True
