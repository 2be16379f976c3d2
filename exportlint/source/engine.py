"""From paths to findings. Nothing is printed here, and nothing that is read is imported or run."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from exportlint.findings import SEVERITIES, severity
from exportlint.rules import catalogue
from exportlint.source.cache import Cache, still_there
from exportlint.source.call_sites import CallSites
from exportlint.source.callers import Callers, Generated, Outline
from exportlint.source.discover import below, discover
from exportlint.source.files import UnreadableError, holding, read
from exportlint.source.sites import Range
from exportlint.source.suppress import comments
from exportlint.source.units import NOT_READ, merge
from exportlint.source.unused import UNUSED, unused
from exportlint.source.work import Units

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from exportlint.findings import Mode, Outcomes, Severity
    from exportlint.fixes.edits import Applicability, Fix
    from exportlint.linting.settings import Settings
    from exportlint.rules.base import Rule
    from exportlint.source.suppress import Comment
    from exportlint.source.units import Heard

SYNTAX = "EXP001"
UNSETTLED = "the settings cannot be read"
_OUTLINES = "outlines"
_READ_BY = f"Python {sys.version_info[0]}.{sys.version_info[1]} read it; code for a later one needs exportlint there."


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is asked of the linter.

    Attributes:
        modes: The capture modes that findings are judged for.
        module_bases: Further dotted names of classes that count as modules.
        tracing_predicates: Further dotted names of functions that say whether a model is being captured.
        entry_points: Dotted names of functions and methods whose bodies are captured, besides ``forward``; ``*`` stands
            for any part of a name.
        tensor_types: Further dotted names of annotations that mean a tensor.
        torch_version: The oldest release of torch that the code runs with; ``None`` for that which rules are about.
        preview: Whether rules that are not stable yet are on.
        whole_project: Whether the files of the project that were not named are looked through for calls into those
            that were; else the files that were named, and the callers that were named with them, are all that is run.
    """

    modes: tuple[Mode, ...] = ("export",)
    module_bases: frozenset[str] = frozenset()
    tracing_predicates: frozenset[str] = frozenset()
    entry_points: frozenset[str] = frozenset()
    tensor_types: frozenset[str] = frozenset()
    torch_version: tuple[int, int] | None = None
    preview: bool = False
    whole_project: bool = True

    @classmethod
    def of(cls, settings: Settings) -> Options:
        """What the settings of a project ask of the linter."""
        return cls(
            modes=settings.modes,
            module_bases=frozenset(settings.module_bases),
            tracing_predicates=frozenset(settings.tracing_predicates),
            entry_points=frozenset(settings.entry_points),
            tensor_types=frozenset(settings.tensor_types),
            torch_version=settings.torch_version,
            preview=settings.preview,
        )


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
        calls: Calls through which a model's ``forward`` gets there, outermost first: file and line.
        fix: The rewrite that can be applied.
        origins: Where what decides came from: file, line and words, the first first.
        sizes: The sizes of a model case's inputs that it is about, such as ``x.shape[0]``; empty where not all are
            known.
    """

    rule: Rule
    path: Path
    range: Range
    message: str
    rewrite: str
    severity: Severity
    outcomes: Outcomes
    variant: str = ""
    calls: tuple[tuple[Path, int], ...] = ()
    fix: Fix | None = None
    origins: tuple[tuple[Path, int, str], ...] = ()
    sizes: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, int, int, str, str]:
        """What predictions are ordered by."""
        return (str(self.path), self.range.line, self.range.column, self.rule.code, self.message)

    def fix_among(self, wanted: Collection[Applicability]) -> Fix | None:
        """The rewrite that can be applied, where its kind is wanted."""
        return self.fix if self.fix is not None and self.fix.applicability in wanted else None


@dataclass(frozen=True, slots=True)
class Unanalysed:
    """A class, or a whole file, of which nothing more can be said.

    Attributes:
        path: The file, as it was given or found; of several files, the folder that holds them.
        name: The class, or words for code that is in none; empty for the whole file.
        reason: Why, in one line.
        files: How many files it stands for; 0 for a folder that nobody could look into.
    """

    path: Path
    name: str
    reason: str
    files: int = 1

    @property
    def is_unread(self) -> bool:
        """Whether the file, or the settings that it is to be judged by, could not even be read."""
        return not self.name and self.reason.startswith((NOT_READ, UNSETTLED))

    @property
    def words(self) -> str:
        """All of it in one line, without the file."""
        if self.files != 1:
            return f"{self.files or 'its'} files were not analysed: {self.reason}"
        name = self.name if " " in self.name else f"class {self.name}"
        what = {"": "the file", "build": "the model of build()"}.get(self.name, name)
        return f"{what} was not analysed: {self.reason}"


@dataclass(frozen=True, slots=True)
class Linted:
    """What linting gave.

    Attributes:
        predictions: In the order of files and lines.
        unanalysed: What could not be analysed.
        files: The files that were linted.
        partial: Those of them of which something may be missing: code that says something of them was not analysed.
    """

    predictions: tuple[Prediction, ...]
    unanalysed: tuple[Unanalysed, ...]
    files: tuple[Path, ...] = ()
    partial: frozenset[Path] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How the work is done, which changes no finding.

    Attributes:
        cache: The folder in which what is found out is kept for the next run, or what keeps it; nothing is kept where
            ``None``.
        jobs: How many processes may work at once.
        seconds: Filled with the CPU time that each rule takes, by its code, where it is given; then one process works
            and no cache is read.
        below: The files below a folder that belong to the project, for those that nobody named.
    """

    cache: Path | Cache | None = None
    jobs: int = 1
    seconds: dict[str, float] | None = None
    below: Callable[[Path], Iterable[Path]] = below


