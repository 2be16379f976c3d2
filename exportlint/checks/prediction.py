"""What the linter predicts for the source files that ran. Runs in the caller's process: nothing is imported or run."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from exportlint.checks.concerned import Code, used_names
from exportlint.findings import Finding
from exportlint.places import Place, display_path, is_installed
from exportlint.source.cache import Memory
from exportlint.source.engine import Effort, examine

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from exportlint.findings import Mode
    from exportlint.source.engine import Options, Prediction


class Predictor:
    """Lints files once, however many cases run them.

    Args:
        modes: The capture modes that predictions are judged for.
    """

    def __init__(self, modes: tuple[Mode, ...] = ("export",)) -> None:
        self._modes = modes
        self._options: Options | None = None
        self._mistake: tuple[str, ...] = ()
        self._memory = Memory()
        self._unanalysed: dict[str, tuple[str, ...]] = {}
        self._code: dict[str, Code] = {}

    def predict(self, lines: Mapping[str, frozenset[int]], source: str = "") -> list[Finding]:
        """The predictions that concern what ran.

        Args:
            lines: Lines that ran, by file as findings name it.
            source: The file or module of the target, whose project is no library, wherever it lies.

        Returns:
            Predictions inside functions of which a line ran, and of what these read by name; all others as
            information. Of libraries those on lines that ran only.
        """
        by_file = self._lint(lines, source)
        own = [file for file in lines if not is_library(Path(file), source)]
        used = used_names((self._code_of(file), lines[file]) for file in own)
        found = []
        for file, ran in lines.items():
            library = file not in own
            for known in by_file.get(file, ()):
                finding = dataclasses.replace(known, library=library)
                if self._concerns(finding, ran, used):
                    found.append(finding)
                elif not finding.library:  # about a part of the file that this case does not run
                    found.append(dataclasses.replace(finding, severity="info"))
        return found

    def notes(self, files: Iterable[str], source: str = "") -> tuple[str, ...]:
        """What of the project's files among these the linter could not analyse; a mistake in its configuration."""
        missed = (self._unanalysed.get(file, ()) for file in files if not is_library(Path(file), source))
        return (*self._mistake, *(words for each in missed for words in each))

    def _lint(self, lines: Iterable[str], source: str) -> dict[str, list[Finding]]:
        """What the linter finds in files that ran, as the case calls them, by file.

        What the case gives its model is often written in another file than the model.
        """
        files = [Path(file) for file in lines if Path(file).is_file()]
        case = file_of(source)
        # What calls a file changes what is found in it, so it is judged anew in each case; its analysis is kept.
        linted = examine(files, self._asked(), Effort(cache=self._memory), callers=() if case is None else (case,))
        found = defaultdict[str, list[Finding]](list)
        for prediction in linted.predictions:
            finding = as_finding(prediction)
            found[str(finding.file)].append(finding)
        self._unanalysed = {}
        for skipped in linted.unanalysed:
            file = display_path(str(skipped.path))
            self._unanalysed[file] = (*self._unanalysed.get(file, ()), f"{file}: {skipped.words}")
        return found

    def _asked(self) -> Options:
        """What the project's configuration asks of the linter; what happens is judged for the torch that runs."""
        from exportlint.config import ConfigError
        from exportlint.linting.settings import Resolver
        from exportlint.source.engine import Options

        if self._options is None:
            plain = Options(modes=self._modes, whole_project=False)
            try:
                asked = Options.of(Resolver().of(Path.cwd()))
                self._options = dataclasses.replace(asked, modes=plain.modes, torch_version=None, whole_project=False)
            except ConfigError as error:
                self._options, self._mistake = plain, (f"linted without the configuration, which is wrong: {error}",)
        return self._options

    def _concerns(self, finding: Finding, ran: frozenset[int], used: frozenset[str]) -> bool:
        line = finding.line or 0
        if finding.library:
            return any(number in ran for number in range(line, (finding.end_line or line) + 1))
        return self._code_of(str(finding.file)).concerns(line, ran, used)

    def _code_of(self, file: str) -> Code:
        if file not in self._code:
            try:
                source = Path(file).read_bytes()
            except OSError:
                source = b""
            self._code[file] = Code(source)
        return self._code[file]


def as_finding(prediction: Prediction) -> Finding:
    """A prediction in the words that the checks use."""
    place = Place(str(prediction.path), prediction.range.line)
    return Finding(
        rule=prediction.rule.code,
        severity=prediction.severity,
        message=prediction.message,
        file=display_path(str(prediction.path)),
        line=prediction.range.line,
        end_line=prediction.range.end_line,
        source=place.source or None,
        rewrite=prediction.rewrite,
        outcomes=prediction.outcomes,
        sizes=prediction.sizes,
    )


def is_library(path: Path, source: str = "") -> bool:
    """Whether a file is no part of the project.

    The project is the working directory, and that of the target, without installed packages.

    Args:
        path: The file.
        source: The file or module of the target; empty where it is not known.
    """
    real = path.resolve()
    if is_installed(str(real)):
        return True
    return not any(real.is_relative_to(root) for root in (Path.cwd().resolve(), *_project_of(source)))


def _project_of(source: str) -> list[Path]:
    """The folder of a target, and the one in which its project begins."""
    from exportlint.source import layout

    file = Path(source) if Path(source).is_file() else _top_of_module(source)
    if file is None:
        return []
    folder = file.resolve().parent
    begins = layout.project(folder, os.path.isfile)
    return [folder] if begins is None else [folder, begins]


def file_of(source: str) -> Path | None:
    """The file that a target is written in; ``None`` where it is not known."""
    if Path(source).is_file():
        return Path(source)
    top = _top_of_module(source)
    parts = source.split(".")[1:]
    if top is None or (parts and top.name != "__init__.py"):
        return None
    inner = top.parent.joinpath(*parts)
    found = [top] if not parts else [inner.with_suffix(".py"), inner / "__init__.py"]
    return next((file for file in found if file.is_file()), None)


def _top_of_module(name: str) -> Path | None:
    """The file of the package, or of the module at the top, in which a module lies; nothing is imported."""
    top = name.partition(".")[0]
    if not top.isidentifier():
        return None
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    if places:
        return Path(places[0], "__init__.py")
    return Path(spec.origin) if spec is not None and spec.origin is not None and spec.has_location else None
