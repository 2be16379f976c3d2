"""What fixes make of red cases: they are written into a copy of the project, and the cases are checked again there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exportlint.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from exportlint.findings import CaseResult, CheckResult, Readiness
    from exportlint.fixes.edits import Applicability
    from exportlint.fixes.files import FixedFile

MOST_FILES = 20_000  # of a working directory that is copied
ALL: tuple[Applicability, ...] = ("safe", "unsafe")


class NoCopyError(Exception):
    """The project cannot be copied; the message is one line."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What fixes make of one case.

    Attributes:
        case: Name of the case.
        patch: The fixes as a unified diff, with paths relative to the working directory; empty where none applies.
        mended: Whether the checks that were red are not any more, and the model computes what it did.
        words: What became of the case, in one line.
    """

    case: str
    patch: str
    mended: bool
    words: str


@dataclass(frozen=True, slots=True)
class Trial:
    """How patched copies are tried.

    Attributes:
        examples: Calls that hypothesis draws.
        timeout: Seconds that a check may compute.
        devices: Devices for the check ``device``.
        variants: Variants that every case has beside its own.
    """

    examples: int
    timeout: float
    devices: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()

    def options(self, checks: Iterable[str]) -> list[str]:
        """The options of ``exportlint report``."""
        found = ["--examples", str(self.examples), "--timeout", str(self.timeout), "--checks", ",".join(checks)]
        found += ["--devices", ",".join(self.devices)] if self.devices else []
        return [*found, "--variants", ",".join(self.variants)] if self.variants else found


def suggestions(readiness: Readiness, trial: Trial) -> Iterator[Suggestion]:
    """One suggestion for each red case.

    The fixes, unsafe ones among them, are those of the lines that the linter finds in the files of the case's findings.
    They are written into a copy; the checks that were red run there, and its eager results are compared.
    """
    known: dict[Path, FixedFile | None] = {}
    for case in readiness.cases:
        if not case.red:
            continue
        files = [file for file in _files(case) if _fixed(file, known) is not None]
        fixed = [made for file in files if (made := known[file]) is not None]
        if not fixed:
            yield Suggestion(case.name, "", mended=False, words="no fix applies")
            continue
        yield _tried(case, fixed, trial)


def _files(case: CaseResult) -> Iterator[Path]:
    """The files below the working directory that findings of the case are in."""
    root = Path.cwd().resolve()
    names = (f.file for check in case.checks for f in check.findings if f.file is not None and f.severity != "info")
    for name in dict.fromkeys(names):
        file = Path(name).resolve()
        if file.is_relative_to(root) and file.suffix == ".py" and file.is_file():
            yield file


def _fixed(file: Path, known: dict[Path, FixedFile | None]) -> FixedFile | None:
    """The file with its fixes; ``None`` where none can be written."""
    if file not in known:
        from exportlint.config import ConfigError

        try:
            made = list(_fixes(file))
        except (ConfigError, OSError):  # the check `lint` has said so
            made = []
        known[file] = next((one for one in made if one.fixed.mended), None)
    return known[file]


def _fixes(file: Path) -> Iterator[FixedFile]:
    from exportlint.fixes.files import fixed_files
    from exportlint.linting.linter import check_files, check_text, resolver_of
    from exportlint.source.files import content

    resolver = resolver_of()
    found = [p for p in check_files([file], resolver).predictions if p.path == file]
    yield from fixed_files(found, content, lambda path, data: check_text(path, data, resolver).predictions, ALL)


def _tried(case: CaseResult, fixed: Sequence[FixedFile], trial: Trial) -> Suggestion:
    from exportlint.fixes.rounds import diff
    from exportlint.places import display_path

    patch = "".join(diff(display_path(str(one.path)), one.before, one.fixed.data) for one in fixed)
    names = [check.name for check in case.checks if check.red and check.name != "lint"] or ["capture"]
    number = counted(sum(len(one.fixed.mended) for one in fixed), "finding")
    try:
        with tempfile.TemporaryDirectory(prefix="exportlint-") as folder:
            copy_with(Path.cwd(), Path(folder), {one.path: one.fixed.data for one in fixed})
            mended, words = _outcome(Path(folder), case, [one.path for one in fixed], names, trial)
    except NoCopyError as error:
        mended, words = False, f"not tried: {error}"
    return Suggestion(case.name, patch, mended=mended, words=f"{number} of the linter fixed; {words}")


def _outcome(
    copy: Path, case: CaseResult, files: Sequence[Path], names: Sequence[str], trial: Trial
) -> tuple[bool, str]:
    """Whether a case is as it should be in a patched copy, and that in words."""
    after = _checked(copy, case, _module_path(copy, files), trial.options(names))
    if after is None:
        return False, "the patched case cannot be loaded"
    left = [check for check in after.checks if check.red or check.outcome == "not_checked"]
    if left:
        reasons = "; ".join(_told(check) for check in left)
        return False, f"in a patched copy {reasons}"
    passed = f"{', '.join(names)} passed in a patched copy"
    found = _compared(copy, case, files, trial)
    if "differs" not in found:
        return True, f"{passed}; eager results were not compared: {found['why']}"
    if found["differs"]:
        return False, f"{passed}, but its eager results differ from the model's: {found['differs']}"
    return True, f"{passed}, with the model's eager results"


def _told(check: CheckResult) -> str:
    words = f"{check.name} {check.outcome.replace('_', ' ')}"
    return f"{words} ({check.reason})" if check.reason else words


def _compared(copy: Path, case: CaseResult, files: Sequence[Path], trial: Trial) -> dict[str, str]:
    """What `exportlint.checks.eager_results` says of a patched copy beside the project."""
    project, results = Path.cwd(), copy / ".exportlint-suggested.results"
    again, answer = copy / ".exportlint-suggested.again", copy / ".exportlint-suggested.eager"
    variants = " ".join(trial.variants)

    def run(folder: Path, *arguments: str) -> bool:
        command = ["exportlint.checks.eager_results", _target_in(folder, case), case.name, *arguments]
        return _ran(folder, command, _module_path(folder, files), trial.timeout)

    def answered(folder: Path, file: Path) -> dict[str, str] | None:
        there = run(folder, str(file), variants, str(results)) and file.is_file()
        return json.loads(file.read_text(encoding="utf-8")) if there else None

    if not run(project, str(results), variants):
        return {"why": "the process that runs the model itself died or took too long"}
    found = answered(copy, answer)
    if found is None:
        return {"differs": "the process that runs it died or took too long"}
    if found.get("differs"):
        itself = answered(project, again)
        if itself is None or itself.get("differs"):
            return {"why": "the model differs from itself with the same seeds"}
    return found


def copy_with(root: Path, copy: Path, contents: dict[Path, bytes]) -> None:
    """Copy the Python files of a project, some with other contents; what else it holds is linked.

    Raises:
        NoCopyError: When there is too much of it.
    """
    from exportlint.checks.targets import is_passed_over

    count = 0
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if not is_passed_over(Path(folder, name))]
        there = copy / Path(folder).relative_to(root)
        there.mkdir(exist_ok=True)
        for name in files:
            count += 1
            if count > MOST_FILES:
                raise NoCopyError(f"the working directory holds more than {MOST_FILES} files")
            file = Path(folder, name)
            real = Path(os.path.realpath(file))  # which a loop of links does not stop
            if real in contents:
                (there / name).write_bytes(contents[real])
            elif name.endswith(".py") and file.is_file():  # links are followed to neighbours that are not patched
                shutil.copyfile(file, there / name)
            else:
                (there / name).symlink_to(file.absolute())


def _module_path(copy: Path, files: Iterable[Path]) -> list[str]:
    """Where modules are looked for: in the copy before what is installed as it is edited."""
    from exportlint.source import layout

    roots = [str(layout.top(file.parent, os.path.isfile)) for file in files]
    project = Path.cwd().resolve()
    entries = [Path(entry).resolve() for entry in (*roots, str(project), *sys.path[1:]) if entry]
    inside = [copy / entry.relative_to(project) for entry in entries if entry.is_relative_to(project)]
    return list(dict.fromkeys(str(entry) for entry in (*inside, *entries)))


def _target_in(folder: Path, case: CaseResult) -> str:
    """The TARGET of a case as a copy of the project, or the project itself, holds it."""
    target = Path(case.target)
    return str(folder / target.relative_to(Path.cwd())) if target.is_absolute() else case.target


def _checked(copy: Path, case: CaseResult, path: list[str], options: list[str]) -> CaseResult | None:
    """The case as a run in the copy finds it."""
    from exportlint.report import read

    file = copy / ".exportlint-suggested.json"
    _ran(copy, ["exportlint", "report", _target_in(copy, case), *options, "--no-cache", "--output", str(file)], path)
    try:
        found = [one for one in read(file).cases if one.name == case.name]
    except (OSError, ValueError):
        return None
    return found[0] if found else None


def _ran(folder: Path, command: list[str], path: list[str], timeout: float | None = None) -> bool:
    """Run a module of Python in a folder; whether it ended well."""
    try:
        ran = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        return False
    return ran.returncode == 0
