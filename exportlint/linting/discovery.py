"""Which files are linted: those that were named, and those below named folders that no setting passes over."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from exportlint.config import ConfigError
from exportlint.linting.settings import EXCLUDED, as_in_git, compiled
from exportlint.source.discover import gathered
from exportlint.source.files import content

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    from exportlint.linting.settings import Resolver, Settings

_NAMES = frozenset(EXCLUDED)
Patterns: TypeAlias = "tuple[GitIgnoreSpecPattern, ...]"


def discover(paths: Iterable[Path], resolver: Resolver) -> tuple[Path, ...]:
    """The files to lint, each once, in the order of their paths.

    A file that is named is linted, whatever its suffix is and whatever excludes it, unless ``force-exclude`` is set.
    What excludes a folder that is named excludes nothing below it.

    Raises:
        MissingPathError: When a path does not exist.
        ConfigError: When the configuration of one of them means nothing.
    """
    found = discovered(paths, resolver)
    for words in found.refused:
        raise ConfigError(words)
    return found.files


def of_project(folder: Path, resolver: Resolver) -> Iterator[Path]:
    """The files below a folder that are the project's: those that no setting passes over."""
    return _Walk(folder, resolver).files()


@dataclass(frozen=True, slots=True)
class Discovered:
    """Files that were asked for.

    Attributes:
        files: Those to lint, each once, in the order of their paths.
        refused: Those whose configuration means nothing, by what is wrong with it.
        unlisted: Folders of which nobody may see what they hold, and why.
        empty: Folders that were named, and that hold nothing to lint.
    """

    files: tuple[Path, ...]
    refused: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    unlisted: Mapping[Path, str] = field(default_factory=dict)
    empty: tuple[Path, ...] = ()


def discovered(paths: Iterable[Path], resolver: Resolver) -> Discovered:
    """The files to lint, as `discover` finds them, and those that have no settings to be linted under.

    Raises:
        MissingPathError: When a path does not exist.
    """
    wrong: dict[Path, str] = {}
    unlisted: dict[Path, str] = {}
    empty: list[Path] = []

    def below(folder: Path) -> Iterable[Path]:
        walk = _Walk(folder, resolver, wrong)
        files = tuple(walk.files())
        if not files and not walk.unlisted:
            empty.append(folder)
        unlisted.update(walk.unlisted)
        return files

    def named(file: Path) -> Iterator[Path]:
        try:
            if not is_forced_out(file, resolver):
                yield file
        except ConfigError as error:
            wrong[file] = str(error)
            yield file

    found = gathered(paths, below, named)
    refused: dict[str, tuple[Path, ...]] = {}
    for file in found:
        if file in wrong:
            refused[wrong[file]] = (*refused.get(wrong[file], ()), file)
    return Discovered(tuple(file for file in found if file not in wrong), refused, unlisted, tuple(empty))


def is_forced_out(path: Path, resolver: Resolver) -> bool:
    """Whether a file that was named is passed over nevertheless: ``force-exclude`` is set, and a pattern fits.

    Raises:
        ConfigError: When a configuration means nothing.
    """
    settings = resolver.of_file(path)
    if not settings.force_exclude:
        return False
    absolute = _absolute(path)
    roots = {settings.root, *(root for root, _ in settings.patterns)}
    tops = [place for place in absolute.parents if place in roots or (place / ".git").exists()]
    top = tops[-1] if tops else absolute.parent
    walk, steps = _Walk(top, resolver), [p for p in (absolute, *absolute.parents) if p != top and top in p.parents]
    return any(walk.folder(step.parent).passes_over(step.name, folder=step != absolute) for step in steps)


@dataclass(frozen=True, slots=True)
class _Folder:
    """What decides about the entries of one folder.

    Attributes:
        path: The folder.
        wrong: What is wrong with its configuration, which then decides nothing; empty where it means something.
        usual: Whether the usual names count.
        excluding: Patterns of the configuration, with what comes before a name in them.
        ignoring: Patterns of git, the nearest first.
    """

    path: Path
    wrong: str
    usual: bool
    excluding: tuple[tuple[str, Patterns], ...]
    ignoring: tuple[tuple[str, Patterns], ...]

    def passes_over(self, name: str, *, folder: bool) -> bool:
        """Whether a file or folder in it is left out."""
        if folder and ((self.usual and (name in _NAMES or name.startswith("."))) or name == ".git"):
            return True
        tail = name + "/" if folder else name
        if any(_said(patterns, prefix + tail) for prefix, patterns in self.excluding):
            return True
        said = (_said(patterns, prefix + tail) for prefix, patterns in self.ignoring)
        return bool(next((word for word in said if word is not None), False))


