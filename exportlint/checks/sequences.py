"""Sequences of calls: one eager model and its programs are given the same calls, and what differs after each is told.

Each side goes on with what it returned itself. Compared are results, the arguments that were written into, the buffers,
and what shares memory.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from exportlint import blame
from exportlint.checks.context import ModelError, call, fresh
from exportlint.checks.wrong_result import told, values_part
from exportlint.parity.compare import compare
from exportlint.parity.observed import buffers_differ, inputs_differ, observe, shares_differ

if TYPE_CHECKING:
    from exportlint.checks.case import Inputs
    from exportlint.checks.programs import Programs
    from exportlint.parity.compare import Difference
    from exportlint.parity.observed import Observed
    from exportlint.parity.parting import Parting
    from exportlint.parity.reference import Reference
    from exportlint.places import Place


class PartedError(Exception):
    """The program failed, or returned or wrote something else, in the last of these calls."""

    def __init__(self, done: tuple[Done, ...], evidence: str) -> None:
        super().__init__(evidence)
        self.done, self.evidence = done, evidence

    @property
    def words(self) -> str:
        """The sequence and what happened at its end."""
        return f"{', '.join(step.name for step in self.done)}: {self.evidence}"


@dataclass(frozen=True, slots=True)
class Done:
    """A call that was made.

    Attributes:
        name: Name of the step.
        method: The method that was called; empty for a reset.
        inputs: Copies of the arguments on the eager model's side.
        own: The same on the program's side.
    """

    name: str
    method: str = ""
    inputs: Inputs = ((), {})
    own: Inputs = ((), {})


@dataclass
class Run:
    """One sequence of calls of a fresh eager model and of the programs."""

    subject: Programs
    done: list[Done] = field(default_factory=list)
    last: Any = None
    own: Any = None

    def __post_init__(self) -> None:
        self.ctx = self.subject.ctx
        self.model = self.ctx.build()
        self._restored = self.subject.unchanged()
        self._restored.__enter__()

    def end(self) -> None:
        """Give the programs their state back."""
        self._restored.__exit__(None, None, None)

    def call(self, done: Done) -> None:
        """Make a call on both sides.

        Raises:
            PartedError: When the sides part.
            ModelError: When the eager model fails.
        """
        self.done.append(done)
        function, module = self.subject.eager(self.model, done.method), self.subject.modules[done.method]
        eager_inputs = fresh(done.inputs)
        self.ctx.stage(f"eager call of the step {done.name}")
        try:
            eager = observe(self.model, eager_inputs, lambda _, inputs: call(function, inputs))
        except Exception as error:
            raise ModelError("step") from error
        self.ctx.stage(f"program in the step {done.name}")
        try:
            program = self.subject.by_names_of_the_model(observe(module, fresh(done.own), call))
        except Exception as error:
            blame.pass_on_memory_error(error)
            raise PartedError(tuple(self.done), blame.words(error)) from error
        used = self.subject.used(done.method)
        evidence = self._differ(eager, _without_what_is_left_alone(program, eager, used))
        if evidence is not None:
            raise PartedError(tuple(self.done), evidence)
        self.last, self.own = eager.result, program.result

    def _differ(self, eager: Observed, program: Observed) -> str | None:
        """How the two calls differ, in words."""
        reference = self._reference()
        found = self.ctx.compare(eager.result, program.result, reference=reference)
        if found is not None:
            return str(found)

        def close(a: Any, b: Any, name: str) -> Difference | None:
            return compare(a, b, reference=reference.of_left(name), **self.ctx.tolerance)

        words = inputs_differ(eager, program, close) or buffers_differ(eager.buffers, program.buffers, close)
        self.ctx.judge(reference)
        return words or shares_differ(eager, program)

    def _reference(self) -> Reference:
        """The last call in float64, after those before it."""
        calls = [done for done in self.done if done.method]
        return self.ctx.reference(
            *(done.inputs for done in calls),
            call_of=lambda model, place: self.subject.eager(model, calls[place].method),
        )


def _without_what_is_left_alone(program: Observed, eager: Observed, used: frozenset[str]) -> Observed:
    """The program's call without the buffers that it does not use, and that the eager call did not change either.

    Once it is saved with others, it has a copy of its own of what only they write.

    Args:
        program: The program's call.
        eager: The eager model's.
        used: The buffers that the program uses.
    """
    known = used | eager.written | (program.buffers.keys() - eager.buffers.keys())
    return dataclasses.replace(program, buffers={name: b for name, b in program.buffers.items() if name in known})


def blamed(subject: Programs, parted: PartedError, evidence: str) -> tuple[str, Place | None]:
    """The evidence with where values part in the last call, and the line; else that of the method that was called."""
    return told(evidence, _where(subject, parted), method_of(subject, parted))


def method_of(subject: Programs, parted: PartedError) -> Place | None:
    """Where the method begins in whose call the sides part."""
    return blame.definition_of(getattr(type(subject.ctx.build()), parted.done[-1].method, None))


def _where(subject: Programs, parted: PartedError) -> Parting | None:
    """Where values part in the last call, after the calls before it."""
    *before, last = parted.done
    run = Run(subject)
    try:
        for done in before:
            if done.method:
                call(subject.eager(run.model, done.method), fresh(done.inputs))
                call(subject.modules[done.method], fresh(done.own))
        model, program = subject.as_captured(run.model, last.method), subject.programs[last.method]
        found = values_part(subject.ctx, program, last.inputs, model=model, own=last.own)
        return found and dataclasses.replace(found, module=subject.name_in_the_model(found.module))
    except Exception:
        return None
    finally:
        run.end()
