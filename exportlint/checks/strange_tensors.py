"""Which checks cannot say anything about a model because of the classes of its tensors."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from exportlint.checks.context import ModelError
from exportlint.parity import subclasses

if TYPE_CHECKING:
    from exportlint.checks.context import Context

# These make other arguments of the same kind, put them elsewhere or take them into another process.
REMAKE = frozenset({"reload", "device", "shapes", "twins"})
# Tensors that stand for parts on several devices: what is on which device is not theirs alone to say.
SPREAD = "torch.distributed.tensor."


def why_not_checked(check: str, ctx: Context) -> str | None:
    """The reason, with the name of the class; ``None`` where the check can run, or the model cannot be made.

    The model is not called, since what a first call leaves behind is for the checks to see.
    """
    with contextlib.suppress(ModelError):
        example, state = _leaves(ctx.example()), _state(ctx)
        opaque = subclasses.unsupported([*example, *state])
        if opaque:
            return _words(opaque)
        if check in REMAKE:
            given = subclasses.wrappers(example)
            if given:
                return f"the arguments hold tensors of the class {given[0]}, of which this check can make no others"
            spread = [name for name in subclasses.wrappers(state) if name.startswith(SPREAD)]
            if spread:
                return f"the model holds tensors of the class {spread[0]}, which lie on the devices of their mesh"
    return None


def why_not_judged(ctx: Context) -> str | None:
    """The same for what the model returns, asked once a check has run."""
    with contextlib.suppress(ModelError):
        opaque = subclasses.unsupported(_leaves(ctx.expected()))
        return _words(opaque) if opaque else None
    return None


def _words(opaque: list[str]) -> str:
    return f"tensors of the class {opaque[0]} cannot be compared: they hold no data and name no tensors in them"


def _leaves(tree: Any) -> list[Any]:
    from torch.utils import _pytree as pytree

    return list(pytree.tree_leaves(tree))


def _state(ctx: Context) -> list[Any]:
    model = ctx.build()
    return [*model.parameters(), *model.buffers()]
