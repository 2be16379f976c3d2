"""Which checks cannot say anything about a model because of the classes of its tensors."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exportlint.checks.context import ModelError
from exportlint.parity import subclasses

if TYPE_CHECKING:
    from exportlint.checks.context import Context

# These make other arguments of the same kind, put them elsewhere or take them into another process.
REMAKE = frozenset({"reload", "device", "shapes", "twins"})
# Tensors that stand for parts on several devices: what is on which device is not theirs alone to say.
SPREAD = "torch.distributed.tensor."


@dataclass(frozen=True, slots=True)
class Classes:
    """Names of classes of the tensors among the arguments, parameters and buffers.

    Attributes:
        opaque: Those that cannot be compared.
        given: Those of arguments that stand for other tensors.
        spread: Those of parameters and buffers that lie on several devices.
    """

    opaque: list[str]
    given: list[str]
    spread: list[str]


def _looked_at(ctx: Context) -> Classes:
    model = ctx.build()
    example, state = _leaves(ctx.example()), [*model.parameters(), *model.buffers()]
    return Classes(
        subclasses.unsupported([*example, *state]),
        subclasses.wrappers(example),
        [name for name in subclasses.wrappers(state) if name.startswith(SPREAD)],
    )


def why_not_checked(check: str, ctx: Context) -> str | None:
    """The reason, with the name of the class; ``None`` where the check can run, or the model cannot be made.

    The model is not called, since what a first call leaves behind is for the checks to see.
    """
    with contextlib.suppress(ModelError):
        if ctx.classes is None:
            ctx.classes = _looked_at(ctx)
        found = ctx.classes
        if found.opaque:
            return _words(found.opaque)
        if check in REMAKE and found.given:
            return f"the arguments hold tensors of the class {found.given[0]}, of which this check can make no others"
        if check in REMAKE and found.spread:
            return f"the model holds tensors of the class {found.spread[0]}, which lie on the devices of their mesh"
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
