"""What running the module classes of one file says, about that file and about every file that their calls reach."""

from __future__ import annotations

import dataclasses
import gc
import os
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from exportlint.fixes.edits import Fix  # noqa: TC001 - msgspec asks for it
from exportlint.rules import catalogue
from exportlint.source import at_hand, cases, entries, programs, provenance
from exportlint.source.events import Asked, Called, Converted, Indexed, Iterated
from exportlint.source.files import TOO_DEEP, InaccessibleError, TooDeepError, UnreadableError
from exportlint.source.interpreter import BudgetError, Interpreter
from exportlint.source.layout import may_declare
from exportlint.source.project import Reads  # noqa: TC001 - msgspec asks for it
from exportlint.source.provenance import Came  # noqa: TC001 - msgspec asks for it
from exportlint.source.sites import Range
from exportlint.source.suppress import MARK
from exportlint.source.tree import descendants
from exportlint.source.values import Sequence, Size, Tensor, Truth, Value, is_state, made_of, options, sizes

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from exportlint.rules.base import Match, Reach, Rule
    from exportlint.source.events import Event
    from exportlint.source.index import ClassEntry, ModuleIndex
    from exportlint.source.project import Project
    from exportlint.source.sites import Site

Key = tuple[str, str, str, Range]
NOT_READ = "it cannot be read"
_DECIDED = (Asked, Converted, Indexed, Iterated)  # what happens to a value that came from somewhere
_HELD = 50_000  # lines whose trees are kept in memory
_OFTEN = 400  # files after which garbage is collected
# What draws from a generator of random numbers, by the last part of its name.
_DRAWS = frozenset({
    "rand", "randn", "randint", "randperm", "bernoulli", "multinomial", "uniform_", "normal_", "random_", "bernoulli_",
    "random", "uniform", "choice", "randrange", "gauss", "sample",
})  # fmt: skip


class Heard(msgspec.Struct, frozen=True, array_like=True):
    """A match of a rule.

    Attributes:
        code: The rule.
        variant: The variant of the rule; empty for its main form.
        range: Where.
        message: What happens there.
        rewrite: What to write instead; the rule's where empty.
        guess: Whether it rests on a guess at which dimensions vary.
        sure: Whether the code is surely run when the model is exported.
        of_case: Whether it is run by a model case.
        calls: The calls that lead there, outermost first: real path and line.
        fix: The rewrite that can be applied; none where different calls would ask for different ones.
        origins: Where what decides came from: real path, line and words, the first first.
        sizes: The sizes of a model case's inputs that it is about; empty where not all are known.
    """

    code: str
    variant: str
    range: Range
    message: str
    rewrite: str
    guess: bool
    sure: bool
    of_case: bool
    calls: tuple[tuple[str, int], ...] = ()
    fix: Fix | None = None
    origins: tuple[Came, ...] = ()
    sizes: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, Range]:
        """The place; two of one place are one."""
        return self.code, self.variant, self.range

    @property
    def rank(self) -> tuple[bool, bool]:
        """Orders what was heard of one place."""
        return self.of_case, self.sure


class Unit(msgspec.Struct, array_like=True):
    """What the module classes of a file say.

    Attributes:
        error: Why the file is no Python, and its line and column; ``None`` where it is.
        defines: Whether it defines functions or classes that others may call.
        found: What was heard, by the real path of the file that it was heard of.
        left_out: Classes that could not be analysed, and why; without a name where it is the whole file.
        reads: What was read for it.
        marked: Whether a comment in the file may silence findings.
    """

    error: tuple[str, int, int] | None = None
    defines: bool = False
    found: dict[str, list[Heard]] = {}
    left_out: list[tuple[str, str]] = []
    reads: Reads = {}
    marked: bool = False


