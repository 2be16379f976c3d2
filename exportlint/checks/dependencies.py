"""What a worker's verdict depends on: the files that it read, the variables of the environment that it asked for.

Recorded by an audit hook and by stand-ins (`exportlint.checks.watched`), so that a configuration that the model reads
counts as much as a module that it imports. Files that were looked for and not found count too, and files that were only
asked about. What torch, the standard library and exportlint read for themselves does not: their versions are part of
every key (`exportlint.checks.verdicts`). What another process reads, and what comes over a network, is not seen: that
there was one is. Files that code other than Python's opens are seen where Python's asked about them before.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exportlint.checks.watched import Callers, watch_environment, watch_questions
from exportlint.places import INSTALLED

if TYPE_CHECKING:
    from collections.abc import Iterable

SYSTEM = ("/proc/", "/sys/", "/dev/", "/etc/", "/usr/share/", "/usr/lib/locale/")
# Distributions of which every worker imports something before its job begins: their versions are part of every key.
BASE = ("hypothesis", "jinja2", "mpmath", "msgspec", "networkx", "numpy", "sortedcontainers", "sympy")
# Packages whose files count by version.
BY_VERSION = frozenset({"torch", "torchgen", "functorch", "exportlint", "pytest_exportlint", *BASE})
HYPOTHESIS = f"{os.sep}.hypothesis{os.sep}"  # what hypothesis keeps between runs; the draws do not depend on it
_WRITES = os.O_WRONLY | os.O_RDWR
VOLATILE = frozenset({"PWD", "OLDPWD", "SHLVL", "_", "COLUMNS", "LINES"})
VOLATILE_PREFIXES = ("PYTEST_", "COV_", "COVERAGE_")
STARTS, CONNECTS = "starts a process", "connects to another process or machine"
UNSEEN = {
    "os.exec": STARTS,
    "os.fork": STARTS,
    "os.forkpty": STARTS,
    "os.posix_spawn": STARTS,
    "os.spawn": STARTS,
    "os.system": STARTS,
    "socket.connect": CONNECTS,
    "subprocess.Popen": STARTS,
}


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What a job read.

    Attributes:
        files: Absolute paths, also of files that were not there.
        folders: Absolute paths of folders whose contents were listed.
        variables: Names of variables of the environment; `watched.EVERYTHING` for all.
        unseen: Where and how it learnt what is not seen, each in words: ``file:line starts a process``.
    """

    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()

    def __or__(self, other: Dependencies) -> Dependencies:
        """What either read."""
        return Dependencies(
            _union(self.files, other.files),
            _union(self.folders, other.folders),
            _union(self.variables, other.variables),
            _union(self.unseen, other.unseen),
        )


def _union(first: Iterable[str], second: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*first, *second]))


class Recorder:
    """Notes what this process reads from now on; for a process that ends with its job, since a hook stays for good."""

    def __init__(self) -> None:
        self._files: dict[str, None] = {}
        self._folders: dict[str, None] = {}
        self._variables: dict[str, None] = {}
        self._unseen: dict[str, None] = {}
        self._written: set[str] = set()
        self._loaded = frozenset(sys.modules)
        self._ignored: tuple[str, ...] = (*SYSTEM, *_versioned())
        self._callers = Callers(self._ignored)

    def start(self) -> None:
        """Begin."""
        sys.addaudithook(self._hear)
        watch_environment(self._read_variable, self._callers)
        watch_questions(self._asked_about, self._callers)

    def ignore(self, folder: str) -> None:
        """Leave out what is read in a folder."""
        if folder:
            self._ignored += (folder + os.sep,)

    def so_far(self) -> Dependencies:
        """What was read until now."""
        paths = [path for path in list(self._files) if path not in self._written]
        paths += [file for name in sys.modules.keys() - self._loaded if (file := _file_of(name))]
        files = dict.fromkeys(real for path in paths if (real := self._counting(path)) is not None)
        folders = dict.fromkeys(real for path in list(self._folders) if (real := self._counting(path)) is not None)
        variables = (name for name in list(self._variables) if not is_volatile(name))
        return Dependencies(
            tuple(sorted(files)), tuple(sorted(folders)), tuple(sorted(variables)), tuple(sorted(self._unseen))
        )

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        """The audit hook: called for everything that the interpreter reports, so it only takes note."""
        if event == "open":
            path, _, flags = args
            if not isinstance(path, int):
                name = _absolute(path)
                if flags & _WRITES:
                    self._written.add(name)
                else:
                    self._files[name] = None
        elif event in ("os.listdir", "os.scandir"):
            if not isinstance(args[0], int) and not _for_imports():
                self._folders[_absolute(args[0])] = None
        elif event == "ctypes.dlopen" and isinstance(args[0], str) and os.sep in args[0]:
            self._files[args[0]] = None
        elif event == "sqlite3.connect":
            self._asked_about(args[0])
        elif event in UNSEEN:
            self._learnt(UNSEEN[event])

    def _read_variable(self, name: str) -> None:
        self._variables[name] = None

    def _asked_about(self, path: Any) -> None:
        if not isinstance(path, int):  # a descriptor: its file was opened
            self._files[_absolute(path)] = None

    def _learnt(self, how: str) -> None:
        asks = self._callers.asking(sys._getframe(2), through_library=how == CONNECTS)
        if asks is not None:
            self._unseen[f"{asks.f_code.co_filename}:{asks.f_lineno} {how}"] = None

    def _counting(self, path: str) -> str | None:
        """The path to remember; ``None`` for one that does not count."""
        if path.endswith((".pyc", ".pyo")):
            try:
                path = importlib.util.source_from_cache(path)
            except ValueError:
                return None
        real = os.path.realpath(path)
        if path.startswith("<") or real.startswith(self._ignored) or HYPOTHESIS in real:
            return None
        return real


def _for_imports() -> bool:
    """Whether Python looks for modules or distributions: it lists each folder on the module path, whatever is there."""
    file = sys._getframe(2).f_code.co_filename
    return file.startswith("<frozen importlib") or f"{os.sep}importlib{os.sep}metadata{os.sep}" in file


def _absolute(path: str | bytes | os.PathLike[str] | None) -> str:
    """The path, also after the process has gone to another folder; a name in angle brackets as it is."""
    name = os.fsdecode("." if path is None else path)
    try:
        return name if name.startswith("<") else os.path.abspath(name)  # noqa: PTH100 (no link is followed)
    except OSError:  # the folder in which the process is was removed
        return name


def is_volatile(variable: str) -> bool:
    """Whether a variable differs from run to run without anybody's doing."""
    return variable in VOLATILE or variable.startswith(VOLATILE_PREFIXES)


def _file_of(module: str) -> str | None:
    file = getattr(sys.modules.get(module), "__file__", None)
    return file if isinstance(file, str) and Path(file).is_absolute() else None


def _versioned() -> tuple[str, ...]:
    """Folders that count by version: the standard library's, without what is installed in it, torch's, exportlint's."""
    found = [str(Path(__file__).resolve().parents[1]), str(Path(tempfile.gettempdir(), "torchinductor_"))]
    for name in BY_VERSION:
        origin = getattr(sys.modules.get(name), "__file__", None)
        if origin:
            found.append(str(Path(origin).resolve().parent))
    stdlib = Path(sysconfig.get_path("stdlib")).resolve()
    found += [str(entry) for entry in stdlib.iterdir() if entry.name not in INSTALLED] if stdlib.is_dir() else []
    return tuple(path if Path(path).is_file() or path.endswith("_") else path + os.sep for path in found)