def lint(paths: Iterable[Path], options: Options) -> tuple[Prediction, ...]:
    """What the source predicts, in the order of files and lines.

    Raises:
        MissingPathError: When a path does not exist.
    """
    return examine(paths, options).predictions


def examine_text(path: Path, data: bytes, options: Options, effort: Effort | None = None) -> Linted:
    """What a file predicts that holds these bytes, whatever lies at its path. The project around the path is read."""
    real = os.path.realpath(path)
    return _Run(options, effort or Effort(), (path,), frozenset({real}), {real: data}).all()


def examine(
    paths: Iterable[Path],
    options: Options,
    effort: Effort | None = None,
    asked: Iterable[Path] = (),
    callers: Iterable[Path] = (),
) -> Linted:
    """What the source predicts, and what of it could not be analysed.

    Args:
        paths: Files and folders.
        options: What is asked of the linter.
        effort: How the work is done.
        asked: Files of which findings are told even if another file was generated from them.
        callers: Files that call into the paths, of which no findings are told; asked for where the project is not
            looked through for them.

    Raises:
        MissingPathError: When a path does not exist.
    """
    return examine_files(discover(paths), options, effort, asked, callers)


def examine_files(
    files: Iterable[Path],
    options: Options,
    effort: Effort | None = None,
    asked: Iterable[Path] = (),
    callers: Iterable[Path] = (),
) -> Linted:
    """The same of files that were found before; of one that is gone since, it is told that it was not analysed."""
    real, calling = frozenset(map(os.path.realpath, asked)), tuple(map(os.path.realpath, callers))
    return _Run(options, effort or Effort(), tuple(files), real, calling=calling).all()


