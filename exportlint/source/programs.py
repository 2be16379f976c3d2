"""The program around the models: functions, methods and statements of a file that save, load and script models."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from exportlint.source import entries
from exportlint.source.state import Frame, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from exportlint.source.index import ClassEntry, FunctionEntry, ModuleIndex
    from exportlint.source.interpreter import Interpreter

_SAVES = (
    r"\b(?:save|load|load_state_dict|script|trace|DataParallel|DistributedDataParallel)\("
    r"|(?<!json\.)(?<!yaml\.)\bdumps?\("
)
_MENTIONED = re.compile(_SAVES)
_STEPS = 100_000  # what saves a model is seldom far away
_CALLERS = 2  # how many calls away from what saves or loads a function may be


def may_save(text: str) -> bool:
    """Whether a file may save, load or script a model: a textual prefilter."""
    return "torch" in text and _MENTIONED.search(text) is not None


def runs(it: Interpreter, module: ModuleIndex) -> Iterator[tuple[str, Callable[[], None]]]:
    """What is to be run, each with its name: functions that save or load, those that call them, and the file itself."""
    defined: list[tuple[FunctionEntry, ClassEntry | None]] = [(f, None) for f in module.functions.values()]
    defined += [(entry, cls) for cls in module.all_classes for entry in cls.methods.values()]
    every = [(entry, cls, "".join(entry.extent.lines)) for entry, cls in defined]
    wanted = _MENTIONED
    chosen = [each for each in every if wanted.search(each[2])]
    for _ in range(_CALLERS):
        names = {re.escape(cls.name if cls and entry.name == "__init__" else entry.name) for entry, cls, _ in chosen}
        wanted = re.compile("|".join([_SAVES, *(rf"\b{name}\(" for name in sorted(names))]))
        chosen = [each for each in every if wanted.search(each[2])]
    for entry, cls, _ in chosen:
        name = entry.name if cls is None else f"{cls.name}.{entry.name}"
        yield f"function {name}", partial(_run_function, it, entry, cls)
    yield "code outside of functions", partial(_run_file, it, module, wanted)


def _run_function(it: Interpreter, entry: FunctionEntry, cls: ClassEntry | None) -> None:
    it.steps = _STEPS
    entries.run_entry(it, entry, cls)


def _run_file(it: Interpreter, module: ModuleIndex, wanted: re.Pattern[str]) -> None:
    """Run the statements that run when the file does, if any of them saves or loads."""
    lines = list(module.source.lines)
    for extent in (*(f.extent for f in module.functions.values()), *(c.extent for c in module.all_classes)):
        lines[extent.first - 1 : extent.last] = [""] * len(extent.lines)
    if wanted.search("".join(lines)):
        state = State(Frame(module))
        it.block(module.body, state)
        it.finish(state)
