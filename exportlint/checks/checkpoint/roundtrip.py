"""The state dict of one model, saved, loaded and given to another that was made with other random numbers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from exportlint import blame
from exportlint.checks.checkpoint import afresh, files, keys, outside
from exportlint.checks.context import call
from exportlint.parity.compare import compare
from exportlint.text import counted, size

if TYPE_CHECKING:
    from pathlib import Path

    from exportlint.checks.context import Context
    from exportlint.findings import Finding, Result
    from exportlint.places import Place

FILE = "weights.pt"
SAFE = "weights.safetensors"
WRAPPERS = (nn.DataParallel, nn.parallel.DistributedDataParallel)
CHANGE = 2.0**-7  # of each weight, where two models of the factory have the same
SHOWN = 3


@dataclass
class Found:
    """What was found out so far."""

    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether the model itself has no fault; a wrapper around it is none."""
        return all(finding.rule == "EXP703" for finding in self.findings)

    def add(
        self, rule: str, message: str, place: Any, *, outcome: Result, evidence: str, rewrite: str | None = None
    ) -> None:
        """Add a finding."""
        self.findings.append(blame.finding(rule, message, place, outcome=outcome, evidence=evidence, rewrite=rewrite))


def shapes(state: Any) -> dict[str, tuple[int, ...]]:
    """The keys of a state dict with the shapes of their tensors; what is no tensor, or has no size yet, has none."""
    return {
        key: tuple(value.shape) if isinstance(value, torch.Tensor) and not is_lazy(value) else ()
        for key, value in state.items()
    }


def unwrapped(model: nn.Module) -> nn.Module:
    """The model itself, where the factory returns it in a wrapper that puts its own name before each key."""
    prefix = _prefix(model)
    return model if prefix is None else unwrapped(model._modules[prefix])  # type: ignore[arg-type]


def report_wrappers(ctx: Context, model: nn.Module, found: Found) -> None:
    """Report each wrapper whose state dict the model itself does not know."""
    while (prefix := _prefix(model)) is not None:
        inner = model.get_submodule(prefix)
        misfit = keys.explain(shapes(inner.state_dict()), shapes(model.state_dict()))
        if misfit is not None and misfit.mended:
            message = f"each key of the state dict begins with `{prefix}.`, which the model itself does not know"
            saving = f"Save the state dict of the wrapped module, `model.{prefix}.state_dict()`"
            place = blame.definition_of(ctx.case.model) or ctx.head()
            found.add(
                "EXP703", message, place, outcome="unportable", evidence=misfit.words,
                rewrite=f"{saving}; or load with `{misfit.code}`.",
            )  # fmt: skip
        model = inner


def _prefix(model: nn.Module) -> str | None:
    """The segment that a wrapper puts before each key; ``None`` of what is no wrapper."""
    if isinstance(model, WRAPPERS):
        return "module"
    return "_orig_mod" if type(model).__module__.startswith("torch._dynamo") and "_orig_mod" in model._modules else None


def make_differ(saved: nn.Module, other: nn.Module) -> bool:
    """Give a model other weights where another has the same; whether they differ then, and a load does something."""
    mine, theirs = saved.state_dict(), other.state_dict()
    if mine.keys() != theirs.keys() or any(is_lazy(v) for v in mine.values() if isinstance(v, torch.Tensor)):
        return True
    if not outside.alike(dict(mine), dict(theirs)):
        return True
    changed = False
    with torch.no_grad():
        for value in mine.values():
            if isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel():
                value.mul_(1 + CHANGE)
                changed = True
    return changed


