"""The eager model and the program in other surroundings: whether these change the one, and not the other."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from exportlint.checks.context import seed_everything, unchanged
from exportlint.checks.state.inquiry import kept
from exportlint.checks.state.surroundings import Surroundings, Twin
from exportlint.checks.state.switches import NO_CHANGE, Change
from exportlint.checks.wrong_result import told, values_part

if TYPE_CHECKING:
    from collections.abc import Callable

    from exportlint.checks.case import Inputs
    from exportlint.checks.state.inquiry import Inquiry
    from exportlint.parity.parting import Parting
    from exportlint.places import Place


class Elsewhere:
    """Calls in other surroundings.

    Args:
        inquiry: The model case.
    """

    def __init__(self, inquiry: Inquiry) -> None:
        self.inquiry = inquiry

    def under(self, twin: Twin, function: Callable[..., Any] | None = None, change: Change = NO_CHANGE) -> Any:
        """What a fresh model, or this function, returns for the example in other surroundings."""
        model, inputs = function or self.inquiry.build(), change.inputs(self.inquiry.ctx.example())
        if isinstance(model, torch.nn.Module) and function is None:
            change.model(model)
        with Surroundings(self.inquiry.modules, twin) as surroundings, torch.no_grad():
            seed_everything()
            surroundings.seed()
            try:
                with change.around(self.inquiry.modules):
                    return pytree.tree_map(kept, model(*inputs[0], **inputs[1]))
            except Exception as error:
                return repr(error)

    def confirmed(self, base: Any, twin: Twin, change: Change = NO_CHANGE, steady: Change = NO_CHANGE) -> str | None:
        """The difference that other surroundings make in the eager model and not in the program, with its place."""
        changed = change.result(base, self.under(twin, change=change))
        difference = self.inquiry.compare(base, changed)
        if difference is None or isinstance(changed, str) or isinstance(base, str) or _without_data(changed):
            return None
        if self.inquiry.compare(base, self.under(Twin(clock=twin.clock), change=steady)) is not None:
            return None  # it differs from itself for another reason
        if self._follows(base, changed, twin, change, steady):
            return None
        return told(str(difference), self._parting(twin, change), None)[0]

    def _parting(self, twin: Twin, change: Change) -> Parting | None:
        """Where the program parts from a fresh model in other surroundings."""
        model, inputs = self.inquiry.build(), change.inputs(self.inquiry.ctx.example())
        change.model(model)
        with Surroundings(self.inquiry.modules, twin) as surroundings, torch.no_grad():

            def called(function: Callable[..., Any], arguments: Inputs) -> Any:
                seed_everything()
                surroundings.seed()
                return function(*arguments[0], **arguments[1])

            try:
                with change.around(self.inquiry.modules):
                    return values_part(self.inquiry.ctx, self.inquiry.program, inputs, model=model, called=called)
            except Exception:  # it is told without the place
                return None

    def _follows(self, base: Any, changed: Any, twin: Twin, change: Change, steady: Change) -> bool:
        """Whether the program returns what the eager model does in both surroundings: by chance it may in one."""
        with unchanged(self.inquiry.program):
            produced = change.result(base, self.under(twin, self.inquiry.module, change))
            if self.inquiry.compare(changed, produced) is not None:
                return False
            return self.inquiry.compare(base, self.under(Twin(clock=twin.clock), self.inquiry.module, steady)) is None

    def matters(self, place: Place, base: Any, twin: Twin) -> bool:
        """Whether a twin's answers at this line alone make the eager model return something else."""
        return self.inquiry.compare(base, self.under(dataclasses.replace(twin, only=place))) is not None


def _without_data(result: Any) -> bool:
    return any(isinstance(leaf, torch.Tensor) and leaf.is_meta for leaf in pytree.tree_leaves(result))
