"""The linter under the settings of a project: each file is judged by the configuration nearest to it."""

from __future__ import annotations

import dataclasses
import io
import os
import tokenize
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exportlint.config import Table, UserError
from exportlint.linting.discovery import Discovered, discover, of_project
from exportlint.linting.selection import Layer, known
from exportlint.linting.settings import NAMES, READERS, SELECTING, Resolver, as_in_git, field_of, key_of
from exportlint.source.engine import UNSETTLED, Effort, Linted, Options, Unanalysed, examine_files, examine_text
from exportlint.source.units import NOT_READ

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exportlint.source.engine import Prediction


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What linting gave, after selection.

    Attributes:
        predictions: In the order of files and lines.
        unanalysed: What could not be analysed.
        files: The files that were linted.
        partial: Those of them of which something may be missing.
    """

    predictions: tuple[Prediction, ...] = ()
    unanalysed: tuple[Unanalysed, ...] = ()
    files: tuple[Path, ...] = ()
    partial: frozenset[Path] = frozenset()


def check_paths(paths: Iterable[str | Path], **settings: Any) -> tuple[Prediction, ...]:
    """Lint files, and the Python files below folders, as ``exportlint check`` does.

    Args:
        paths: Files and folders.
        settings: See `resolver_of`.

    Returns:
        Findings in the order of files and lines, those of severity ``info`` included.

    Raises:
        MissingPathError: When a path does not exist.
        ConfigError: When a configuration or a setting means nothing.
        SelectorError: When a selector means nothing.
        TypeError: When a setting is not known.
        UserError: When `paths` is one path.
    """
    resolver = resolver_of(**settings)
    asked = _paths(paths)
    return check_files(discover(asked, resolver), resolver, asked=asked).predictions


def check_source(source: str | bytes, filename: str | Path = "<source>", **settings: Any) -> tuple[Prediction, ...]:
    """Lint the text of a file.

    Args:
        source: The text.
        filename: The path that it would have; what it imports is looked for there, and the settings for that path hold.
        settings: See `resolver_of`.

    Returns:
        Findings in the order of lines, those of severity ``info`` included.

    Raises:
        ConfigError: When a configuration or a setting means nothing.
        SelectorError: When a selector means nothing.
        TypeError: When a setting is not known, or the source is neither text nor bytes.
    """
    if not isinstance(source, (str, bytes)):
        raise TypeError(f"source must be str or bytes, not {type(source).__name__}")
    data = _encoded(source) if isinstance(source, str) else source
    return check_text(Path(filename), data, resolver_of(**settings)).predictions


def _encoded(source: str) -> bytes:
    """The text in the encoding that it declares."""
    data = source.encode("utf-8", "surrogatepass")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return source.encode(encoding)
    except (SyntaxError, UnicodeError, LookupError):
        return data


def resolver_of(*, config: str | Path | None = None, isolated: bool = False, **settings: Any) -> Resolver:
    """The settings of each folder, under these.

    Args:
        config: A configuration file that holds whatever lies nearer to a file.
        isolated: Whether no configuration file is read.
        settings: Keys of the configuration with underscores (``select``, ``modes``, ``torch_version``), which win over
            it; ``None`` leaves a key as it is.

    Raises:
        SelectorError: When a selector means nothing.
        TypeError: When a setting is not known, or `isolated` is no bool.
        ConfigError: When a value is none of the setting.
    """
    if not isinstance(isolated, bool):
        raise TypeError(f"isolated must be a bool, not {type(isolated).__name__}")
    given = {name: value for name, value in settings.items() if value is not None}
    unknown = sorted(given.keys() - {*NAMES, *map(field_of, SELECTING)})
    if unknown:
        raise TypeError(f"{unknown[0]!r} is no setting: {', '.join(NAMES)}")
    table = Table(None, "", {key_of(name): _as_in_toml(value) for name, value in given.items()})
    chosen = {name: known(table.strings(key_of(name)) or ()) for name in map(field_of, SELECTING) if name in given}
    values = {name: READERS[key_of(name)](table, key_of(name)) for name in given if name not in chosen}
    return Resolver(values, Layer(**chosen), Path(config) if config is not None else None, isolated)


def _as_in_toml(value: Any) -> Any:
    """The value as a configuration file would give it."""
    if isinstance(value, dict):
        return {name: _as_in_toml(each) for name, each in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    return list(value) if isinstance(value, tuple) else value


def _paths(paths: Iterable[str | Path]) -> list[Path]:
    if isinstance(paths, (str, bytes, Path)):
        raise UserError(f"the paths to lint must be a list of paths, not {str(paths)!r} alone")
    return [Path(path) for path in paths]


def check_files(
    files: Iterable[Path], resolver: Resolver, effort: Effort | None = None, asked: Iterable[Path] = ()
) -> Checked:
    """Lint these files, each under its own settings.

    Args:
        files: The files.
        resolver: The settings of each.
        effort: How the work is done; by one process without a cache where ``None``.
        asked: What the user named: of a file that is in it, findings are told even if another was generated from it.

    Raises:
        ConfigError: When a configuration means nothing.
    """
    groups: dict[Options, list[Path]] = defaultdict(list)
    for path in files:
        groups[Options.of(resolver.of_file(path))].append(path)
    named = [path for path in asked if path.is_file()]
    effort = dataclasses.replace(effort or Effort(), below=partial(of_project, resolver=resolver))
    return selected([examine_files(group, options, effort, named) for options, group in groups.items()], resolver)


def refused(sought: Discovered) -> tuple[Unanalysed, ...]:
    """That nothing is known of files whose configuration means nothing, one for each mistake, and of closed folders."""
    closed = (Unanalysed(path, "", f"{NOT_READ}: {why}", 0) for path, why in sought.unlisted.items())
    wrong = (
        Unanalysed(
            files[0] if len(files) == 1 else Path(os.path.commonpath([file.parent.absolute() for file in files])),
            "",
            f"{UNSETTLED}: {words}",
            len(files),
        )
        for words, files in sought.refused.items()
    )
    return (*closed, *wrong)


def check_text(path: Path, data: bytes, resolver: Resolver) -> Checked:
    """Lint what a file would hold, under the settings that hold for its path.

    Raises:
        ConfigError: When a configuration means nothing.
    """
    effort = Effort(below=partial(of_project, resolver=resolver))
    return selected([examine_text(path, data, Options.of(resolver.of_file(path)), effort)], resolver)


def selected(runs: Iterable[Linted], resolver: Resolver) -> Checked:
    """Of what some runs found, what the settings select.

    Raises:
        ConfigError: When a configuration means nothing.
    """
    selection = Selection(resolver)
    found: list[Prediction] = []
    unanalysed: list[Unanalysed] = []
    files: list[Path] = []
    partial: set[Path] = set()
    for linted in runs:
        found += [p for p in linted.predictions if p.rule.code in selection.codes(p.path)]
        unanalysed += linted.unanalysed
        files += linted.files
        partial |= linted.partial
    return Checked(
        predictions=tuple(sorted(found, key=lambda p: p.key)),
        unanalysed=tuple(sorted(unanalysed, key=lambda u: str(u.path))),
        files=tuple(sorted(files)),
        partial=frozenset(partial),
    )


@dataclass(slots=True, eq=False)
class Selection:
    """Which rules are on in which file."""

    resolver: Resolver
    _known: dict[Path, frozenset[str]] = field(default_factory=dict)

    def codes(self, path: Path) -> frozenset[str]:
        """The codes of the rules that are on in a file.

        Raises:
            ConfigError: When a configuration means nothing.
        """
        if path not in self._known:
            settings = self.resolver.of_file(path)
            found = settings.codes
            for pattern, selectors in settings.per_file_ignores:
                if _fits(path, pattern, settings.root):
                    found -= _codes(selectors)
            self._known[path] = found
        return self._known[path]


def _codes(selectors: tuple[str, ...]) -> frozenset[str]:
    from exportlint.linting.selection import codes

    return frozenset().union(*map(codes, selectors))


def _fits(path: Path, pattern: str, root: Path) -> bool:
    """Whether a pattern of ``per-file-ignores`` is about a file; one that begins with ``!`` is about all others."""
    from pathspec import GitIgnoreSpec

    absolute = Path(os.path.abspath(path))  # noqa: PTH100  links stay as they are
    relative = absolute.relative_to(root).as_posix() if absolute.is_relative_to(root) else absolute.as_posix()
    text = as_in_git(pattern.removeprefix("!"), root)
    return GitIgnoreSpec.from_lines([text]).match_file(relative) != pattern.startswith("!")