@dataclass(slots=True, eq=False)
class Analyst:
    """Runs the module classes of one file after another.

    Attributes:
        project: Where names are resolved.
        preview: Whether rules that are not stable yet are on.
        seconds: CPU time that each rule took, by its code; not measured where ``None``.
        ran: How many files were run.
    """

    project: Project
    preview: bool = False
    seconds: dict[str, float] | None = None
    ran: int = 0
    rules: dict[Reach, dict[type[Event], list[Rule]]] = field(init=False)

    def __post_init__(self) -> None:
        """Sort the rules by where they hold, and by the events that they want."""
        self.rules = {"capture": defaultdict(list), "program": defaultdict(list)}
        for rule in catalogue().values():
            if rule.match is not None and (rule.stage == "stable" or self.preview):
                for event in rule.events:
                    self.rules[rule.reach][event].append(rule)

    def unit(self, path: Path) -> Unit:
        """What the module classes of a file say."""
        self.project.begin()
        try:
            unit = self._unit(self.project.module(path))
        except TooDeepError as error:
            unit = Unit(left_out=[("", str(error))])
        except InaccessibleError as error:
            unit = Unit(left_out=[("", f"{NOT_READ}: {error}")])
        except UnreadableError as error:
            unit = Unit((str(error), error.line, error.column))
        except Exception as error:  # one file must not cost the findings in the others
            unit = Unit(left_out=[("", reason_of(error))])
        unit.reads = dict(self.project.reads)
        self.ran += 1
        if self.project.held > _HELD or self.ran % _OFTEN == 0:
            self.project.let_go()
            gc.collect()
        return unit

    def _unit(self, module: ModuleIndex) -> Unit:
        unit = Unit(defines=bool(module.functions or module.classes))
        unit.marked = MARK in module.source.text
        heard: Places = defaultdict(dict)
        if may_hold_modules(module.source.text) or self.project.entry_points:
            unit.left_out = self._run_all(module, heard)
        if programs.may_save(module.source.text):
            unit.left_out += self._run_program(module, heard)
        unit.found = {path: list(of_path.values()) for path, of_path in heard.items()}
        return unit

    def _runs(self, reach: Reach, heard: Places) -> _Runs:
        """The runs of one file, for the rules that hold there."""
        listener = _Listener(self.rules[reach], self.seconds)
        it = Interpreter(self.project, lambda event: listener.hear(event, it))
        return _Runs(it, listener, heard)

    def _run_program(self, module: ModuleIndex, heard: Places) -> list[tuple[str, str]]:
        """Run what saves and loads, and what calls it: the program around the models."""
        runs = self._runs("program", heard)
        for name, run in programs.runs(runs.it, module):
            runs.add(name, run)
        return runs.left_out

    def _run_all(self, module: ModuleIndex, heard: Places) -> list[tuple[str, str]]:
        """Run the model cases of a file, then each of its module classes that was not entered yet."""
        runs = self._runs("capture", heard)
        it = runs.it
        for name, run in cases.runs(it, module):
            runs.add(name, run)
        for cls in module.all_classes:
            if cls not in it.entered and self.project.is_module(cls):
                runs.add(cls.name, lambda cls=cls: entries.run_class(it, cls), cls)  # type: ignore[misc]
        for entry, owner in self.project.entries(module):
            name = f"{owner.name}.{entry.name}" if owner is not None else entry.name
            runs.add(name, partial(entries.run_entry, it, entry, owner), owner)
        return runs.left_out


Places = dict[str, dict[tuple[str, str, Range], Heard]]


def may_hold_modules(text: str) -> bool:
    """Whether a file can hold a module class, or a model case of one elsewhere: the textual prefilter."""
    return ("class " in text and ("forward" in text or "torch" in text or "import" in text)) or may_declare(text)


def merge(heard: Iterable[Heard], known: dict[tuple[str, str, Range], Heard]) -> None:
    """Add what was heard of a file to what is known of it; the surer of two is kept."""
    for each in heard:
        before = known.get(each.key)
        if before is None:
            known[each.key] = each
            continue
        chosen = each if each.rank > before.rank else before
        known[each.key] = chosen if each.fix == before.fix else msgspec.structs.replace(chosen, fix=None)


