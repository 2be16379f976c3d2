"""From paths to findings. Nothing is printed here, and nothing that is read is imported or run."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from exportlint.findings import SEVERITIES, severity
from exportlint.rules import catalogue
from exportlint.source.callers import Callers, Generated
from exportlint.source.discover import discover
from exportlint.source.files import UnreadableError
from exportlint.source.project import Project
from exportlint.source.sites import Range
from exportlint.source.suppress import silences, suppressed
from exportlint.source.units import Unit, analyse, reason_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from exportlint.findings import Mode, Outcomes, Severity
    from exportlint.rules.base import Rule
    from exportlint.source.events import Event
    from exportlint.source.files import SourceFile
    from exportlint.source.index import ModuleIndex
    from exportlint.source.units import Heard

SYNTAX = "EXP001"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is asked of the linter.

    Attributes:
        modes: The capture modes that findings are judged for.
        module_bases: Further dotted names of classes that count as modules.
        tracing_predicates: Further dotted names of functions that say whether a model is being captured.
        preview: Whether rules that are not stable yet are on.
        whole_project: Whether the files of the project that were not named are looked through for calls into those
            that were; else the files that were named are all that is run.
    """

    modes: tuple[Mode, ...] = ("export",)
    module_bases: frozenset[str] = frozenset()
    tracing_predicates: frozenset[str] = frozenset()
    preview: bool = False
    whole_project: bool = True


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
    files = discover(paths)
    run = _Run(options, files)
    found: list[Prediction] = []
    for path in files:
        try:
            found += run.file(path)
        except Exception as error:  # one file must not cost the findings in the others
            run.unanalysed.append(Unanalysed(path, "", reason_of(error)))
    return Linted(tuple(sorted(found, key=lambda p: p.key)), tuple(run.unanalysed), files)


def may_hold_modules(text: str) -> bool:
    """Whether a file can hold a module class: the textual prefilter."""
    return "class " in text and ("forward" in text or "torch" in text or "import" in text)


@dataclass(slots=True, eq=False)
class _Run:
    options: Options
    named: tuple[Path, ...] = ()
    project: Project = field(init=False)
    callers: Callers = field(default_factory=Callers)
    generated: Generated = field(default_factory=Generated)
    units: dict[SourceFile, Unit] = field(default_factory=dict)
    unanalysed: list[Unanalysed] = field(default_factory=list)
    rules: dict[type[Event], list[Rule]] = field(init=False)

    def __post_init__(self) -> None:
        self.project = Project(self.options.module_bases, self.options.tracing_predicates)
        self.rules = defaultdict(list)
        for rule in catalogue().values():
            if rule.match is not None and (rule.stage == "stable" or self.options.preview):
                for event in rule.events:
                    self.rules[event].append(rule)

    def file(self, path: Path) -> list[Prediction]:
        """What one file predicts, and what the files that call into it predict of it."""
        try:
            module = self.project.module(path)
        except UnreadableError as error:
            return [self._unreadable(path, error)]
        own = self.unit(module)
        self.unanalysed += [Unanalysed(path, name, reason) for name, reason in own.left_out]
        if self.generated.is_source(path):
            return []
        heard = dict(own.found.get(module.source, {}))
        if module.functions or module.classes:
            for unit in self._calling(path):
                for key, each in unit.found.get(module.source, {}).items():
                    if key not in heard or each.rank > heard[key].rank:
                        heard[key] = each
        silenced = suppressed(module.source)
        predictions = (self._prediction(path, each) for each in heard.values())
        return _worst(
            [
                p
                for p in predictions
                if p is not None and not silences(silenced, p.rule.code, p.rule.name, p.range.line, p.range.end_line)
            ]
        )

    def unit(self, module: ModuleIndex) -> Unit:
        """What the module classes of a file say; each file is run once."""
        if module.source not in self.units:
            holds = may_hold_modules(module.source.text)
            self.units[module.source] = analyse(self.project, module, self.rules) if holds else Unit()
        return self.units[module.source]

    def _calling(self, path: Path) -> Iterator[Unit]:
        for caller in self.callers.of(path) if self.options.whole_project else self.named:
            try:
                yield self.unit(self.project.module(caller))
            except UnreadableError:
                continue

    def _prediction(self, path: Path, heard: Heard) -> Prediction | None:
        rule, match = heard.rule, heard.match
        outcomes = rule.outcomes_of(match.variant)
        worst: Severity | None = severity(outcomes, self.options.modes)
        doubted = worst == "error" and not heard.sure  # an error is claimed only of what surely runs
        guessed = match.guess and not heard.of_case
        worst = "info" if rule.is_advice(match.variant) or doubted or guessed else worst
        if worst is None:
            return None
        return Prediction(
            rule=rule,
            path=path,
            range=match.site.range,
            message=f"{match.message}, where it runs at all" if doubted else match.message,
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


def _worst(found: list[Prediction]) -> list[Prediction]:
    """One prediction of a rule at a place: of several variants, the one that is worst in the modes asked for.

    Of several places on one line that say the same thing, such as the two sides of an image, the first is kept.
    """
    ranked = sorted(found, key=lambda p: (SEVERITIES.index(p.severity), p.variant, p.range.line, p.range.column))
    unique: dict[tuple[str, Range], Prediction] = {}
    for prediction in ranked:
        unique.setdefault((prediction.rule.code, prediction.range), prediction)
    lines: dict[tuple[str, str, int], Prediction] = {}
    for prediction in unique.values():
        lines.setdefault((prediction.rule.code, prediction.variant, prediction.range.line), prediction)
    return list(lines.values())
