"""Settings of a project: the table ``[tool.exportlint]`` of ``pyproject.toml``, or the file ``exportlint.toml``.

The nearest file upwards wins. Mistakes are errors of one line that name the file and the line.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class UserError(ValueError):
    """Somebody asked for what means nothing; the message is one line, fit for a user."""


class ConfigError(UserError):
    """A configuration means nothing."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a configuration file.

    Attributes:
        file: The file; ``None`` where there is no configuration.
        name: Its name, as it stands between brackets.
        values: What it holds.
        text: The text of the whole file.
    """

    file: Path | None
    name: str
    values: dict[str, Any]
    text: str = ""

    def table(self, key: str) -> Table:
        """The table inside of this one; empty where there is none.

        Raises:
            ConfigError: When it is something else.
        """
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.error(key, f"must be a table, not {_kind(value)}")
        return Table(self.file, f"{self.name}.{key}".lstrip("."), value, self.text)

    def only(self, known: Iterable[str]) -> None:
        """Refuse keys that mean nothing.

        Raises:
            ConfigError: For the first, with the nearest that is known.
        """
        names = sorted(known)
        for key in self.values:
            if key not in names:
                import difflib

                near = difflib.get_close_matches(key, names, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
                raise self.error(key, f"is not known; {hint}")

    def get(self, key: str, kind: type | tuple[type, ...], words: str) -> Any:
        """The value of a key, or ``None``.

        Args:
            key: The key.
            kind: What the value must be.
            words: The same in words.

        Raises:
            ConfigError: When it is of another kind.
        """
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, kind) or (isinstance(value, bool) and bool not in _kinds(kind)):
            raise self.error(key, f"must be {words}, not {_kind(value)}")
        return value

    def strings(self, key: str) -> tuple[str, ...] | None:
        """A list of strings, or ``None``.

        Raises:
            ConfigError: When it is something else.
        """
        value = self.get(key, list, "a list of strings")
        if value is not None and not all(isinstance(item, str) for item in value):
            raise self.error(key, "must be a list of strings")
        return None if value is None else tuple(value)

    def error(self, key: str, words: str, item: str = "") -> ConfigError:
        """An error about a key, at its line; or at the line of an item of its value."""
        where = f" in [{self.name}]" if self.name else ""
        place = self.place(key, item)
        return ConfigError(f"{place}{': ' if place else ''}{key}{where} {words}")

    def place(self, key: str, item: str = "") -> str:
        """The file, with the line that sets the key; or with the first line from there on that holds the item.

        Empty where there is no file.
        """
        if self.file is None:
            return ""
        lines = self.text.splitlines()
        number = self._line(key, lines)
        for later in range(number, len(lines) + 1) if item and number else ():
            if re.search(rf"[\"']{re.escape(item)}[\"']", lines[later - 1]):
                return f"{self.file}:{later}"
        return f"{self.file}:{number}" if number else str(self.file)

    def _line(self, key: str, lines: list[str]) -> int:
        """The first line that sets the key, or something inside of it; 0 where there is none."""
        wanted = [*(self.name.split(".") if self.name else ()), key]
        head: list[str] = []
        for number, line in enumerate(lines, 1):
            if begun := _HEAD.match(line):
                found = head = _parts(begun[1])
            elif set_ := _SET.match(line):
                found = head + _parts(set_[1])
            else:
                continue
            if found[: len(wanted)] == wanted:
                return number
        # A table may also be written inside of a value.
        written = re.compile(rf"(?<![\w-])[\"']?{re.escape(key)}[\"']?\s*=")
        return next((n for n, line in enumerate(lines, 1) if written.search(line)), 0)


_PART = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[\w-]+)"""
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEAD = re.compile(rf"\s*\[{{1,2}}\s*({_DOTTED})\s*\]{{1,2}}\s*(?:#.*)?$")
_SET = re.compile(rf"\s*({_DOTTED})\s*=")


def _parts(dotted: str) -> list[str]:
    """The names of a dotted key."""
    return [part.strip("\"'") for part in re.findall(_PART, dotted)]


def _kinds(kind: type | tuple[type, ...]) -> tuple[type, ...]:
    return kind if isinstance(kind, tuple) else (kind,)


def _kind(value: Any) -> str:
    names = {dict: "a table", list: "a list", str: "a string", bool: "a truth value"}
    return names.get(type(value), f"{value!r}")


def read(folder: Path) -> Table:
    """The configuration that holds for a folder: the nearest upwards, empty where there is none.

    Raises:
        ConfigError: When a file cannot be read, or is no TOML.
    """
    for parent in (folder, *folder.parents):
        found = in_folder(parent)
        if found is not None:
            return found
    return Table(None, "tool.exportlint", {})


def in_folder(folder: Path) -> Table | None:
    """The configuration that a folder itself holds; ``None`` where it holds none.

    Raises:
        ConfigError: When a file cannot be read, or is no TOML.
    """
    files = (folder / "exportlint.toml", folder / "pyproject.toml")
    for file in files:
        if os.path.islink(file) and not os.path.exists(file):  # noqa: PTH110, PTH114  what it was to say is not known
            raise ConfigError(f"{file} is a link to a file that does not exist")
        if os.path.isfile(file) and (found := in_file(file)) is not None:  # noqa: PTH113  of a shut folder it says no
            return found
    return None


def in_file(file: Path) -> Table | None:
    """The configuration that a file holds: the table of a ``pyproject.toml``, any other file as a whole.

    Raises:
        ConfigError: When it cannot be read, or is no TOML.
    """
    is_project = file.name == "pyproject.toml"
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8'}") from error
    if is_project and "exportlint" not in text:
        return None
    try:
        values: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is no TOML: {error}") from error
    return _of_project(file, values, text) if is_project else _of_its_own(file, values, text)


def oldest_torch(table: Table) -> tuple[int, int] | None:
    """The release of torch that the project around a table needs at least; ``None`` where it does not say.

    Its ``dependencies`` count, and where torch is not among them, the extras.
    """
    if table.file is None or table.file.name != "pyproject.toml":
        return None
    project = tomllib.loads(table.text).get("project")
    own = project if isinstance(project, dict) else {}
    extras = own.get("optional-dependencies")
    groups = [own.get("dependencies"), *(extras.values() if isinstance(extras, dict) else ())]
    for group in groups:
        found = [m for text in group if (m := _TORCH.match(str(text)))] if isinstance(group, list) else []
        if found:
            return int(found[0][1]), int(found[0][2] or 0)
    return None


# A requirement that holds a lower bound, or the one release that will do.
_TORCH = re.compile(r"(?i)\s*torch(?![\w.-])\s*(?:\[[^]]*\])?[^;]*?(?:>=?|===?|~=)\s*(\d+)(?:\.(\d+))?")


def _of_project(file: Path, values: dict[str, Any], text: str) -> Table | None:
    tool = values.get("tool")
    if not isinstance(tool, dict) or "exportlint" not in tool:
        return None
    return Table(file, "tool", tool, text).table("exportlint")


def _of_its_own(file: Path, values: dict[str, Any], text: str) -> Table:
    found = Table(file, "", values, text)
    for key in ("tool", "exportlint"):
        if key in values:
            raise found.error(key, f"is not known; keys of {file.name} stand without the heading [tool.exportlint]")
    return found
