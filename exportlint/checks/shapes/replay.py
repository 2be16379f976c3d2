"""A call that ended the process, or did not end: replayed, and made smaller, each time in a fresh child."""

from __future__ import annotations

import contextlib
import faulthandler
import os
from typing import TYPE_CHECKING, Any, NoReturn

from torch.utils import _pytree as pytree

from exportlint import blame
from exportlint.checks import results
from exportlint.checks.isolation import fork
from exportlint.checks.isolation.job import LATE, Limits, machine_memory
from exportlint.checks.shapes.trials import Trial
from exportlint.findings import CheckResult
from exportlint.shapes.contents import NUMBER, kinds_of
from exportlint.shapes.shrinking import Shrinker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from exportlint.checks.isolation.job import Emit, Ending
    from exportlint.checks.shapes.journal import Entry
    from exportlint.checks.shapes.trials import Subject
    from exportlint.findings import Outcome
    from exportlint.shapes.contents import Recipe
    from exportlint.shapes.strategies import Space

LENIENCE = 5.0  # times as long as before calls may take once one was late that alone was not
SLOWER = 2  # times as long as a call may take the first replay of it may take: the machine may have been busy
BUSY = 3  # times as long as it may compute the first replay may take on a busy machine
TRIES, TRIES_OF_HANGS = 20, 6  # smaller calls to try; one that hangs costs all of its time


class Replay:
    """Runs calls in fresh children and remembers how the last that failed ended."""

    def __init__(self, subject: Subject, space: Space) -> None:
        self._subject, self._space = subject, space
        self.ending: Ending | None = None
        self.who = ""
        self.seconds, self._waiting = SLOWER * subject.patience, BUSY

    def dies(self, recipes: Mapping[int, Recipe]) -> bool:
        """Whether the call ends its process, or does not end in time; what the model refuses does not."""
        heard: dict[str, Any] = {}
        ending = fork.run(lambda emit: self._run(recipes, emit), self._limits(), heard.update)
        died = ending.how != "done" and (ending.how != "exit" or "stage" in heard)  # else it never came to the call
        if died:
            self.ending, self.who = ending, heard.get("stage", "eager model")
            self.seconds, self._waiting = self._subject.patience, 1
        return died

    def _limits(self) -> Limits:
        # Two calls, and one that waits without computing.
        wall = 2 * self.seconds * self._waiting + 10
        return Limits(2 * self.seconds, wall, memory_bytes=machine_memory() // 2)

    def _run(self, recipes: Mapping[int, Recipe], emit: Emit) -> None:
        inputs = self._space.made(recipes).inputs
        for who in ("eager model", "program"):
            emit({"stage": who})
            try:
                with _stack_at_exit():
                    if who == "program":
                        self._subject.run(self._subject.module, inputs)
                    else:
                        self._subject.eager(inputs)
            except Exception:
                return


@contextlib.contextmanager
def _stack_at_exit() -> Iterator[None]:
    """Let ``os._exit`` print the stack, since it leaves no traceback."""
    leave = os._exit

    def told(status: int) -> NoReturn:
        faulthandler.dump_traceback(file=2, all_threads=False)
        leave(status)

    os._exit = told
    try:
        yield
    finally:
        os._exit = leave


def result(name: str, subject: Subject, space: Space, entry: Entry, ended: str) -> tuple[CheckResult, Trial | None]:
    """The result for a check whose process died in a drawn call, and the smallest call that ends a process.

    Args:
        name: Name of the check.
        subject: The model and its program.
        space: Where the call was drawn from.
        entry: The journal's last call.
        ended: How the process ended, in words.
    """
    replay = Replay(subject, space)
    dies = bool(entry.recipes) and replay.dies(entry.recipes)
    if not dies and entry.recipes and ended == LATE:
        note = f"the {entry.who} {ended} once, and alone it did not: {entry.words}"
        return CheckResult(name=name, outcome="passed", notes=(note,)), None
    if not dies:
        return _unreplayed(name, entry, ended), None
    found = _of_ending(name, Trial.of(space.made(entry.recipes)), replay)
    subject.ctx.provisional(found)  # making it smaller may take longer than there is time
    tries = TRIES_OF_HANGS if found.outcome == "timed_out" else TRIES
    smallest = Shrinker(space, replay.dies, tries=tries).shrink(entry.recipes)
    trial = Trial.of(space.made(smallest))
    return (_of_ending(name, trial, replay) if smallest != entry.recipes else found), trial


def likeness(subject: Subject, space: Space, smallest: Trial) -> Callable[[Trial], bool]:
    """Whether a call is at least as large as this one in each dynamic size, with contents as they are needed for it."""
    flat = pytree.tree_leaves(space.example)
    needed = {
        index: made.kind
        for index, made in smallest.recipes.items()
        if made.kind not in (NUMBER, kinds_of(flat[index], space.domains.get(index))[0])
    }

    def is_like(trial: Trial) -> bool:
        larger = all(trial.sizes.get(source, 0) >= smallest.sizes[source] for source in subject.asked)
        return larger and all(
            index in trial.recipes and trial.recipes[index].kind == kind for index, kind in needed.items()
        )

    return is_like


def _of_ending(name: str, trial: Trial, replay: Replay) -> CheckResult:
    ending = replay.ending
    assert ending is not None  # the first replay died
    message = f"the {replay.who} {_words(ending)} in a call inside the contract"
    place = results.fatal_place(ending.output)
    evidence = f"{trial.words}: {results.last_words(ending.output) or 'no last words'}"
    rule, rewrite = ("EXP002", results.REWRITES["drawn call"]) if replay.who == "eager model" else ("EXP004", None)
    finding = blame.finding(rule, message, place, outcome="breaks", rewrite=rewrite, evidence=evidence)
    return CheckResult(
        name=name,
        outcome="timed_out" if ending.how in ("cpu", "wall") else "crashed",
        reason=f"{message}: {trial.words}",
        findings=(finding,),
        notes=(f"the smallest failing call: {trial.code}", "replayed in fresh processes"),
    )


def _words(ending: Ending) -> str:
    if ending.how in ("cpu", "wall"):
        return "does not end"
    raised = results.uncaught(ending)
    if raised:
        return f"raises {raised}, which ends the process,"
    return ending.words.replace("was killed", "is killed").replace("ended", "ends the process")


def _unreplayed(name: str, entry: Entry, ended: str) -> CheckResult:
    message = f"the process {ended} while the {entry.who} ran a call"
    outcome: Outcome = "timed_out" if ended == LATE else "crashed"
    rule, rewrite = ("EXP002", results.REWRITES["drawn call"]) if entry.who == "eager model" else ("EXP004", None)
    finding = blame.finding(rule, message, None, outcome="breaks", rewrite=rewrite, evidence=entry.words)
    alone = "alone, the call does not end its process" if entry.recipes else "it was not drawn, and not called again"
    notes = (f"the call: {entry.code}",) if entry.code else ()
    reason = f"{message}: {entry.words}; {alone}"
    return CheckResult(name=name, outcome=outcome, reason=reason, findings=(finding,), notes=notes)
