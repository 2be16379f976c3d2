"""A training checkpoint: a few steps, saved in the middle with all that they need, and gone on in another model."""

from __future__ import annotations

import random
import sys
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from exportlint import blame
from exportlint.checks.checkpoint import afresh, files, outside
from exportlint.checks.checkpoint.roundtrip import Found, add_outside, in_words, unwrapped
from exportlint.checks.context import seed_everything
from exportlint.parity.compare import compare

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from exportlint.checks.context import Context

FILE = "training.pt"
STEPS = 2  # before the checkpoint, and after it
WHAT = "model, optimizer, scheduler, scaler, epoch and random numbers"


class UntrainedError(Exception):
    """The model cannot be trained here; the message says why."""


class Trainer:
    """A model in training mode with all that a usual training loop has.

    Args:
        model: The model, which is changed.
        loss: Takes what the model returns.
        ctx: Makes the inputs.
    """

    def __init__(self, model: nn.Module, loss: Callable[[Any], torch.Tensor], ctx: Context) -> None:
        self.model, self.loss, self.ctx = model.train(), loss, ctx
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if not trained:
            raise UntrainedError("no parameter needs a gradient")
        self.optimizer = torch.optim.AdamW(trained, lr=1e-3)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 1, 0.5)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
        self.epoch = 0

    def step(self) -> torch.Tensor:
        """One step; its loss."""
        args, kwargs = self.ctx.example()
        self.optimizer.zero_grad()
        with torch.enable_grad():
            loss = self.loss(self.model(*args, **kwargs))
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.scheduler.step()
        self.epoch += 1
        return loss.detach()

    def steps(self) -> dict[str, Any]:
        """A few steps: their losses, and the state dict at the end."""
        losses = [self.step() for _ in range(STEPS)]
        state = {key: value.detach().clone() for key, value in _tensors(self.model.state_dict())}
        return {"losses": losses, "state": state}

    def checkpoint(self) -> dict[str, Any]:
        """All that a training needs to go on."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
            "epoch": self.epoch,
            "random": random_state(),
        }

    def resume(self, file: Path) -> None:
        """Go on from a checkpoint. It is loaded for that, since an optimizer goes on with the tensors that it is given.

        Raises:
            Exception: Where something does not fit.
        """
        saved = files.load(file)
        self.model.load_state_dict(saved["model"], strict=True)
        self.optimizer.load_state_dict(saved["optimizer"])
        self.scheduler.load_state_dict(saved["scheduler"])
        self.scaler.load_state_dict(saved["scaler"])
        self.epoch = saved["epoch"]
        set_random_state(saved["random"])


def random_state() -> dict[str, Any]:
    """The state of the generators of torch, Python and numpy, in what a load with weights_only=True takes."""
    found: dict[str, Any] = {"torch": torch.get_rng_state(), "python": random.getstate()}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        name, numbers, *rest = numpy.random.get_state()
        found["numpy"] = (name, torch.from_numpy(numbers.astype("int64")), *rest)
    return found


def set_random_state(saved: dict[str, Any]) -> None:
    """Give the generators the state that `random_state` noted."""
    torch.set_rng_state(saved["torch"])
    random.setstate(saved["python"])
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy" in saved:
        name, numbers, *rest = saved["numpy"]
        numpy.random.set_state((name, numbers.numpy().astype("uint32"), *rest))


def check(ctx: Context, found: Found) -> None:
    """Save a training in its middle and go on in another model; the next steps must be the same."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _check(ctx, found)
    except UntrainedError as error:
        found.notes.append(f"a training checkpoint is not checked: {error}")


def _check(ctx: Context, found: Found) -> None:
    ctx.stage("training steps")
    first = _begun(ctx)
    file = ctx.path(FILE)
    files.save(first.checkpoint(), file)
    wanted = first.steps()
    ctx.stage("load of the training checkpoint")
    try:
        files.load(file)
    except Exception as error:
        blame.pass_on_memory_error(error)
        message = "the training checkpoint holds what `torch.load` refuses with weights_only=True, its default"
        found.add("EXP706", message, ctx.head(), outcome="unportable", evidence=files.words(error))
        return
    try:
        second = _resumed(ctx, file)
    except Exception as error:
        blame.pass_on_memory_error(error)
        message = "a training checkpoint does not load into a fresh model"
        found.add("EXP708", message, ctx.head(), outcome="unportable", evidence=files.words(error))
        return
    ctx.stage("training steps after the load")
    difference = compare(wanted, second.steps(), rtol=0.0, atol=0.0)
    if difference is None:
        found.notes.append(f"a training goes on from its checkpoint ({WHAT}) with the same {STEPS} steps, bit for bit")
        return
    _tell(ctx, found, file, wanted, in_words(difference))


def _begun(ctx: Context) -> Trainer:
    """A training in its middle.

    Raises:
        UntrainedError: When the model cannot be trained.
    """
    try:
        trainer = Trainer(unwrapped(ctx.build()), loss_of(ctx), ctx)
        seed_everything()
        for _ in range(STEPS):
            trainer.step()
    except UntrainedError:
        raise
    except Exception as error:
        blame.pass_on_memory_error(error)
        raise UntrainedError(f"it does not train: {blame.words(error.__cause__ or error)}") from error
    return trainer


def _resumed(ctx: Context, file: Path) -> Trainer:
    trainer = Trainer(unwrapped(afresh.model(ctx)), loss_of(ctx), ctx)
    trainer.resume(file)
    return trainer


def _tell(ctx: Context, found: Found, file: Path, wanted: dict[str, Any], evidence: str) -> None:
    """Say what a training that goes on lacks, unless no two trainings of this model are the same."""
    again = _begun(ctx)
    if compare(wanted, again.steps(), rtol=0.0, atol=0.0) is not None:
        found.notes.append("a training checkpoint is not checked: two equal trainings take different steps")
        return
    giver = _begun(ctx).model

    def same(model: nn.Module) -> bool:
        trainer = Trainer(model, loss_of(ctx), ctx)
        trainer.resume(file)
        try:
            return compare(wanted, trainer.steps(), rtol=0.0, atol=0.0) is None
        except Exception:  # what one model held does not fit another
            return False

    def make() -> nn.Module:
        return unwrapped(afresh.model(ctx))

    decide = outside.deciding(outside.differing(giver, make().train()), giver, make, same)
    message = "a training that goes on from its checkpoint takes other steps"
    add_outside(ctx, found, decide, evidence, message)


def loss_of(ctx: Context) -> Callable[[Any], torch.Tensor]:
    """The case's loss; without one the mean square of all that the model returns."""
    return ctx.case.loss or _mean_square


def _mean_square(result: Any) -> torch.Tensor:
    values = [
        leaf.float().square().mean()
        for leaf in pytree.tree_leaves(result)
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.requires_grad and leaf.numel()
    ]
    if not values:
        raise UntrainedError("the model returns no numbers that need a gradient")
    return torch.stack(values).mean()


def _tensors(state: dict[str, Any]) -> list[tuple[str, torch.Tensor]]:
    return [(key, value) for key, value in state.items() if isinstance(value, torch.Tensor)]
