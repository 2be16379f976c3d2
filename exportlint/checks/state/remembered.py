"""The line that leaves behind what a second call of the model reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.checks import divergence
from exportlint.checks.context import call
from exportlint.checks.state import leftovers
from exportlint.checks.state.python_state import Snapshot

if TYPE_CHECKING:
    from exportlint.checks.context import Context
    from exportlint.places import Place


def line(ctx: Context) -> Place | None:
    """The only line of the example call that changes state of Python; ``None`` where there is none, or several are.

    Raises:
        Exception: What the model raises.
    """
    model = ctx.build()
    before = Snapshot(model)
    ran = divergence.lines_of(lambda: call(model, ctx.example()))
    found = {leftovers.line_of(slot, ran) for slot in before.changed()}
    return found.pop() if len(found) == 1 else None
