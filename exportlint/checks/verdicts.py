"""Verdicts that are kept: what a check found out, for as long as nothing changes that it depends on.

One JSON file for each case, check and settings, named after the hash of these and of what every worker depends on
(torch's build, the interpreter, the CPU, the variables that torch reads). It has the last few verdicts, each with the
digests of all files that its worker read, and a verdict holds where they are the same. Nothing in it is executed: no
pickle, no program.

Paths are written relative to the working directory or to the folder of installed packages, so that a folder of verdicts
can be restored elsewhere, as CI does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import stat
import sys
import sysconfig
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from exportlint import whole_file
from exportlint._version import __version__
from exportlint.checks.dependencies import BASE, is_volatile
from exportlint.checks.watched import EVERYTHING
from exportlint.findings import SCHEMA_VERSION, CheckResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from exportlint.checks.dependencies import Dependencies

MOST_VERDICTS = 4  # of one case and check, so that going back and forth between two branches costs nothing
DAYS_KEPT = 60
TORCH_VARIABLES = ("TORCH", "PYTORCH", "ATEN_", "OMP_NUM", "MKL_", "CUDA_VISIBLE")
WHOLE = 64 * 2**20  # larger files are known by size and time
ABSENT = "absent"


class Stored(msgspec.Struct, frozen=True):
    """A verdict with what it depends on: digests of files and folders, and of values of variables."""

    result: CheckResult
    files: dict[str, str]
    folders: dict[str, str]
    variables: dict[str, str]
    packages: dict[str, str]

    @property
    def depends(self) -> tuple[dict[str, str], ...]:
        """All that it depends on: of two verdicts on the same of these, the later counts."""
        return self.files, self.folders, self.variables, self.packages


class Verdicts:
    """A folder of verdicts; several processes may use it at once.

    Args:
        folder: Where they are kept; made when the first is.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.trouble: str | None = None
        self._digests: dict[str, tuple[tuple[int, int, int], str]] = {}
        self._swept = False

    def find(self, key: str) -> CheckResult | None:
        """The verdict under this key that still holds, marked as kept."""
        for stored in self._read(key):
            if self._holds(stored):
                with contextlib.suppress(OSError):
                    os.utime(self._file(key))
                return dataclasses.replace(stored.result, cached=True)
        return None

    def keep(self, key: str, result: CheckResult, seen: Dependencies, began: float) -> None:
        """Keep a verdict; where the folder cannot be written, `trouble` says so and nothing is kept.

        Args:
            key: As `key` made it.
            result: The verdict.
            seen: What its worker read.
            began: When the worker began, as `time.time` has it: nothing is kept where a file was changed since.
        """
        files = dict.fromkeys(seen.files)
        if any(_changed_since(file, began) for file in files):
            return
        stored = Stored(
            result,
            {portable(path): self._digest(path) for path in files},
            {portable(path): _listing(path) for path in seen.folders},
            {name: _of_variable(name) for name in seen.variables},
            {name: _version(name) for name in _packages(files)},
        )
        others = [other for other in self._read(key) if other.depends != stored.depends]
        try:
            self._found()
            _write(self._file(key), msgspec.json.encode([stored, *others][:MOST_VERDICTS]))
            self._sweep()
        except (OSError, UnicodeEncodeError) as error:
            self.trouble = f"verdicts are not kept in {self.folder}: {getattr(error, 'strerror', None) or error}"

    def key(self, case: str, check: str, settings: Mapping[str, Any]) -> str:
        """The name under which verdicts of a case and a check are kept.

        Args:
            case: What the case is called, the same in every run.
            check: Name of the check.
            settings: What else it depends on; plain values.
        """
        torch = {name: value for name, value in os.environ.items() if name.startswith(TORCH_VARIABLES)}
        parts = [surroundings(), sorted(torch.items()), case, check, sorted(settings.items())]
        return hashlib.blake2b(msgspec.json.encode(parts), digest_size=20).hexdigest()

    @contextlib.contextmanager
    def only_one(self, case: str) -> Iterator[None]:
        """Hold back other processes that are about to check the same case: they will find its verdicts."""
        try:
            import fcntl

            name = hashlib.blake2b(case.encode("utf-8", "surrogateescape"), digest_size=20).hexdigest()
            lock = self.folder / "locks" / name
            lock.parent.mkdir(parents=True, exist_ok=True)
            file = lock.open("a")
        except (OSError, ImportError):  # a folder that cannot be written, or no such locks on this system
            yield
            return
        with file:
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _file(self, key: str) -> Path:
        return self.folder / "v1" / key[:2] / f"{key}.json"

    def _read(self, key: str) -> list[Stored]:
        """What is kept; a file that cannot be read, or is none of ours, holds nothing."""
        try:
            return msgspec.json.decode(self._file(key).read_bytes(), type=list[Stored])
        except (OSError, msgspec.MsgspecError, ValueError):
            return []

    def _holds(self, stored: Stored) -> bool:
        return (
            all(_of_variable(name) == digest for name, digest in stored.variables.items())
            and all(_version(name) == version for name, version in stored.packages.items())
            and all(self._digest(absolute(path)) == digest for path, digest in stored.files.items())
            and all(_listing(absolute(path)) == digest for path, digest in stored.folders.items())
        )

    def _digest(self, path: str) -> str:
        """The digest of a file's content, read once a session unless it changes."""
        try:
            status = Path(path).stat()
            stamp = (status.st_size, status.st_mtime_ns, status.st_mode)
            known = self._digests.get(path)
            if known is None or known[0] != stamp:
                self._digests[path] = known = (stamp, _of_content(path, status))
        except OSError:
            return ABSENT
        return known[1]

    def _found(self) -> None:
        """Make the folder, which backups and version control leave out."""
        mark = self.folder / "CACHEDIR.TAG"
        if not mark.exists():
            _write(self.folder / ".gitignore", b"*\n")
            _write(mark, b"Signature: 8a477f597d28d172789f06886806bc55\n# Verdicts of exportlint; may be deleted.\n")

    def _sweep(self) -> None:
        """Remove what nobody asked for in a long time, once a session."""
        if self._swept:
            return
        self._swept = True
        oldest = time.time() - DAYS_KEPT * 86400
        for kind in ("v1", "locks"):
            for file in (self.folder / kind).rglob("*"):
                with contextlib.suppress(OSError):
                    if file.is_file() and file.stat().st_mtime < oldest:
                        file.unlink()


