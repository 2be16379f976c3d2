"""Which files are linted: those that were named, and those below named folders that no setting passes over."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from exportlint.config import ConfigError
from exportlint.linting.settings import EXCLUDED, compiled
from exportlint.source.discover import gathered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pathspec import GitIgnoreSpec

    from exportlint.linting.settings import Resolver, Settings

_NAMES = frozenset(EXCLUDED)


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


@dataclass(frozen=True, slots=True)
class Discovered:
    """Files that were asked for.

    Attributes:
        files: Those to lint, each once, in the order of their paths.
        refused: Those whose configuration means nothing, by what is wrong with it.
        unlisted: Folders of which nobody may see what they hold, and why.
    """

    files: tuple[Path, ...]
    refused: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    unlisted: Mapping[Path, str] = field(default_factory=dict)


def discovered(paths: Iterable[Path], resolver: Resolver) -> Discovered:
    """The files to lint, as `discover` finds them, and those that have no settings to be linted under.

    Raises:
        MissingPathError: When a path does not exist.
    """
    wrong: dict[Path, str] = {}
    unlisted: dict[Path, str] = {}

    def named(file: Path) -> Iterator[Path]:
        try:
            if not is_forced_out(file, resolver):
                yield file
        except ConfigError as error:
            wrong[file] = str(error)
            yield file

    found = gathered(paths, lambda folder: _Walk(folder, resolver, wrong, unlisted).files(), named)
    refused: dict[str, tuple[Path, ...]] = {}
    for file in found:
        if file in wrong:
            refused[wrong[file]] = (*refused.get(wrong[file], ()), file)
    return Discovered(tuple(file for file in found if file not in wrong), refused, unlisted)


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
    excluding: tuple[tuple[str, GitIgnoreSpec], ...]
    ignoring: tuple[tuple[str, GitIgnoreSpec], ...]

    def passes_over(self, name: str, *, folder: bool) -> bool:
        """Whether a file or folder in it is left out."""
        if folder and ((self.usual and (name in _NAMES or name.startswith("."))) or name == ".git"):
            return True
        tail = name + "/" if folder else name
        if any(spec.match_file(prefix + tail) for prefix, spec in self.excluding):
            return True
        said = (spec.check_file(prefix + tail).include for prefix, spec in self.ignoring)
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
    _specs: dict[tuple[Path, tuple[str, ...]], GitIgnoreSpec | None] = field(default_factory=dict)
    _ignores: dict[Path, GitIgnoreSpec | None] = field(default_factory=dict)
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
        specs = [(root, self._spec(root, patterns)) for root, patterns in settings.patterns]
        excluding = tuple((_prefix(absolute, p), s) for p, s in specs if s is not None and absolute.is_relative_to(p))
        root = self._repository(absolute) if settings.respect_gitignore else None
        ignoring: list[tuple[str, GitIgnoreSpec]] = []
        for place in (absolute, *absolute.parents) if root is not None else ():
            ignore = self._ignore(place, place == root)
            if ignore is not None:
                ignoring.append((_prefix(absolute, place), ignore))
            if place == root:
                break
        return _Folder(absolute, wrong, settings.exclude == EXCLUDED, excluding, tuple(ignoring))

    def _settings(self, folder: Path) -> tuple[Settings, str]:
        """The settings of a folder, and what is wrong with them."""
        try:
            return self.resolver.of(folder), ""
        except ConfigError as error:
            return self.resolver.of_none(), str(error)

    def _spec(self, root: Path, patterns: tuple[str, ...]) -> GitIgnoreSpec | None:
        if (root, patterns) not in self._specs:
            self._specs[root, patterns] = _spec_of(patterns, root, self.top)
        return self._specs[root, patterns]

    def _repository(self, folder: Path) -> Path | None:
        if folder not in self._repositories:
            inner = (folder / ".git").exists()
            above = None if inner or folder.parent == folder else self._repository(folder.parent)
            self._repositories[folder] = folder if inner else above
        return self._repositories[folder]

    def _ignore(self, folder: Path, is_root: bool) -> GitIgnoreSpec | None:
        if folder not in self._ignores:
            own = _lines(folder / ".git" / "info" / "exclude") if is_root else []
            self._ignores[folder] = _spec_of([*own, *_lines(folder / ".gitignore")], folder, self.top)
        return self._ignores[folder]


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _spec_of(patterns: Iterable[str], root: Path, top: Path) -> GitIgnoreSpec | None:
    """The patterns, less those that fit the named folder itself; ``None`` where none is left."""
    found = [pattern for text in patterns for pattern in compiled(text)]  # no others, as with git
    if not found:
        return None
    from pathspec import GitIgnoreSpec

    spec = GitIgnoreSpec(found)
    absolute = _absolute(top)
    if absolute != root and absolute.is_relative_to(root):
        name = _prefix(absolute, root)
        spec = GitIgnoreSpec([p for p in spec.patterns if not (p.include and GitIgnoreSpec([p]).match_file(name))])
    return spec


def _prefix(folder: Path, root: Path) -> str:
    """What comes before the name of an entry of the folder, in a path from the root."""
    return "" if folder == root else folder.relative_to(root).as_posix() + "/"


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100  links stay as they are