def saved_and_loaded(ctx: Context, state: dict[str, Any], found: Found) -> dict[str, Any] | None:
    """The state dict as a load makes it; ``None`` where it cannot be saved or loaded."""
    file = ctx.path(FILE)
    ctx.stage("save of the state dict")
    try:
        files.save(state, file)
    except Exception as error:
        _refuse(ctx, found, "torch cannot save the state dict", error)
        return None
    found.notes.append(_size(state, file))
    ctx.stage("load of the state dict")
    try:
        loaded: dict[str, Any] = files.load(file)
    except Exception as error:
        message = "the state dict holds what `torch.load` refuses with weights_only=True, its default"
        _refuse(ctx, found, message, error)
        return None
    difference = compare(_tensors(state), _tensors(loaded), rtol=0.0, atol=0.0)
    if difference is not None:
        words = in_words(difference)
        found.add(
            "EXP706", "the state dict is another after save and load", ctx.head(), outcome="silent", evidence=words
        )
    return loaded


def _refuse(ctx: Context, found: Found, message: str, error: Exception) -> None:
    blame.pass_on_memory_error(error)
    place = _extra_state(ctx.build()) or ctx.head()
    found.add("EXP706", message, place, outcome="unportable", evidence=files.words(error))


def _extra_state(model: nn.Module) -> Place | None:
    """Where the first module of the user's says what else its state dict holds."""
    for module in model.modules():
        if type(module).get_extra_state is not nn.Module.get_extra_state:
            return blame.definition_of(type(module).get_extra_state)
    return None


