"""What holds for a linted file: the configuration nearest to it, under what the command line says.

Keys of ``[tool.exportlint]`` and options of ``exportlint check`` have the same names and meanings.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from exportlint import config
from exportlint.config import ConfigError, Table, UserError
from exportlint.findings import MODES, SEVERITIES
from exportlint.linting.selection import Layer, SelectorError, codes_named, codes_on, known
from exportlint.source.discover import SKIPPED

if TYPE_CHECKING:
    from collections.abc import Callable

    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    from exportlint.findings import Mode, Severity

DEFAULT = "default"
COMMAND_LINE = "command line"
# Folders that hold no source of the project. `.*` stands for the hidden ones.
EXCLUDED = (".*", *sorted(SKIPPED))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What holds for the files below a folder.

    Attributes:
        root: The folder of the configuration file, which patterns are relative to.
        layers: Which rules are on: what each configuration file says, then the command line.
        per_file_ignores: Rules that are off in the files that a pattern matches; ``!`` before it: in all others.
        exclude: Files and folders that are passed over, as patterns of ``.gitignore``.
        extend_exclude: Further ones.
        respect_gitignore: Whether what git ignores is passed over.
        force_exclude: Whether that holds for files that are named as well.
        entry_points: Dotted names of functions and methods whose bodies are captured, besides ``forward``.
        module_bases: Dotted names of classes that count as modules.
        tensor_types: Dotted names of annotations that mean a tensor.
        tracing_predicates: Dotted names of functions that say whether a model is being captured.
        torch_version: The oldest release of torch that the project runs with, by its own word or by the bound in
            its ``dependencies``; ``None`` where that is not said.
        modes: The capture modes that findings are judged for.
        fail_level: The severity from which on a finding changes the exit status.
        show_info: Whether findings of severity ``info`` are shown.
        preview: Whether rules are on that are not stable yet.
        origins: Where each of these was set, by its name.
        patterns: What `exclude` and `extend_exclude` come to, but for the usual folders, by the folder that they are
            relative to: that of the configuration file, and the working directory for those of the command line.
    """

    root: Path
    layers: tuple[Layer, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    exclude: tuple[str, ...] = EXCLUDED
    extend_exclude: tuple[str, ...] = ()
    respect_gitignore: bool = True
    force_exclude: bool = False
    entry_points: tuple[str, ...] = ()
    module_bases: tuple[str, ...] = ()
    tensor_types: tuple[str, ...] = ()
    tracing_predicates: tuple[str, ...] = ()
    torch_version: tuple[int, int] | None = None
    modes: tuple[Mode, ...] = ("export",)
    fail_level: Severity = "warning"
    show_info: bool = False
    preview: bool = False
    origins: dict[str, str] = field(default_factory=dict, hash=False, compare=False)
    patterns: tuple[tuple[Path, tuple[str, ...]], ...] = ()

    @property
    def codes(self) -> frozenset[str]:
        """The codes of the rules that are on."""
        return codes_on(self.layers)

    def shows(self, severity: Severity, code: str) -> bool:
        """Whether a finding of this severity is shown: advice on request, or where its rule is selected by name."""
        return severity != "info" or self.show_info or code in codes_named(self.layers)

    def fails(self, severity: Severity) -> bool:
        """Whether a finding of this severity changes the exit status."""
        return SEVERITIES.index(severity) <= SEVERITIES.index(self.fail_level)


# Fields of a `Settings` that the command line sets, by name; what it does not say is not among them.
Overrides = dict[str, Any]


@dataclass(slots=True, eq=False)
class Resolver:
    """The settings of one folder after the other.

    Attributes:
        overrides: What the command line says.
        layer: Which rules the command line asks for.
        file: A configuration file that holds for all folders, whatever lies nearer.
        isolated: Whether no configuration file is read.
    """

    overrides: Overrides = field(default_factory=dict)
    layer: Layer = field(default_factory=Layer)
    file: Path | None = None
    isolated: bool = False
    _known: dict[Path, Settings | ConfigError] = field(default_factory=dict)

    def of_file(self, path: Path) -> Settings:
        """The settings that hold for a file.

        Raises:
            ConfigError: When a configuration means nothing.
        """
        return self.of(path.parent)

    def of(self, folder: Path) -> Settings:
        """The settings that hold for the files of a folder.

        Raises:
            ConfigError: When a configuration means nothing.
        """
        key = Path(os.path.abspath(folder))  # noqa: PTH100  links stay as they are
        if key not in self._known:
            try:
                self._known[key] = self._read(key)
            except ConfigError as error:
                self._known[key] = error
        found = self._known[key]
        if isinstance(found, ConfigError):
            raise found
        return found

    def of_none(self) -> Settings:
        """What the command line says, under no configuration file."""
        return self._made(Path.cwd(), None)

    def _read(self, folder: Path) -> Settings:
        if self.isolated or self.file is not None:
            here = Path.cwd()
            if folder != here:
                return self.of(here)
            return self._made(here, self._named() if self.file and not self.isolated else None)
        table = config.in_folder(folder)
        if table is None and folder.parent != folder:
            return self.of(folder.parent)
        return self._made(folder if table else Path.cwd(), table)

    def _named(self) -> Table:
        table = config.in_file(self.file) if self.file is not None else None
        if table is None:
            raise ConfigError(f"{self.file} holds no table [tool.exportlint]")
        return table

    def _made(self, root: Path, table: Table | None) -> Settings:
        found = Settings(root=root)
        for each in reversed(_chain(table)):
            found = _under(found, each)
        said = [name for name in map(field_of, SELECTING) if getattr(self.layer, name)]
        if table is not None and "torch_version" not in found.origins and (oldest := config.oldest_torch(table)):
            found = replace(found, torch_version=oldest, origins=found.origins | {"torch_version": f"{table.file}"})
        origins = found.origins | dict.fromkeys([*self.overrides, *said], COMMAND_LINE)
        own = () if "exclude" in self.overrides or found.exclude == EXCLUDED else found.exclude
        given = tuple(self.overrides.get("extend_exclude", ()))
        patterns = ((root, own + found.extend_exclude), (Path.cwd(), self.overrides.get("exclude", ()) + given))
        values = self.overrides | {"extend_exclude": found.extend_exclude + given}
        layers = (*found.layers, self.layer)
        return replace(found, **values, layers=layers, origins=origins, patterns=tuple(p for p in patterns if p[1]))


def _chain(table: Table | None) -> list[Table]:
    """The configuration, then the one that it extends, and so on.

    Raises:
        ConfigError: When one cannot be read, or extends itself.
    """
    found: list[Table] = []
    while table is not None:
        found.append(table)
        name = table.get("extend", str, "the path of a file")
        if name is None or table.file is None:
            break
        file = table.file.parent / Path(name).expanduser()
        if not file.is_file():
            raise table.error("extend", f"names {name!r}, which is no file")
        if any(each.file is not None and each.file.samefile(file) for each in found):
            raise table.error("extend", f"leads in a circle: {name!r} was read already")
        table = config.in_file(file)
    return found


def _under(found: Settings, table: Table) -> Settings:
    """The settings, with what one configuration says put over them."""
    table.only({*READERS, *SELECTING, "extend", "pytest"})
    values: dict[str, Any] = {}
    for key, reader in READERS.items():
        if key in table.values:
            values[field_of(key)] = reader(table, key)
    if "extend_exclude" in values:
        values["extend_exclude"] = found.extend_exclude + values["extend_exclude"]
    chosen = {field_of(key): _selectors(table, key) for key in SELECTING if key in table.values}
    layers = (*found.layers, Layer(**chosen)) if chosen else found.layers
    places = {field_of(key): table.place(key) for key in table.values}
    return replace(found, **values, layers=layers, origins=found.origins | places)


def field_of(key: str) -> str:
    """The name in Python of a key of the configuration."""
    return key.replace("-", "_")


def key_of(name: str) -> str:
    """The key of the configuration of a name in Python."""
    return name.replace("_", "-")


def _selectors(table: Table, key: str) -> tuple[str, ...]:
    try:
        return known(table.strings(key) or ())
    except SelectorError as error:
        raise table.error(key, f"is wrong: {error}", error.selector) from None


def _strings(table: Table, key: str) -> tuple[str, ...]:
    return table.strings(key) or ()


def _patterns(table: Table, key: str) -> tuple[str, ...]:
    found = _strings(table, key)
    for each in found:
        if each.startswith("!") or not _is_pattern(each):
            raise table.error(key, f"is wrong: {each!r} is no pattern of what to leave out", each)
    return found


def _is_pattern(text: str) -> bool:
    return ".." not in text.split("/") and bool(compiled(as_in_git(text, Path.cwd())))


def as_in_git(text: str, root: Path) -> str:
    """A pattern as ``.gitignore`` has it, where it is written as a path: ``./a``, or an absolute one below the root."""
    for folder in {root.as_posix(), os.path.realpath(root)} - {"/"}:
        if f"{text}/".startswith(f"{folder}/"):
            text = "." + text[len(folder) :]
            break
    parts = text.split("/")
    if "." not in parts:
        return text
    return "/" + "/".join(part for part in parts if part != ".").lstrip("/") if {*parts} - {"", "."} else "/**"


def compiled(text: str) -> list[GitIgnoreSpecPattern]:
    """What a line of ``.gitignore`` is compiled to; nothing where it is no pattern, or one that fits nothing."""
    from pathspec import GitIgnoreSpec

    try:
        # pathspec takes `a/**/` for `a/`; to git it means the folders in it
        lines = [re.sub(r"/\*\*/\s*$", "/**/*/", text)]
        return [pattern for pattern in GitIgnoreSpec.from_lines(lines).patterns if pattern.include is not None]
    except (ValueError, re.error):
        return []


def _dotted(table: Table, key: str) -> tuple[str, ...]:
    """Names such as ``package.module.function``; in those of entry points, ``*`` may stand for any part of one."""
    found = _strings(table, key)
    for each in found:
        plain = re.sub(r"[*?]+", "x", each) if key == "entry-points" else each
        if not all(part.isidentifier() for part in plain.split(".")):
            raise table.error(key, f"is wrong: {each!r} is no dotted name", each)
    return found


def _flag(table: Table, key: str) -> bool:
    return bool(table.get(key, bool, "true or false"))


def _modes(table: Table, key: str) -> tuple[Mode, ...]:
    found = _strings(table, key)
    for each in found:
        if each not in MODES:
            raise table.error(key, f"is wrong: {each!r} is no capture mode: {', '.join(MODES)}", each)
    if not found:
        raise table.error(key, f"needs at least one of {', '.join(MODES)}")
    return cast("tuple[Mode, ...]", tuple(dict.fromkeys(found)))


def _level(table: Table, key: str) -> Severity:
    found = table.get(key, str, "a string")
    if found not in SEVERITIES:
        raise table.error(key, f"is wrong: {found!r} is no severity: {', '.join(SEVERITIES)}")
    return cast("Severity", found)


def release(text: str) -> tuple[int, int]:
    """The release of torch that is meant, such as ``(2, 13)`` for ``2.13`` and ``2.13.1``.

    Raises:
        UserError: When it is none.
    """
    found = re.fullmatch(r"(\d+)\.(\d+)(?:\.\d+)*(?:\+\w+)?", text.strip())
    if found is None:
        raise UserError(f"{text!r} is no release of torch such as '2.13'")
    return int(found[1]), int(found[2])


def _release(table: Table, key: str) -> tuple[int, int]:
    text = table.get(key, str, "a string such as '2.13'")
    try:
        return release(text)
    except UserError as error:
        raise table.error(key, f"is wrong: {error}") from None


def _per_file(table: Table, key: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    inner = table.table(key)
    for pattern in inner.values:
        if not _is_pattern(pattern.removeprefix("!")):
            raise inner.error(pattern, "is no pattern of files")
    return tuple((pattern, _selectors(inner, pattern)) for pattern in inner.values)


SELECTING = ("select", "extend-select", "ignore")
READERS: dict[str, Callable[[Table, str], Any]] = {
    "per-file-ignores": _per_file,
    "exclude": _patterns,
    "extend-exclude": _patterns,
    "respect-gitignore": _flag,
    "force-exclude": _flag,
    "entry-points": _dotted,
    "module-bases": _dotted,
    "tensor-types": _dotted,
    "tracing-predicates": _dotted,
    "torch-version": _release,
    "modes": _modes,
    "fail-level": _level,
    "show-info": _flag,
    "preview": _flag,
}
NAMES = tuple(f.name for f in fields(Settings) if f.name not in ("root", "layers", "origins", "patterns"))
