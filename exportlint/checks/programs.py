"""The programs of all methods of a case, captured from one model, so that they share its weights and buffers."""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from exportlint import blame
from exportlint.checks.case import method_module
from exportlint.checks.context import Context, ModelError, NotCapturedError, unchanged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import nn
    from torch.export import ExportedProgram

    from exportlint.checks.case import ModelCase
    from exportlint.parity.observed import Observed

FORWARD = "forward"
PREFIX = "model."  # of the names of the model's state in the program of a method


class NotExportedError(Exception):
    """A program that is needed is not captured."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Programs by method, and what they are programs of.

    Attributes:
        ctx: The case with all its methods; builds the model itself.
        programs: The program of each method.
        modules: The same as modules, which share the memory of their state.
    """

    ctx: Context
    programs: Mapping[str, ExportedProgram]
    modules: Mapping[str, nn.Module]

    @property
    def of_methods(self) -> bool:
        """Whether the case names methods, or is called as it is."""
        return bool(self.ctx.case.methods)

    def eager(self, model: nn.Module, method: str) -> Any:
        """The method of the model, to be called."""
        return getattr(model, method) if self.of_methods else model

    def as_captured(self, model: nn.Module, method: str) -> nn.Module:
        """The module that the program of this method is captured from."""
        captured: nn.Module = method_module(model, method) if self.of_methods else model
        return captured

    def name_in_the_model(self, name: str) -> str:
        """What the model calls a module, a parameter or a buffer of the program of a method."""
        return name.removeprefix(PREFIX) if self.of_methods else name

    def used(self, method: str) -> frozenset[str]:
        """The parameters, buffers and constants that the program of a method uses, called as the model calls them."""
        return frozenset(map(self.name_in_the_model, used(self.programs[method])))

    def by_names_of_the_model(self, called: Observed) -> Observed:
        """What a call of a program did, its state called as the model calls it."""
        if not self.of_methods:
            return called
        buffers = {self.name_in_the_model(name): buffer for name, buffer in called.buffers.items()}
        shares = {output: tuple(map(self.name_in_the_model, names)) for output, names in called.shares.items()}
        return dataclasses.replace(called, buffers=buffers, shares=shares)

    @contextlib.contextmanager
    def unchanged(self) -> Iterator[None]:
        """Give the state of all programs its values back at the end."""
        with contextlib.ExitStack() as stack:
            for program in self.programs.values():
                stack.enter_context(unchanged(program))
            yield


def used(program: ExportedProgram) -> frozenset[str]:
    """The parameters, buffers and constants that the graph of a program uses; it has all others as inputs, too."""
    using = {node.name for node in program.graph.nodes if node.op == "placeholder" and node.users}
    inputs = program.graph_signature.input_specs
    return frozenset(spec.target for spec in inputs if spec.target is not None and spec.arg.name in using)


def parts(case: ModelCase) -> dict[str, ModelCase]:
    """The cases of the methods of a case, by method."""
    return dict(zip(case.methods, dataclasses.replace(case, variants=()).expand(), strict=True))


def of_case(ctx: Context) -> Programs:
    """The programs of the case: of each of its methods, captured from one model, or its own.

    Raises:
        NotExportedError: When one is not captured, with torch's words where no other check says them.
        ModelError: When the model cannot be built, or an example cannot be made.
    """
    case = ctx.case.whole or ctx.case
    try:
        if not case.methods:
            program = ctx.program()
            return Programs(ctx, {FORWARD: program}, {FORWARD: program.module()})
        whole = Context(case, ctx.settings, ctx.announce)
        programs = _exported(whole, case)
    except ModelError:
        raise
    except NotCapturedError as error:
        raise NotExportedError from error
    except Exception as error:
        blame.pass_on_memory_error(error)
        raise NotExportedError(blame.words(error)) from error
    return Programs(whole, programs, {name: program.module() for name, program in programs.items()})


def _exported(whole: Context, case: ModelCase) -> dict[str, ExportedProgram]:
    """The program of each method, from one model, whose buffers they share."""
    model, found = whole.build(), {}
    for name, part in parts(case).items():
        own = Context(part, whole.settings, whole.announce)
        args, kwargs = own.example()
        whole.stage(f"export of {name}")
        with torch.no_grad():
            found[name] = torch.export.export(
                method_module(model, name), args, kwargs, dynamic_shapes=own.dynamic_shapes, strict=False
            )
    return found