@dataclass(slots=True, eq=False)
class _Listener:
    """Matches events of one run against the rules."""

    rules: dict[type[Event], list[Rule]]
    seconds: dict[str, float] | None
    found: list[tuple[str, Heard]] = field(default_factory=list)
    traced: set[tuple[object, ...]] = field(default_factory=set)
    drew: bool = False

    def hear(self, event: Event, it: Interpreter) -> None:
        """Ask the rules about an event of the interpreter's run."""
        self.drew = self.drew or (isinstance(event, Called) and event.name.rpartition(".")[2] in _DRAWS)
        for rule in self.rules.get(type(event), ()):
            begun = time.process_time() if self.seconds is not None else 0.0
            for match in rule.match(event) if rule.match is not None else ():
                site, calls = _blamed(match, it)
                heard = _heard(rule, match, site, calls, event, it)
                known = (rule.code, match.variant, site, heard.rank)
                if isinstance(event, _DECIDED) and known not in self.traced:  # of several of a rank the first is kept
                    self.traced.add(known)
                    heard = msgspec.structs.replace(heard, origins=provenance.path(it, site))
                self.found.append((os.fspath(site.source.path), heard))
            if self.seconds is not None:
                self.seconds[rule.code] = self.seconds.get(rule.code, 0.0) + time.process_time() - begun


def _blamed(match: Match, it: Interpreter) -> tuple[Site, list[Site]]:
    """The place of a match, and the calls that lead there."""
    calls = [at for at in it.calls if at is not None]
    made = match.made
    makers = [] if made is None else [i for i, node in enumerate(it.stack) if _holds(node, made)]
    if made is not None and it.calls and it.calls[0] is not None:
        makers.insert(0, -1)  # the file itself runs
    handed = it.calls[makers[-1] + 1] if makers and makers[-1] + 1 < len(it.calls) else None
    return (match.site, calls) if handed is None else (handed, calls[: calls.index(handed)])


def _holds(node: ast.AST, site: Site) -> bool:
    """Whether a site lies in a function. Nodes of different files are told apart by walking."""
    first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
    return first <= site.line <= last and any(part is site.node for part in descendants(node))


def _heard(rule: Rule, match: Match, site: Site, calls: list[Site], event: Event, it: Interpreter) -> Heard:
    completed = at_hand.completed(it, match)
    return Heard(
        rule.code,
        match.variant,
        site.range,
        match.message,
        at_hand.missing(it, match) if completed is None else at_hand.rewritten(it, match, rule.rewrite),
        match.guess,
        it.of_case or not it.optional,
        it.of_case,
        tuple((os.fspath(at.source.path), at.line) for at in calls),
        completed,
        sizes=_sizes_of(event) if it.of_case and any(each.precondition for each in rule.observed_by) else (),
    )


def _sizes_of(event: Event) -> tuple[str, ...]:
    """The inputs' sizes that an event of a model case is about; none where not all are known."""
    fields = [getattr(event, each.name) for each in dataclasses.fields(event)]
    values = [v for each in fields for v in (each if isinstance(each, tuple) else (each,)) if isinstance(v, Value)]
    values += [v for each in fields if isinstance(each, Mapping) for v in each.values()]
    return tuple(sorted(made_of([size for value in values for size in _varying_in(value)])))


def _varying_in(value: Value) -> list[Size]:
    """The sizes in a value that vary, those of a tensor's dimensions among them."""
    found = list[Size]()
    for option in options(value):
        inside: tuple[Value, ...] = ()
        if isinstance(option, Tensor):
            inside = option.dims or ()
        elif isinstance(option, Sequence):
            inside = (option.dim,)
        elif isinstance(option, Truth):
            inside = (option.of, option.against)
        found += [size for size in sizes((option, *inside)) if size.varies]
    return found


@dataclass(slots=True, eq=False)
class _Runs:
    """The runs of one file's classes."""

    it: Interpreter
    listener: _Listener
    heard: Places
    left_out: list[tuple[str, str]] = field(default_factory=list)

    def add(self, name: str, run: Callable[[], None], cls: ClassEntry | None = None) -> None:
        """Run a class, or the model case, and note what is heard."""
        self.listener.found.clear()
        self.listener.traced.clear()
        self.listener.drew = False
        reason = _within_budget(self.it, run)
        if reason:
            self.left_out.append((name, reason))
        doubted = self.listener.drew and cls is not None and _is_stateless(self.it, cls)
        for path, each in self.listener.found:
            merge([msgspec.structs.replace(each, sure=False) if doubted else each], self.heard[path])


def _is_stateless(it: Interpreter, cls: ClassEntry) -> bool:
    """Whether objects of the class hold no parameter, buffer or module: with random numbers, they augment data."""
    made = it.instances.get((id(cls), id(None)))
    held = it.attributes.get(made.key, {}).values() if made is not None else ()
    return not any(is_state(v) for value in held for v in options(value))


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
        return TOO_DEEP
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:120]