@dataclass(slots=True, eq=False)
class _Walk:
    """The files below one named folder.

    Attributes:
        top: The folder.
        resolver: The settings of each folder in it.
        wrong: Filled with what is wrong with the configuration of a file, where it means nothing.
        unlisted: Filled with folders that cannot be listed, and why.
    """

    top: Path
    resolver: Resolver
    wrong: dict[Path, str] = field(default_factory=dict)
    unlisted: dict[Path, str] = field(default_factory=dict)
    _compiled: dict[tuple[Path, tuple[str, ...]], Patterns] = field(default_factory=dict)
    _ignores: dict[Path, Patterns] = field(default_factory=dict)
    _repositories: dict[Path, Path | None] = field(default_factory=dict)

    def files(self) -> Iterator[Path]:
        """Python files, and nothing else that is named like one. Links to folders are not followed."""
        for parent, folders, files in os.walk(self.top, onerror=self._note):
            here = self.folder(Path(parent))
            folders[:] = sorted(name for name in folders if not here.passes_over(name, folder=True))
            for name in files:
                whole = os.path.join(parent, name)  # noqa: PTH118  this runs for each file there is
                if name.endswith(".py") and os.path.isfile(whole) and not here.passes_over(name, folder=False):  # noqa: PTH113
                    if here.wrong:  # folders below it may have a configuration of their own
                        self.wrong[Path(whole)] = here.wrong
                    yield Path(whole)

    def _note(self, error: OSError) -> None:
        self.unlisted[Path(error.filename)] = error.strerror or str(error)

    def folder(self, path: Path) -> _Folder:
        """What decides about the entries of a folder."""
        settings, wrong = self._settings(path)
        absolute = _absolute(path)
        excluding = tuple(
            (_prefix(absolute, root), self._patterns(root, patterns))
            for root, patterns in settings.patterns
            if absolute.is_relative_to(root)
        )
        root = self._repository(absolute) if settings.respect_gitignore else None
        ignoring: list[tuple[str, Patterns]] = []
        for place in (absolute, *absolute.parents) if root is not None else ():
            ignoring.append((_prefix(absolute, place), self._ignore(place, place == root)))
            if place == root:
                break
        return _Folder(absolute, wrong, settings.exclude == EXCLUDED, excluding, tuple(ignoring))

    def _settings(self, folder: Path) -> tuple[Settings, str]:
        """The settings of a folder, and what is wrong with them."""
        try:
            return self.resolver.of(folder), ""
        except ConfigError as error:
            return self.resolver.of_none(), str(error)

    def _patterns(self, root: Path, texts: tuple[str, ...]) -> Patterns:
        if (root, texts) not in self._compiled:
            self._compiled[root, texts] = _patterns_of((as_in_git(text, root) for text in texts), root, self.top)
        return self._compiled[root, texts]

    def _repository(self, folder: Path) -> Path | None:
        if folder not in self._repositories:
            inner = (folder / ".git").exists()
            above = None if inner or folder.parent == folder else self._repository(folder.parent)
            self._repositories[folder] = folder if inner else above
        return self._repositories[folder]

    def _ignore(self, folder: Path, is_root: bool) -> Patterns:
        if folder not in self._ignores:
            own = _lines(folder / ".git" / "info" / "exclude") if is_root else []
            self._ignores[folder] = _patterns_of([*own, *_lines(folder / ".gitignore")], folder, self.top)
        return self._ignores[folder]


def _lines(file: Path) -> list[str]:
    try:
        return content(file).decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def _patterns_of(texts: Iterable[str], root: Path, top: Path) -> Patterns:
    """The patterns, less those that leave out the named folder itself."""
    found = tuple(pattern for text in texts for pattern in compiled(text))  # no others, as with git
    absolute = _absolute(top)
    if absolute == root or not absolute.is_relative_to(root):
        return found
    steps = [_prefix(step, root) for step in (absolute, *absolute.parents) if root in step.parents]
    if not any(_said(found, step, held=True) for step in steps):
        return found
    return tuple(p for p in found if not (p.include and any(_fits(p, step, held=True) for step in steps)))


def _said(patterns: Patterns, path: str, *, held: bool = False) -> bool | None:
    """Whether an entry is left out: the last pattern that fits it decides, as with git; ``None`` where none does."""
    return next((pattern.include for pattern in reversed(patterns) if _fits(pattern, path, held=held)), None)


def _fits(pattern: GitIgnoreSpecPattern, path: str, *, held: bool = False) -> bool:
    """Whether a pattern fits an entry itself, and not only a folder above it, which was asked about before.

    Args:
        pattern: The pattern.
        path: The entry; a folder ends with a slash.
        held: Whether a pattern of all that a folder holds (``a/**``) fits the folder as well.
    """
    regex = pattern.regex
    if regex is None or not regex.search(path):
        return False
    if "ps_d" in regex.groupindex:  # pathspec's mark of the slash at which a folder fits
        ends = [found.end("ps_d") for found in regex.finditer(path)]
        return -1 in ends or len(path) in ends
    return held or not (regex.pattern.endswith("/") and regex.fullmatch(path))


def _prefix(folder: Path, root: Path) -> str:
    """What comes before the name of an entry of the folder, in a path from the root."""
    return "" if folder == root else folder.relative_to(root).as_posix() + "/"


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100  links stay as they are
