"""The check ``steps``: do eager model and program agree in every sequence of calls?

The case names the calls that may follow each other. A state machine of hypothesis draws sequences; after each call the
results, the arguments that were written into, the buffers and what is carried to the next call are compared. Each side
goes on with what it returned itself. Two sequences are always run: each step and the same call again, and a long one of
the last step. What fails is shrunk to the shortest sequence, and blamed on the first node whose value parts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from exportlint import blame
from exportlint.checks import programs, sequences
from exportlint.checks.case import Moment, as_inputs
from exportlint.checks.context import Context, ModelError, call, fresh
from exportlint.checks.results import NOT_ASKED, of_model_error
from exportlint.checks.sequences import Done, PartedError, Run
from exportlint.findings import CheckResult
from exportlint.text import counted, said

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exportlint.checks.case import Inputs, Step
    from exportlint.checks.programs import Programs

NAME = "steps"
LONGEST = 16  # calls in a drawn sequence
SECONDS = 60.0  # what drawing may take


@dataclass
class Steps(Run):
    """A sequence of steps of a case."""

    steps: Mapping[str, Step | None] = field(default_factory=dict)
    count: int = 0  # calls since the beginning, or the last reset

    def step(self, name: str, seed: int) -> None:
        """Make a step, if it is possible now.

        Raises:
            PartedError: When the sides part.
            ModelError: When the eager model fails, or the step's own function does.
        """
        step = self.steps[name]
        if step is None:
            if self.count:
                self.done.append(Done(name))
                self.count, self.last, self.own = 0, None, None
            return
        inputs = self._made(step, Moment(fresh(self.last), self.count, seed))
        if inputs is not None:
            own = self._made(step, Moment(fresh(self.own), self.count, seed))
            self._call(Done(name, step.method, inputs, own if own is not None else inputs))

    def again(self) -> None:
        """Make the last call once more with the same arguments."""
        if self.count:
            last = self.done[-1]
            self._call(Done(f"{last.name.removesuffix(' again')} again", last.method, last.inputs, last.own))

    def _made(self, step: Step, moment: Moment) -> Inputs | None:
        try:
            made = step.inputs(moment)
            return None if made is None else fresh(as_inputs(made, "a step"))
        except Exception as error:
            raise ModelError("step") from error

    def _call(self, done: Done) -> None:
        self.call(done)
        self.count += 1


def run(ctx: Context) -> CheckResult:
    """Run the check."""
    case = ctx.case.whole or ctx.case
    first = f"{case.name}.{next(iter(case.methods), '')}"
    if not case.steps:
        return _not_checked(f"{NOT_ASKED}: the case names no steps")
    if ctx.case.whole is not None and ctx.case.name != first:
        return _not_checked(f"{NOT_ASKED}: the steps are checked with {first}")
    try:
        return _search(programs.of_case(ctx), case.steps, ctx)
    except ModelError as error:
        if error.stage == "step":
            message = "the eager model fails in a step of the case, or the step's arguments cannot be made"
            return of_model_error(NAME, message, error, ctx.only_in_variant(_walk))
        return _not_checked(f"the model does not run: the {error.stage} fails")
    except programs.NotExportedError as error:
        return _not_checked(f"the model is not captured{f': {error}' if said(error) else ''}")


def _walk(ctx: Context) -> None:
    """Call the eager model alone, step after step as the case names them."""
    case = ctx.case.whole or ctx.case
    model, last, count = Context(case, ctx.settings, ctx.announce).build(), None, 0
    for step in filter(None, case.steps.values()):
        made = step.inputs(Moment(fresh(last), count, 0))
        if made is not None:
            last = call(getattr(model, step.method) if case.methods else model, fresh(as_inputs(made, "a step")))
            count += 1


def _search(subject: Programs, steps: Mapping[str, Step | None], ctx: Context) -> CheckResult:
    search = Search(subject, steps, max(1, ctx.settings.examples))
    parted = search.run()
    if parted is not None:
        return _failed(subject, parted)
    if not search.calls:
        return _not_checked("no step made a call: each returned None whenever it was asked for its arguments")
    reason = f"{counted(search.calls, 'call')} in {counted(search.sequences, 'sequence')} of up to {search.longest}"
    return CheckResult(name=NAME, outcome="passed", reason=reason, notes=tuple(subject.ctx.judged))


def _not_checked(reason: str) -> CheckResult:
    return CheckResult(name=NAME, outcome="not_checked", reason=reason)


@dataclass
class Search:
    """The search for a sequence in which the sides part."""

    subject: Programs
    steps: Mapping[str, Step | None]
    examples: int
    calls: int = 0
    sequences: int = 0
    longest: int = 0
    deadline: float = field(default_factory=lambda: time.monotonic() + SECONDS)

    def run(self) -> PartedError | None:
        """The shortest sequence found in which the sides part, or ``None``."""
        first = self._fixed()
        drawn = self._drawn()
        found = [parted for parted in (drawn, first) if parted is not None]
        return min(found, key=lambda parted: len(parted.done), default=None)

    def begin(self) -> Steps:
        """Begin a sequence."""
        return Steps(self.subject, steps=self.steps)

    def count(self, run: Steps) -> None:
        """Count the calls of a sequence that has ended."""
        calls = sum(bool(done.method) for done in run.done)
        self.calls, self.sequences, self.longest = self.calls + calls, self.sequences + 1, max(self.longest, calls)
        run.end()

    def _fixed(self) -> PartedError | None:
        """Every step in the order of the case, each twice with the same arguments; then the last one many times."""
        names = [name for name, step in self.steps.items() if step is not None]
        run = self.begin()
        try:
            for name in names:
                run.step(name, 0)
                run.again()
        except PartedError as parted:
            return parted
        finally:
            self.count(run)
        run = self.begin()
        try:
            for name in [*names, *[names[-1]] * (LONGEST - len(names))]:
                run.step(name, 0)
        except PartedError as parted:
            return parted
        finally:
            self.count(run)
        return None

    def _drawn(self) -> PartedError | None:
        config = settings(
            max_examples=self.examples,
            stateful_step_count=LONGEST,
            deadline=None,
            database=None,
            derandomize=True,
            report_multiple_bugs=False,
            print_blob=False,
            verbosity=Verbosity.quiet,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        )
        try:
            run_state_machine_as_test(_machine(self), settings=config)
        except PartedError as parted:
            return parted
        except Flaky as error:  # time was up, or the model never does the same twice
            causes = [*getattr(error, "exceptions", ()), error.__cause__, error.__context__]
            return next((cause for cause in causes if isinstance(cause, PartedError)), None)
        return None


def _machine(search: Search) -> type[RuleBasedStateMachine]:
    """A state machine with a rule for each step, and one that repeats the last call."""

    class Sequence(RuleBasedStateMachine):
        @initialize()
        def begin(self) -> None:
            self.run = search.begin()

        @rule()
        def again(self) -> None:
            if time.monotonic() < search.deadline:
                self.run.again()

        def teardown(self) -> None:
            if hasattr(self, "run"):
                search.count(self.run)

    for name in search.steps:
        setattr(Sequence, f"step_{len(vars(Sequence))}", _rule(search, name))
    return Sequence


def _rule(search: Search, name: str) -> Any:
    def step(self: Any, seed: int) -> None:
        if time.monotonic() < search.deadline:
            self.run.step(name, seed)

    return rule(seed=st.integers(0, 2**16))(step)


def _failed(subject: Programs, parted: PartedError) -> CheckResult:
    evidence, place = sequences.blamed(subject, parted, parted.words)
    calls = "its first call" if len(parted.done) == 1 else f"a sequence of {len(parted.done)} calls"
    message = f"the program parts from the eager model in {calls}"
    found = blame.finding("EXP004", message, place, outcome="silent", evidence=evidence)
    return CheckResult(name=NAME, outcome="failed", reason=f"{message}: {parted.words}", findings=(found,))
