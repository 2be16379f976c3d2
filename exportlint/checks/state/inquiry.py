"""What the parts of the check ``state`` share: one model case, its program, and how they are called and compared."""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from exportlint import blame
from exportlint.checks import divergence
from exportlint.checks.context import call, fresh, unchanged
from exportlint.checks.state.holders import python_modules, users_classes
from exportlint.checks.state.python_state import Snapshot
from exportlint.checks.state.surroundings import Read, Surroundings, Twin
from exportlint.checks.wrong_result import told, values_part

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import nn
    from torch.export import ExportedProgram

    from exportlint.checks.case import Inputs
    from exportlint.checks.context import Context
    from exportlint.findings import Finding
    from exportlint.parity.compare import Difference
    from exportlint.places import Place


@dataclass
class Inquiry:
    """One model case under inquiry.

    Attributes:
        ctx: The case.
        program: The captured program.
        lines: Lines of the user's code that the first call executed, in order.
        reads: What that call read of its surroundings.
        findings: What was found.
        unjudged: Why nothing can be said, if so.
        module: The program, to be called.
        found: What outlives the model, as the check found it.
        modules: The modules of Python that may read the surroundings.
    """

    ctx: Context
    program: ExportedProgram
    lines: list[tuple[str, int]] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    unjudged: str | None = None

    def __post_init__(self) -> None:
        self.module = self.program.module()
        model = self.ctx.build()
        self.found = Snapshot(model)
        self._start = Snapshot(model)
        if self.ctx.code_state is not None:  # earlier checks have called the model
            self._start.take_over(self.ctx.code_state)
        self.modules = python_modules({cls for module in model.modules() for cls in users_classes(module)})

    def build(self) -> nn.Module:
        """A fresh model, with what outlives it as it was before any was called."""
        self._start.restore(self._start.changed())
        return self.ctx.build()

    def compare(self, expected: Any, actual: Any) -> Difference | None:
        """The first difference between two results, as the case defines equal."""
        return self.ctx.compare(expected, actual)

    def watched(self) -> Any:
        """What the first call of a fresh model returns; its lines and reads are noted."""
        model, inputs = self.build(), self.ctx.example()
        results: list[Any] = []
        with Surroundings(self.modules) as seen:
            self.lines = divergence.lines_of(lambda: results.append(call(model, inputs)))
        self.reads = list(seen.reads)
        if not results or self.of_kind("clock"):
            return self.call(self.build(), self.ctx.example())
        return pytree.tree_map(kept, results[0])

    def call(self, model: nn.Module, inputs: Inputs) -> Any:
        """What a call returns; a model that reads clocks meets the same times in each call.

        Raises:
            ModelError: When it raises.
        """
        if not self.of_kind("clock"):
            return pytree.tree_map(kept, self.ctx.call_eager(model, fresh(inputs)))
        with Surroundings(self.modules, Twin(clock=True)):
            return pytree.tree_map(kept, self.ctx.call_eager(model, fresh(inputs)))

    def program_calls(self, calls: Sequence[Inputs]) -> list[Any]:
        """What the program returns in these calls, one after the other."""
        self.ctx.stage("run of the program")
        with unchanged(self.program):
            return [pytree.tree_map(kept, call(self.module, fresh(inputs))) for inputs in calls]

    def with_place(
        self, evidence: str, inputs: Inputs, before: Sequence[Inputs] = (), model: nn.Module | None = None
    ) -> str:
        """The evidence, and where values part in a call, in words; see `parted`."""
        return self.parted(evidence, inputs, before, model)[0]

    def parted(
        self, evidence: str, inputs: Inputs, before: Sequence[Inputs] = (), model: nn.Module | None = None
    ) -> tuple[str, Place | None]:
        """The evidence with where values part in a call, and that line where it is known.

        Args:
            evidence: What differs, in words.
            inputs: The arguments of the call.
            before: The arguments of the calls before it, of both sides.
            model: The eager model to call; a fresh one without it.
        """
        eager = self.build() if model is None else model
        try:
            with unchanged(self.program):
                for earlier in before:
                    self.call(eager, earlier)
                    call(self.module, fresh(earlier))
                found = values_part(self.ctx, self.program, inputs, model=eager, called=self._called)
        except Exception:  # it is told without the place
            found = None
        return told(evidence, found, None)

    def follows(self, model: nn.Module) -> set[int]:
        """The ids of the model's buffers that the program writes to in a call with the example, as its own."""
        return {id(buffer) for name, buffer in model.named_buffers(remove_duplicate=False) if name in self._written}

    @functools.cached_property
    def _written(self) -> frozenset[str]:
        """The buffers that the program writes to, by name."""
        with unchanged(self.program):
            before = {name: buffer._version for name, buffer in self.module.named_buffers(remove_duplicate=False)}
            call(self.module, fresh(self.ctx.example()))
            after = {name: buffer._version for name, buffer in self.module.named_buffers(remove_duplicate=False)}
        return frozenset(name for name, version in before.items() if after[name] != version)

    def _called(self, function: Callable[..., Any], inputs: Inputs) -> Any:
        """Call either side, at the same times where the model reads clocks."""
        with Surroundings(self.modules, Twin(clock=True)) if self.of_kind("clock") else contextlib.nullcontext():
            return call(function, inputs)

    def of_kind(self, kind: str) -> list[Read]:
        """What the first call read of this kind."""
        return [read for read in self.reads if read.kind == kind]

    def add(self, rule: str, message: str, place: Place | None, evidence: str, rewrite: str | None = None) -> None:
        """Add a finding, unless there is one of the rule at the place."""
        found = blame.finding(rule, message, place, outcome="silent", rewrite=rewrite, evidence=evidence)
        if (found.rule, found.file, found.line) not in {(f.rule, f.file, f.line) for f in self.findings}:
            self.findings.append(found)


def kept(leaf: Any) -> Any:
    """A result that later calls cannot change."""
    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) and not leaf.is_sparse else leaf
