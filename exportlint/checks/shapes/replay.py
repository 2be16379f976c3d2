"""A call that ended the process, or did not end: replayed, and made smaller, each time in a fresh child."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from exportlint import blame
from exportlint.checks import results
from exportlint.checks.isolation import fork
from exportlint.checks.isolation.job import Limits, machine_memory
from exportlint.checks.shapes.trials import Trial
from exportlint.findings import CheckResult
from exportlint.shapes.shrinking import Shrinker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exportlint.checks.isolation.job import Emit, Ending
    from exportlint.checks.shapes.journal import Entry
    from exportlint.checks.shapes.trials import Subject
    from exportlint.shapes.contents import Recipe
    from exportlint.shapes.strategies import Space

CPU_SECONDS, WALL_SECONDS = 5.0, 20.0  # what one call may take: far more than any that is drawn
TRIES, TRIES_OF_HANGS = 20, 6  # smaller calls to try; one that hangs costs all of its time


class Replay:
    """Runs calls in fresh children and remembers how the last that failed ended."""

    def __init__(self, subject: Subject, space: Space) -> None:
        self._subject, self._space = subject, space
        self.ending: Ending | None = None
        self.who = ""

    def dies(self, recipes: Mapping[int, Recipe]) -> bool:
        """Whether the call ends its process, or does not end in time; what the model refuses does not."""
        heard: dict[str, Any] = {}
        ending = fork.run(lambda emit: self._run(recipes, emit), _limits(), heard.update)
        died = ending.how not in ("done", "exit")
        if died:
            self.ending, self.who = ending, heard.get("stage", "eager model")
        return died

    def _run(self, recipes: Mapping[int, Recipe], emit: Emit) -> None:
        inputs = self._space.made(recipes).inputs
        for who in ("eager model", "program"):
            emit({"stage": who})
            try:
                if who == "program":
                    self._subject.run(self._subject.module, inputs)
                else:
                    self._subject.eager(inputs)
            except Exception:
                return


def _limits() -> Limits:
    return Limits(CPU_SECONDS, WALL_SECONDS, memory_bytes=machine_memory() // 2)


def result(name: str, subject: Subject, space: Space, entry: Entry, ended: str) -> CheckResult:
    """The result for a check whose process died in a drawn call.

    Args:
        name: Name of the check.
        subject: The model and its program.
        space: Where the call was drawn from.
        entry: The journal's last call.
        ended: How the process ended, in words.
    """
    replay = Replay(subject, space)
    if not entry.recipes or not replay.dies(entry.recipes):
        return _unreplayed(name, entry, ended)
    found = _of_ending(name, Trial.of(space.made(entry.recipes)), replay)
    subject.ctx.provisional(found)  # making it smaller may take longer than there is time
    tries = TRIES_OF_HANGS if found.outcome == "timed_out" else TRIES
    smallest = Shrinker(space, replay.dies, tries=tries).shrink(entry.recipes)
    return _of_ending(name, Trial.of(space.made(smallest)), replay) if smallest != entry.recipes else found


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
    return "does not end" if ending.how in ("cpu", "wall") else ending.words.replace("was killed", "is killed")


def _unreplayed(name: str, entry: Entry, ended: str) -> CheckResult:
    message = f"the process {ended} while the {entry.who} ran a drawn call"
    finding = blame.finding("EXP004", message, None, outcome="breaks", evidence=entry.words)
    notes = (f"the call: {entry.code}",) if entry.code else ()
    reason = f"{message}: {entry.words}; alone, the call does not end its process"
    return dataclasses.replace(
        CheckResult(name=name, outcome="crashed", reason=reason, findings=(finding,)), notes=notes
    )
