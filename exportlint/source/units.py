"""What running the module classes of one file says, about that file and about every file that their calls reach."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from exportlint.source import entries
from exportlint.source.events import Called
from exportlint.source.interpreter import BudgetError, Interpreter
from exportlint.source.sites import Range
from exportlint.source.values import Instance, Tensor, TorchModule, Value, options

if TYPE_CHECKING:
    from collections.abc import Callable

    from exportlint.rules.base import Match, Rule
    from exportlint.source.events import Event
    from exportlint.source.files import SourceFile
    from exportlint.source.index import ClassEntry, ModuleIndex
    from exportlint.source.project import Project

Key = tuple[str, str, Range]
# What draws from a generator of random numbers, by the last part of its name.
_DRAWS = frozenset({
    "rand", "randn", "randint", "randperm", "bernoulli", "multinomial", "uniform_", "normal_", "random_", "bernoulli_",
    "random", "uniform", "choice", "randrange", "gauss", "sample",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Heard:
    """A match of a rule.

    Attributes:
        rule: The rule.
        match: The match.
        sure: Whether the code is surely run when the model is exported.
        of_case: Whether it is run by a model case.
    """

    rule: Rule
    match: Match
    sure: bool
    of_case: bool = False

    @property
    def rank(self) -> tuple[bool, bool]:
        """Orders what was heard of one place."""
        return self.of_case, self.sure


@dataclass(slots=True, eq=False)
class Unit:
    """What the module classes of a file say.

    Attributes:
        found: Matches, by the file that holds them.
        left_out: Classes that could not be analysed, and why.
    """

    found: dict[SourceFile, dict[Key, Heard]] = field(default_factory=lambda: defaultdict(dict))
    left_out: list[tuple[str, str]] = field(default_factory=list)

    def add(self, source: SourceFile, key: Key, heard: Heard) -> None:
        """Note a match; the surer of two is kept."""
        known = self.found[source].get(key)
        if known is None or heard.rank > known.rank:
            self.found[source][key] = heard


@dataclass(slots=True, eq=False)
class _Listener:
    """Matches events of one run against the rules."""

    rules: dict[type[Event], list[Rule]]
    found: list[tuple[SourceFile, Key, Heard]] = field(default_factory=list)
    drew: bool = False

    def hear(self, event: Event, it: Interpreter) -> None:
        """Ask the rules about an event of the interpreter's run."""
        self.drew = self.drew or (isinstance(event, Called) and event.name.rpartition(".")[2] in _DRAWS)
        for rule in self.rules.get(type(event), ()):
            for match in rule.match(event) if rule.match is not None else ():
                key = (rule.code, match.variant, match.site.range)
                heard = Heard(rule, match, it.of_case or not it.optional, it.of_case)
                self.found.append((match.site.source, key, heard))


def analyse(project: Project, module: ModuleIndex, rules: dict[type[Event], list[Rule]]) -> Unit:
    """Run the model case of a file, then each of its module classes that was not entered yet."""
    unit = Unit()
    listener = _Listener(rules)
    it = Interpreter(project, lambda event: listener.hear(event, it))
    if "build" in module.functions and "inputs" in module.functions:
        _run(unit, listener, "build", it, lambda: entries.run_case(it, module))
    for cls in module.all_classes:
        if cls not in it.entered and project.is_module(cls):
            _run(unit, listener, cls.name, it, lambda cls=cls: entries.run_class(it, cls), cls)  # type: ignore[misc]
    return unit


def _run(
    unit: Unit,
    listener: _Listener,
    name: str,
    it: Interpreter,
    run: Callable[[], None],
    cls: ClassEntry | None = None,
) -> None:
    listener.found.clear()
    listener.drew = False
    reason = _within_budget(it, run)
    if reason:
        unit.left_out.append((name, reason))
    doubted = listener.drew and cls is not None and _is_stateless(it, cls)
    for source, key, heard in listener.found:
        unit.add(source, key, replace(heard, sure=False) if doubted else heard)


def _is_stateless(it: Interpreter, cls: ClassEntry) -> bool:
    """Whether objects of the class hold no parameter, buffer or module: with random numbers, they augment data."""
    made = it.instances.get((id(cls), id(None)))
    held = it.attributes.get(made.key, {}).values() if made is not None else ()
    return not any(_is_state(v) for value in held for v in options(value))


def _is_state(value: Value) -> bool:
    if isinstance(value, Tensor):
        return value.kept in ("parameter", "buffer")
    return isinstance(value, TorchModule) or (isinstance(value, Instance) and value.module)


def _within_budget(it: Interpreter, run: Callable[[], None]) -> str:
    """Run an analysis; the result says why it ended early, and is empty where it did not."""
    it.reset()
    try:
        run()
    except Exception as error:  # one class must not cost the findings in the others
        it.reset()
        return reason_of(error)
    return ""


def reason_of(error: Exception) -> str:
    """Why an analysis ended early, in one line."""
    if isinstance(error, BudgetError):
        return "it takes more steps than the analysis may"
    if isinstance(error, RecursionError):
        return "its code is nested too deeply"
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:120]
