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

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exportlint.linting.excerpts import Excerpts
    from exportlint.source.engine import Prediction

VERSION = 1
Key = tuple[str, str, str]


class BaselineError(UserError):
    """A file holds no baseline."""


@dataclass(slots=True, eq=False)
class Baseline:
    """Known findings.

    Attributes:
        file: The file; paths in it are relative to its folder.
        known: How many there are of each file, code and text of a line.
    """

    file: Path
    known: Counter[Key] = field(default_factory=Counter)

    def add(self, found: Iterable[Prediction], excerpts: Excerpts) -> None:
        """Know these findings too."""
        self.known.update(identity(p, excerpts, self.file.parent) for p in found)

    def new(self, found: Iterable[Prediction], excerpts: Excerpts) -> tuple[list[Prediction], Counter[Key]]:
        """The findings that are not known, and how many known ones are still there."""
        there: Counter[Key] = Counter()
        new: list[Prediction] = []
        for prediction in found:
            key = identity(prediction, excerpts, self.file.parent)
            if there[key] < self.known[key]:
                there[key] += 1
            else:
                new.append(prediction)
        return new, there

    def gone(self, there: Counter[Key], files: Iterable[Path]) -> Counter[Key]:
        """The known findings that are not there any more: of these linted files, and of files that do not exist."""
        linted = {relative(path, self.file.parent) for path in files}
        lost = self.known - there
        return Counter(
            {key: n for key, n in lost.items() if key[0] in linted or not (self.file.parent / key[0]).exists()}
        )

    def write(self) -> None:
        """Write the file.

        Raises:
            OSError: When it cannot be written; what was there before is left as it was.
        """
        found = [
            {"file": file, "code": code, "line": line, "count": n}
            for (file, code, line), n in sorted(self.known.items())
        ]
        text = json.dumps({"version": VERSION, "findings": found}, indent=2) + "\n"
        whole_file.write(Path(os.path.realpath(self.file)), text.encode("utf-8", "surrogatepass"))


def read(file: Path) -> Baseline:
    """The baseline in a file.

    Raises:
        BaselineError: When it cannot be read, or holds none.
    """
    try:
        held = json.loads(file.read_bytes())
        if held["version"] != VERSION:
            raise BaselineError(f"{file}: a baseline of version {held['version']!r}; this is version {VERSION}")
        return Baseline(file, Counter(dict(map(_entry, held["findings"]))))
    except BaselineError:
        raise
    except FileNotFoundError as error:
        raise BaselineError(f"{file}: no such file; --update-baseline makes it") from error
    except OSError as error:
        raise BaselineError(f"{file} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BaselineError(f"{file} holds no baseline") from error


def _entry(held: Any) -> tuple[Key, int]:
    key = (held["file"], held["code"], held["line"])
    if not all(isinstance(part, str) for part in key) or type(held["count"]) is not int:
        raise ValueError(held)
    return key, held["count"]