def _of_content(path: str, status: os.stat_result) -> str:
    if stat.S_ISDIR(status.st_mode):
        return "folder"
    if status.st_size > WHOLE:
        return f"{status.st_size} {status.st_mtime_ns}"
    runs = " runs" if status.st_mode & stat.S_IXUSR else ""  # the one right that version control keeps
    return _whole(Path(path).read_bytes()) + runs


def _whole(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _changed_since(path: str, moment: float) -> bool:
    """Whether a file was written since; that a folder was is nothing, since only its being there counts."""
    try:
        status = Path(path).stat()
    except OSError:
        return False
    return status.st_mtime > moment and not stat.S_ISDIR(status.st_mode)


def _listing(folder: str) -> str:
    try:
        names = sorted(entry.name for entry in Path(folder).iterdir() if entry.name != "__pycache__")
    except OSError:
        return ABSENT
    return _whole("\0".join(names).encode("utf-8", "surrogateescape"))


def _of_variable(name: str) -> str:
    """The digest of a value, since it may be a secret."""
    if name == EVERYTHING:
        return _of_environment()
    value = os.environ.get(name)
    return ABSENT if value is None else _whole(value.encode("utf-8", "surrogateescape"))


def _of_environment() -> str:
    values = sorted(f"{name}={value}" for name, value in os.environ.items() if not is_volatile(name))
    return _whole("\0".join(values).encode("utf-8", "surrogateescape"))


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    whole_file.write(file, content)


@functools.cache
def _installed() -> str:
    return os.path.realpath(sysconfig.get_path("purelib")) + os.sep


def portable(path: str) -> str:
    """A path as it is kept: relative to the working directory or to the installed packages, where it lies inside."""
    for mark, root in (("site:", _installed()), ("here:", os.path.realpath(Path.cwd()) + os.sep)):
        if f"{path}{os.sep}".startswith(root):
            return mark + path[len(root) :]
    return path


def absolute(path: str) -> str:
    """The path that was kept."""
    if path.startswith("site:"):
        return _installed() + path[5:]
    return str(Path(os.path.realpath(Path.cwd()), path[5:])) if path.startswith("here:") else path


@functools.cache
def surroundings() -> tuple[str, ...]:
    """What every worker depends on; neither torch nor a package of these is imported for it."""
    versions = [f"{name} {_version(name)}" for name in BASE]
    machine = (sys.version, platform.system(), platform.machine(), _cpu())
    return (str(SCHEMA_VERSION), __version__, own_source(), *machine, torch_build(), *versions)


@functools.cache
def own_source() -> str:
    """The digest of exportlint's own source, since its version does not tell two states of a checkout apart."""
    root = Path(__file__).resolve().parents[1]
    return _whole(b"".join(file.read_bytes() for file in sorted(root.rglob("*.py"))))


@functools.cache
def torch_build() -> str:
    """Torch's version and commit, from the file in which its build wrote them."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return ABSENT
    try:
        return _whole((Path(spec.origin).parent / "version.py").read_bytes())
    except OSError:
        return _version("torch")


@functools.cache
def _cpu() -> str:
    """What the CPU can do, which decides the kernels that torch chooses."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return next((" ".join(sorted(line.split(":", 1)[1].split())) for line in lines if line.startswith("flags")), "")


def _packages(files: Mapping[str, None]) -> list[str]:
    """The distributions that these files belong to, by the name of the folder in which they are installed."""
    root = _installed()
    tops = {Path(file[len(root) :]).parts[0].removesuffix(".py") for file in files if file.startswith(root)}
    owners = _owners() if tops else {}
    return sorted({name for top in tops for name in owners.get(top, ())})


@functools.cache
def _owners() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


@functools.lru_cache(maxsize=1024)
def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ABSENT
