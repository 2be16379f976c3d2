"""Findings that are known: they stay quiet while lines move, and may only become fewer."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exportlint import whole_file
from exportlint.config import UserError
from exportlint.linting.fingerprints import identity, relative
from exportlint.linting.linter import Selection
from exportlint.source.files import content

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from exportlint.linting.excerpts import Excerpts
    from exportlint.linting.linter import Checked
    from exportlint.linting.settings import Resolver, Settings
    from exportlint.source.engine import Prediction

VERSION = 1
Key = tuple[str, str, str]
WIDENING = ("modes", "entry_points", "module_bases", "tensor_types")
"""Settings with which more is found where they hold more."""


class BaselineError(UserError):
    """A file holds no baseline."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What findings depend on besides the code: settings by name, those that are empty left out."""

    settings: Mapping[str, Any]

    @classmethod
    def of(cls, settings: Settings) -> Sight:
        """What is seen under these settings."""
        said: dict[str, Any] = {name: sorted(getattr(settings, name)) for name in (*WIDENING, "tracing_predicates")}
        version = settings.torch_version
        said |= {"torch_version": version and ".".join(map(str, version)), "preview": settings.preview}
        return cls({name: value for name, value in said.items() if value})

    def covers(self, other: Sight) -> bool:
        """Whether whatever the other sees is seen here as well."""
        for name in self.settings.keys() | other.settings.keys():
            here, there = self.settings.get(name), other.settings.get(name)
            if name in WIDENING:
                seen = set(there or ()) <= set(here or ())
            else:
                seen = here == there or (name == "preview" and not there)
            if not seen:
                return False
        return True


@dataclass(frozen=True, slots=True)
class Compared:
    """What findings are beside a baseline.

    Attributes:
        new: Those that it does not know.
        there: How many that it knows are still there.
        gone: Those that were looked for in vain.
        unsought: How many others of the linted files were neither found nor looked for.
    """

    new: list[Prediction]
    there: int
    gone: Counter[Key]
    unsought: int


@dataclass(slots=True, eq=False)
class Baseline:
    """Known findings.

    Attributes:
        file: The file; paths in it are relative to its folder.
        known: How many there are of each file, code and text of a line.
        sights: Under which settings they were found, by file; files of old baselines are not among them.
    """

    file: Path
    known: Counter[Key] = field(default_factory=Counter)
    sights: dict[str, Sight] = field(default_factory=dict)

    def add(self, found: Iterable[Prediction], excerpts: Excerpts, resolver: Resolver) -> None:
        """Know these findings too."""
        for prediction in found:
            key = identity(prediction, excerpts, self.file.parent)
            self.known[key] += 1
            self.sights[key[0]] = Sight.of(resolver.of_file(prediction.path))

    def compared(
        self, found: Iterable[Prediction], checked: Checked, excerpts: Excerpts, resolver: Resolver
    ) -> Compared:
        """Which findings of a run are new, and what became of those that are known."""
        there: Counter[Key] = Counter()
        new: list[Prediction] = []
        for prediction in found:
            key = identity(prediction, excerpts, self.file.parent)
            if there[key] < self.known[key]:
                there[key] += 1
            else:
                new.append(prediction)
        lost = self.known - there
        sought = self._sought(checked, resolver) if lost else {}
        gone: Counter[Key] = Counter()
        unsought = 0
        for key, count in lost.items():
            if key[1] in sought.get(key[0], ()) or not (self.file.parent / key[0]).exists():
                gone[key] = count
            elif key[0] in sought:
                unsought += count
        return Compared(new, there.total(), gone, unsought)

    def _sought(self, checked: Checked, resolver: Resolver) -> dict[str, frozenset[str]]:
        """The codes that were looked for as they were when the baseline was made, by linted file."""
        selection = Selection(resolver)
        found: dict[str, frozenset[str]] = {}
        for path in checked.files:
            name = relative(path, self.file.parent)
            made = self.sights.get(name)
            here = made is None or Sight.of(resolver.of_file(path)).covers(made)
            found[name] = selection.codes(path) if here and path not in checked.partial else frozenset()
        return found

    def write(self) -> None:
        """Write the file.

        Raises:
            OSError: When it cannot be written; what was there before is left as it was.
        """
        found = [
            {"file": file, "code": code, "line": line, "count": n}
            for (file, code, line), n in sorted(self.known.items())
        ]
        held = {"version": VERSION, "settings": self._settings(), "findings": found}
        text = json.dumps(held, indent=2) + "\n"
        whole_file.write(Path(os.path.realpath(self.file)), text.encode("utf-8", "surrogatepass"))

    def _settings(self) -> list[dict[str, Any]]:
        """Each settings with the files that were linted under them."""
        groups: list[dict[str, Any]] = []
        for file in sorted({key[0] for key in self.known} & self.sights.keys()):
            said = dict(self.sights[file].settings)
            group = next((g for g in groups if g["said"] == said), None)
            if group is None:
                groups.append({"said": said, "files": [file]})
            else:
                group["files"].append(file)
        return [{**group["said"], "files": group["files"]} for group in groups]


def read(file: Path) -> Baseline:
    """The baseline in a file.

    Raises:
        BaselineError: When it cannot be read, or holds none.
    """
    try:
        held = json.loads(content(file))
        if held["version"] != VERSION:
            raise BaselineError(f"{file}: a baseline of version {held['version']!r}; this is version {VERSION}")
        sights = {name: sight for each in held.get("settings", []) for name, sight in _sights(each)}
        known = Counter(dict(map(_entry, held["findings"])))
    except BaselineError:
        raise
    except FileNotFoundError as error:
        raise BaselineError(f"{file}: no such file; --update-baseline makes it") from error
    except OSError as error:
        raise BaselineError(f"{file} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, RecursionError, AttributeError) as error:
        raise BaselineError(f"{file} holds no baseline") from error
    for (name, _, _), count in known.items():
        if count < 1:
            raise BaselineError(f"{file}: {name} has a count of {count}, which must be 1 or more")
    return Baseline(file, known, sights)


def _entry(held: Any) -> tuple[Key, int]:
    key = (held["file"], held["code"], held["line"])
    if not all(isinstance(part, str) for part in key) or type(held["count"]) is not int:
        raise ValueError(held)
    return key, held["count"]


def _sights(held: Any) -> list[tuple[str, Sight]]:
    said = {name: value for name, value in held.items() if name != "files"}
    for name in WIDENING:
        if not isinstance(said.get(name, []), list) or not all(isinstance(each, str) for each in said.get(name, [])):
            raise ValueError(held)
    sight = Sight(said)
    return [(str(name), sight) for name in held["files"]]
