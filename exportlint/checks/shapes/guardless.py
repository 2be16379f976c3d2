"""What a program does with a call that its guards refuse, in the forms in which torch drops them."""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING, Any

import torch

from exportlint.torch_hooks import serialisation

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.export import ExportedProgram

    from exportlint.checks.shapes.trials import FaultError, Subject


def _reloaded(program: ExportedProgram) -> torch.nn.Module:
    file = io.BytesIO()
    with serialisation.quick():
        torch.export.save(program, file)
        file.seek(0)
        return torch.export.load(file).module()


# The forms, in the words that a user has for them.
FORMS: dict[str, Callable[[ExportedProgram], torch.nn.Module]] = {
    "module(check_guards=False)": lambda program: program.module(check_guards=False),
    "torch.export.unflatten": torch.export.unflatten,
    "save and load": _reloaded,
    "run_decompositions": lambda program: program.run_decompositions().module(),
}
COSTLY = ("save and load", "run_decompositions")  # these take as long as an export
MOST_NODES = 100  # of a program for which the costly forms are made


class Guardless:
    """The forms of one program, made when they are first needed.

    Attributes:
        untried: The forms that were not made, in words; empty where all were.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._made: dict[str, torch.nn.Module | None] = {}
        nodes = len(subject.program.graph.nodes)
        self._forms = [name for name in FORMS if nodes <= MOST_NODES or name not in COSTLY]
        self.untried = f"{' and '.join(COSTLY)}: the program has {nodes} nodes" if nodes > MOST_NODES else ""

    def judge(self, fault: FaultError) -> None:
        """Write into a fault what happens where nothing refuses its call, or others that violate the same guard."""
        if fault.outcome != "specialises" or fault.guard is None:
            return
        for told, expected in self._subject.telling(fault.guard, fault.trial):
            wrong = {name: said for name in self._forms if (said := self._answer(name, told.inputs, expected))}
            if wrong:
                other = "" if told.sizes == fault.trial.sizes else f", for {told.words}"
                said = next(iter(wrong.values()))
                fault.silent = f"; answered without a word, and wrongly, after {', '.join(wrong)}{other}: {said}"
                return

    def _answer(self, name: str, inputs: Any, expected: Any) -> str | None:
        """How the result of a form differs; ``None`` where it is right, or refuses the call too."""
        module = self._module(name)
        if module is None:
            return None
        try:
            actual = self._subject.run(module, inputs)
        except Exception:
            return None
        difference = self._subject.differ(expected, actual, inputs)
        return None if difference is None else str(difference)

    def _module(self, name: str) -> torch.nn.Module | None:
        if name not in self._made:
            self._made[name] = None
            with contextlib.suppress(Exception):  # a program that cannot be saved, or decomposed
                self._made[name] = FORMS[name](self._subject.program)
        return self._made[name]