@dataclass(slots=True, eq=False)
class _Run:
    options: Options
    effort: Effort
    named: tuple[Path, ...]
    asked: frozenset[str] = frozenset()
    given: Mapping[str, bytes] = field(default_factory=dict)
    calling: tuple[str, ...] = ()
    callers: Callers = field(default_factory=Callers)
    generated: Generated = field(init=False)
    real: dict[Path, str] = field(init=False)
    elsewhere: set[Path] = field(default_factory=set)
    following: dict[Path, list[str]] = field(default_factory=dict)
    units: Units = field(init=False)
    unanalysed: list[Unanalysed] = field(default_factory=list)
    partial: set[Path] = field(default_factory=set)
    sites: CallSites = field(init=False)

    def __post_init__(self) -> None:
        """Find out which files are run, and run them."""
        cache = self.effort.cache if isinstance(self.effort.cache, Cache) else Cache(self.effort.cache)
        self.callers.below = self.effort.below
        self.callers.outlines = cache.read(_OUTLINES, dict[str, Outline]) or {}
        self.generated = Generated(self.callers.outlines if self.options.whole_project else {})
        self.real = {path: os.path.realpath(path) for path in self.named}
        beside = list(dict.fromkeys((*self.real.values(), *self.calling)))
        for path, real in self.real.items():  # its package is outlined first
            followed = self.callers.into(real) if self.options.whole_project else beside
            if real not in self.asked and self.generated.is_source(real):
                self.elsewhere.add(path)
            self.following[path] = [] if path in self.elsewhere else followed
        self.units = Units(self.options, self.effort, cache, self.callers.contents, self.given)
        self.sites = CallSites(self._text, self._importing)
        self.units.run({*self.real.values(), *(caller for callers in self.following.values() for caller in callers)})

    def all(self) -> Linted:
        """What the named files predict; what was found out is kept."""
        found = [prediction for path in self.named for prediction in self.file(path)]
        self.units.keep()
        if self.callers.learnt:
            self.units.cache.write(_OUTLINES, still_there(self.callers.outlines))
        found.sort(key=lambda p: p.key)
        return Linted(tuple(found), tuple(self.unanalysed), self.named, frozenset(self.partial))

    def file(self, path: Path) -> list[Prediction]:
        """What one file predicts, and what the files that call into it predict of it."""
        real = self.real[path]
        own = self.units.of(real)
        if own.error is not None or path in self.elsewhere:
            self.partial.add(path)
        if own.error is not None:
            return [self._unreadable(path, *own.error)]
        self.unanalysed += [Unanalysed(path, name, reason) for name, reason in own.left_out]
        if path in self.elsewhere:
            return []
        heard: dict[tuple[str, str, Range], Heard] = {}
        merge(own.found.get(real, ()), heard)
        whole = not own.left_out
        for caller in self.following[path] if own.defines else ():
            unit = self.units.of(caller)
            merge(unit.found.get(real, ()), heard)
            whole = whole and not unit.left_out
        if not whole:
            self.partial.add(path)
        there = self._comments(path) if heard or own.marked else ()
        found = [p for each in heard.values() if (p := self._prediction(path, each)) is not None]
        told = [
            p
            for p in found
            if not any(c.silences(p.rule.code, p.rule.name, p.range.line, p.range.end_line) for c in there)
        ]
        return [*_worst(told), *self._unused(path, there, heard.values(), whole=whole)]

    def _text(self, real: str) -> str | None:
        """The text of a file; ``None`` where it cannot be read."""
        data = self.given.get(real)
        try:
            return (read(Path(real)) if data is None else holding(Path(real), data)).text
        except UnreadableError:
            return None

    def _importing(self, real: str) -> list[str]:
        return self.callers.importing(real) if self.options.whole_project else [*self.real.values()]

    def _comments(self, path: Path) -> tuple[Comment, ...]:
        """The comments that silence findings in a file."""
        data = self.given.get(self.real[path])
        try:
            return comments(read(path) if data is None else holding(path, data))
        except UnreadableError:  # it changed while it was read
            return ()

    def _unused(
        self, path: Path, there: Sequence[Comment], heard: Iterable[Heard], *, whole: bool
    ) -> Iterator[Prediction]:
        """Comments that silence nothing. A report says nothing of them: what it ran may need them."""
        rule = catalogue()[UNUSED]
        missing = unused(there, heard, preview=self.options.preview, whole=whole) if self.options.whole_project else ()
        for comment, message, variant in missing:
            yield Prediction(
                rule=rule,
                path=path,
                range=Range(comment.line, comment.column, comment.line, comment.end_column),
                message=message,
                rewrite=rule.rewrite,
                severity="info",
                outcomes=rule.outcomes_of(variant),
                variant=variant,
            )

    def _prediction(self, path: Path, heard: Heard) -> Prediction | None:
        rule = catalogue()[heard.code]
        if not rule.holds_in(self.options.torch_version):
            return None
        outcomes = rule.outcomes_of(heard.variant, self.options.torch_version)
        worst: Severity | None = severity(outcomes, self.options.modes)
        doubted = worst == "error" and not heard.sure  # an error is claimed only of what surely runs
        guessed = heard.guess and not heard.of_case
        worst = "info" if rule.is_advice(heard.variant) or doubted or guessed else worst
        if worst is None:
            return None
        return Prediction(
            rule=rule,
            path=path,
            range=heard.range,
            message=f"{heard.message}, where it runs at all" if doubted else heard.message,
            rewrite=heard.rewrite or rule.rewrite,
            severity=worst,
            outcomes=outcomes,
            variant=heard.variant,
            calls=tuple((Path(file), line) for file, line in heard.calls),
            fix=self._judged(heard.fix, self.real[path]),
            origins=tuple((Path(file), line, words) for file, line, words in heard.origins),
            sizes=heard.sizes,
        )

    def _judged(self, fix: Fix | None, real: str) -> Fix | None:
        """The fix, unsafe where a call gives something else than the tensor that it takes a device from."""
        doubted = fix is not None and any(self.sites.may_give_other(real, handed) for handed in fix.handed)
        return fix.doubted() if fix is not None and doubted else fix

    def _unreadable(self, path: Path, message: str, line: int, column: int) -> Prediction:
        rule = catalogue()[SYNTAX]
        place = Range(line, column, line, column)
        return Prediction(
            rule=rule,
            path=path,
            range=place,
            message=message,
            rewrite=f"{rule.rewrite} {_READ_BY}",
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
