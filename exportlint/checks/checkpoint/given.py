"""The checkpoint that a case names: a file that must load strictly into a fresh model, and what mends it where not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from exportlint import blame
from exportlint.checks.checkpoint import afresh, files, keys
from exportlint.checks.checkpoint.roundtrip import Found, shapes, unwrapped
from exportlint.checks.context import ModelError
from exportlint.text import counted

if TYPE_CHECKING:
    from exportlint.checks.context import Context

MAX_DEPTH = 3  # of dictionaries in dictionaries in which a state dict is looked for


def check(ctx: Context, found: Found) -> None:
    """Load the checkpoint of the case, if it names one.

    Raises:
        ModelError: When there is no such file, or it holds no state dict.
    """
    whole = ctx.case.whole or ctx.case
    if whole.checkpoint is None:
        return
    file = Path(whole.checkpoint)
    ctx.stage("load of the case's checkpoint")
    try:
        held = _read(file)
    except _NoReaderError:
        found.notes.append(f"not checked: {file.name} needs safetensors, which is not installed")
        return
    except OSError as error:
        raise ModelError("checkpoint") from error
    except Exception as error:
        blame.pass_on_memory_error(error)
        message = f"the checkpoint {file.name} holds what a load with weights_only=True refuses"
        found.add("EXP706", message, ctx.head(), outcome="unportable", evidence=files.words(error))
        return
    path, state = _state_in(held)
    if not state:
        raise ModelError("checkpoint") from ValueError(f"{file.name} holds no tensors under names")
    _give(ctx, found, file.name, path, state)


class _NoReaderError(Exception):
    """The package that reads such a file is not installed."""


def _read(file: Path) -> Any:
    if file.suffix == ".safetensors":
        try:
            from safetensors.torch import load_file
        except ImportError as error:
            raise _NoReaderError from error
        return load_file(file)
    return files.load(file)


def _state_in(held: Any, depth: int = 0) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The largest dictionary of tensors under names, and the keys that lead to it."""
    if not isinstance(held, dict) or depth > MAX_DEPTH:
        return (), {}
    own = {k: v for k, v in held.items() if isinstance(k, str) and isinstance(v, torch.Tensor)}
    best: tuple[tuple[str, ...], dict[str, Any]] = ((), held if len(own) > len(held) / 2 else {})
    for key, value in held.items():
        path, state = _state_in(value, depth + 1)
        if isinstance(key, str) and len(state) > len(best[1]):
            best = (key, *path), state
    return best


def _give(ctx: Context, found: Found, name: str, path: tuple[str, ...], state: dict[str, Any]) -> None:
    """Give the state dict to a fresh model; where it does not fit, try what mends it."""
    model = unwrapped(afresh.model(ctx))
    inside = "".join(f'["{key}"]' for key in path)
    try:
        model.load_state_dict(state, strict=True)
    except Exception as error:
        misfit = keys.explain(shapes(model.state_dict()), shapes(state))
        evidence = files.words(error) if misfit is None else misfit.words
        rewrite = None
        if misfit is not None and misfit.mended and _loads(ctx, state, misfit):
            begin = f"state = torch.load(...){inside}; " if inside else ""
            rewrite = f"With `{begin}{misfit.code}` it loads strictly."
        message = f"the checkpoint {name} does not load into a model of the factory"
        found.add("EXP708", message, ctx.head(), outcome="unportable", evidence=evidence, rewrite=rewrite)
        return
    where = f", its {inside}" if inside else ""
    found.notes.append(f"{name}{where} loads strictly: {counted(len(state), 'key')}")


def _loads(ctx: Context, state: dict[str, Any], misfit: keys.Misfit) -> bool:
    """Whether it does, once its keys are renamed."""
    renamed = {misfit.mapping.get(key, key): value for key, value in state.items()}
    try:
        unwrapped(afresh.model(ctx)).load_state_dict(renamed, strict=True)
    except Exception:
        return False
    return True
