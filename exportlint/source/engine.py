"""From paths to findings. Nothing is printed here, and nothing that is read is imported or run."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from libcst import CSTNode

from exportlint.findings import SEVERITIES, severity
from exportlint.rules import catalogue
from exportlint.source import entries
from exportlint.source.discover import discover
from exportlint.source.events import Changed
from exportlint.source.files import UnreadableError
from exportlint.source.fragments import Fragment, Range, UnparsableError
from exportlint.source.interpreter import BudgetError, Interpreter
from exportlint.source.project import Project
from exportlint.source.suppress import silences, suppressed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from exportlint.findings import Mode, Outcomes, Severity
    from exportlint.rules.base import Match, Rule
    from exportlint.source.events import Event
    from exportlint.source.index import ModuleIndex

SYNTAX = "EXP001"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is asked of the linter.

    Attributes:
        modes: The capture modes that findings are judged for.
        module_bases: Further dotted names of classes that count as modules.
        preview: Whether rules that are not stable yet are on.
    """

    modes: tuple[Mode, ...] = ("export",)
    module_bases: frozenset[str] = frozenset()
    preview: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A rule at a place in source.

    Attributes:
        rule: The rule.
        path: The file, as it was given or found.
        range: Where.
        message: What happens there.
        rewrite: What to write instead.
        severity: The worst over the modes that were asked for; ``info`` for a variant that is advice.
        outcomes: What happens in each capture mode.
        variant: Name of the rule's variant; empty for its main form.
    """

    rule: Rule
    path: Path
    range: Range
    message: str
    rewrite: str
    severity: Severity
    outcomes: Outcomes
    variant: str = ""

    @property
    def key(self) -> tuple[str, int, int, str, str]:
        """What predictions are ordered by."""
        return (str(self.path), self.range.line, self.range.column, self.rule.code, self.message)


@dataclass(frozen=True, slots=True)
class Unanalysed:
    """A class, or a whole file, of which nothing more can be said.

    Attributes:
        path: The file, as it was given or found.
        name: The class; empty for the whole file.
        reason: Why, in one line.
    """

    path: Path
    name: str
    reason: str

    @property
    def words(self) -> str:
        """All of it in one line, without the file."""
        what = {"": "the file", "build": "the model of build()"}.get(self.name, f"class {self.name}")
        return f"{what} was not analysed: {self.reason}"


@dataclass(frozen=True, slots=True)
class Linted:
    """What linting gave: predictions in the order of files and lines, what could not be analysed, and the files."""

    predictions: tuple[Prediction, ...]
    unanalysed: tuple[Unanalysed, ...]
    files: tuple[Path, ...] = ()


def lint(paths: Iterable[Path], options: Options) -> tuple[Prediction, ...]:
    """What the source predicts, in the order of files and lines.

    Raises:
        MissingPathError: When a path does not exist.
    """
    return examine(paths, options).predictions


def examine(paths: Iterable[Path], options: Options) -> Linted:
    """What the source predicts, and what of it could not be analysed.

    Raises:
        MissingPathError: When a path does not exist.
    """
    run = _Run(options)
    found: list[Prediction] = []
    files = discover(paths)
    for path in files:
        try:
            found += run.file(path)
        except Exception as error:  # one file must not cost the findings in the others
            run.unanalysed.append(Unanalysed(path, "", _reason(error)))
    return Linted(tuple(sorted(found, key=lambda p: p.key)), tuple(run.unanalysed), files)


def _reason(error: Exception) -> str:
    """Why an analysis ended early, in one line."""
    if isinstance(error, BudgetError):
        return "it takes more steps than the analysis may"
    # libcst turns a recursion into the KeyError of a node, whose text would be the whole tree.
    if isinstance(error, RecursionError) or any(isinstance(value, CSTNode) for value in error.args):
        return "its code is nested too deeply"
    text = " ".join(str(error).split())
    return text if isinstance(error, UnparsableError) else f"{type(error).__name__}: {text}"[:120]


def may_hold_modules(text: str) -> bool:
    """Whether a file can hold a module class: the textual prefilter."""
    return "class " in text and ("forward" in text or "torch" in text or "import" in text)


@dataclass(slots=True, eq=False)
class _Run:
    options: Options
    project: Project = field(init=False)
    fragments: dict[int, Fragment | None] = field(default_factory=dict)
    unanalysed: list[Unanalysed] = field(default_factory=list)
    rules: dict[type[Event], list[Rule]] = field(init=False)

    def __post_init__(self) -> None:
        self.project = Project(self.options.module_bases)
        self.rules = defaultdict(list)
        for rule in catalogue().values():
            if rule.match is not None and (rule.stage == "stable" or self.options.preview):
                for event in rule.events:
                    self.rules[event].append(rule)

    def file(self, path: Path) -> list[Prediction]:
        """What one file predicts."""
        try:
            module = self.project.module(path)
        except UnreadableError as error:
            return [self._unreadable(path, error)]
        if not may_hold_modules(module.source.text):
            return []
        found: dict[tuple[str, str, Range], tuple[Rule, Match]] = {}
        _analyse(self, path, module, found)
        silenced = suppressed(module.source)
        predictions = (self._prediction(path, rule, match) for rule, match in found.values())
        heard = [
            p
            for p in predictions
            if p is not None and not silences(silenced, p.rule.code, p.rule.name, p.range.line, p.range.end_line)
        ]
        return _worst(heard)

    def _prediction(self, path: Path, rule: Rule, match: Match) -> Prediction | None:
        outcomes = rule.outcomes_of(match.variant)
        advice = rule.is_advice(match.variant)
        worst: Severity | None = "info" if advice else severity(outcomes, self.options.modes)
        if worst is None:
            return None
        return Prediction(
            rule=rule,
            path=path,
            range=match.site.range,
            message=match.message,
            rewrite=match.rewrite or rule.rewrite,
            severity=worst,
            outcomes=outcomes,
            variant=match.variant,
        )

    def _unreadable(self, path: Path, error: UnreadableError) -> Prediction:
        rule = catalogue()[SYNTAX]
        place = Range(error.line, error.column, error.line, error.column)
        return Prediction(
            rule=rule,
            path=path,
            range=place,
            message=str(error),
            rewrite=rule.rewrite,
            severity=severity(rule.outcomes, self.options.modes) or "error",
            outcomes=rule.outcomes,
        )


def _analyse(
    run: _Run, path: Path, module: ModuleIndex, found: dict[tuple[str, str, Range], tuple[Rule, Match]]
) -> None:
    def listen(event: Event) -> None:
        # What happens in another file is that file's to report: findings do not hang on who else is linted.
        if event.site.fragment.source is not module.source and not isinstance(event, Changed):
            return
        for rule in run.rules.get(type(event), ()):
            for match in rule.match(event) if rule.match is not None else ():
                if match.site.fragment.source is module.source:
                    found.setdefault((rule.code, match.variant, match.site.range), (rule, match))

    it = Interpreter(run.project, listen, fragments=run.fragments)
    reasons: list[tuple[str, str]] = []
    if "build" in module.functions and "inputs" in module.functions:
        reasons.append(("build", _within_budget(it, lambda: entries.run_case(it, module))))
    for cls in module.all_classes:
        if cls not in it.entered and run.project.is_module(cls):
            reason = _within_budget(it, lambda cls=cls: entries.run_class(it, cls))  # type: ignore[misc]
            reasons.append((cls.name, reason))
    run.unanalysed += [Unanalysed(path, name, reason) for name, reason in reasons if reason]


def _within_budget(it: Interpreter, run: Callable[[], None]) -> str:
    """Run an analysis; the result says why it ended early, and is empty where it did not."""
    it.reset()
    try:
        run()
    except Exception as error:  # one class must not cost the findings in the others
        it.reset()
        return _reason(error)
    return ""


def _worst(found: list[Prediction]) -> list[Prediction]:
    """One prediction of a rule at a place: of several variants, the one that is worst in the modes asked for."""
    ranked = sorted(found, key=lambda p: (SEVERITIES.index(p.severity), p.variant))
    unique: dict[tuple[str, Range], Prediction] = {}
    for prediction in ranked:
        unique.setdefault((prediction.rule.code, prediction.range), prediction)
    return list(unique.values())