def _tensors(state: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {key: value.detach() for key, value in state.items() if isinstance(value, torch.Tensor)}


def _size(state: dict[str, Any], file: Path) -> str:
    number = counted(len(_tensors(state)), "tensor")
    return f"{number} in {size(file.stat().st_size)}, saved as on {files.ELSEWHERE} and loaded on the CPU"


NOT_LOADED = "the state dict does not load into a fresh model of the factory"


def give(ctx: Context, loaded: dict[str, Any], other: nn.Module, found: Found, message: str = NOT_LOADED) -> bool:
    """Give a state dict strictly to a fresh model; whether the model has it then."""
    ctx.stage("load into a fresh model")
    try:
        other.load_state_dict(loaded, strict=True)
    except Exception as error:
        blame.pass_on_memory_error(error)
        misfit = keys.explain(shapes(other.state_dict()), shapes(loaded))
        rewrite = f"`{misfit.code}` before it is loaded." if misfit is not None and misfit.mended else None
        words = misfit.words if misfit is not None else files.words(error)
        place = _place_of_key(other, misfit) or ctx.head()
        found.add("EXP708", message, place, outcome="unportable", evidence=words, rewrite=rewrite)
        return False
    left = [key for key, value in _tensors(other.state_dict()).items() if not outside.alike(value, loaded.get(key))]
    if left:
        words = ", ".join(f"`{key}`" for key in left[:SHOWN])
        message = f"load_state_dict leaves {words} as it was, and raises nothing"
        found.add(
            "EXP707", message, ctx.head(), outcome="silent", evidence=f"{counted(len(left), 'key')} of another value"
        )
        return False
    return True


def _place_of_key(model: nn.Module, misfit: keys.Misfit | None) -> Place | None:
    """Where the first key that does not fit is assigned."""
    for key in [*misfit.unexpected, *misfit.missing, *(name for name, _, _ in misfit.reshaped)] if misfit else ():
        path, _, name = key.rpartition(".")
        try:
            owner = model.get_submodule(path)
        except AttributeError:
            continue
        place = blame.assignment_of(type(owner), name)
        if place is not None:
            return place
    return None


def results_part(ctx: Context, saved: nn.Module, loaded: dict[str, Any], other: nn.Module, found: Found) -> str | None:
    """Compare what both models return; where they differ, what decides it.

    Returns:
        Why nothing can be said of it; ``None`` else.
    """
    # What a first call leaves in a model is none of its checkpoint.
    expected = ctx.call_eager(saved, ctx.example())
    difference = ctx.compare(expected, call(other, ctx.example()))
    if difference is None:
        return None
    again = unwrapped(ctx.build())
    again.load_state_dict(loaded)
    if ctx.compare(expected, call(again, ctx.example())) is not None:
        return "two equal models return different results"

    def make() -> nn.Module:
        model = unwrapped(afresh.model(ctx))
        model.load_state_dict(loaded)
        return model

    giver = unwrapped(ctx.build())
    candidates = outside.differing(giver, make())
    decide = outside.deciding(
        candidates, giver, make, lambda model: ctx.compare(expected, call(model, ctx.example())) is None
    )
    add_outside(ctx, found, decide, in_words(difference), "a model that loads the state dict returns something else")
    return None


def add_outside(ctx: Context, found: Found, decide: list[outside.Held], evidence: str, message: str) -> None:
    """Add a finding for each name that decides; one for the model, where none is known."""
    if not decide:
        found.add("EXP707", message, ctx.head(), outcome="silent", evidence=evidence)
    for held in decide[:SHOWN]:
        words = f"{held.words} is not in the state dict, and {message}"
        found.add("EXP707", words, held.place or ctx.head(), outcome="silent", evidence=evidence, rewrite=held.rewrite)


def keys_grow(ctx: Context, before: dict[str, tuple[int, ...]], saved: nn.Module, found: Found) -> None:
    """Report keys that a call adds, takes away or reshapes, so that what is saved afterwards no longer loads."""
    after = saved.state_dict()
    if shapes(after) == before:
        return
    message = "a call changes the keys of the state dict: what is saved after it does not load into a fresh model"
    give(ctx, dict(after), unwrapped(afresh.model(ctx)), found, message)


def remarks(model: nn.Module, state: dict[str, Any]) -> list[str]:
    """What a reader should know of tensors that share memory and of buffers that are not saved."""
    by_memory: dict[Any, list[str]] = {}
    for key, value in _tensors(state).items():
        if value.numel() and value.layout is torch.strided and type(value) is torch.Tensor:
            place = (value.untyped_storage().data_ptr(), value.storage_offset(), tuple(value.shape), value.stride())
            by_memory.setdefault(place, []).append(key)
    tied = [names for names in by_memory.values() if len(names) > 1]
    notes = [f"tied, and saved once: {' = '.join(names)}" for names in tied[:SHOWN]]
    left = outside.not_saved(model)
    if left:
        more = f" and {len(left) - SHOWN} more" if len(left) > SHOWN else ""
        notes.append(f"made anew by the constructor, not loaded (non-persistent): {', '.join(left[:SHOWN])}{more}")
    return notes


def through_safetensors(ctx: Context, saved: nn.Module, found: Found) -> None:
    """The same by a file of safetensors, where that is installed."""
    try:
        from safetensors.torch import load_model, save_model
    except ImportError:
        found.notes.append("not checked: safetensors is not installed")
        return
    ctx.stage("save with safetensors")
    other, file = unwrapped(afresh.model(ctx)), str(ctx.path(SAFE))
    try:
        save_model(saved, file)
        load_model(other, file, strict=True)
    except Exception as error:
        blame.pass_on_memory_error(error)
        found.notes.append(f"safetensors cannot hold the state dict: {blame.words(error)}")
        return
    difference = compare(_tensors(saved.state_dict()), _tensors(other.state_dict()), rtol=0.0, atol=0.0)
    if difference is None:
        found.notes.append("saved and loaded with safetensors as well")
    else:
        message = "the state dict is another after save and load with safetensors"
        found.add("EXP706", message, ctx.head(), outcome="silent", evidence=in_words(difference))


def in_words(difference: Any) -> str:
    """A difference, in the words of this check."""
    return str(difference).replace("in the program", "after loading").replace("in eager", "before")


def sorted_by_weight(findings: list[Finding]) -> tuple[Finding, ...]:
    """The findings, the worst first, each once."""
    order = {"error": 0, "warning": 1, "info": 2}
    unique = list({dataclasses.astuple(f)[:6]: f for f in findings}.values())
    return tuple(sorted(unique, key=lambda f: order[f.severity]))
