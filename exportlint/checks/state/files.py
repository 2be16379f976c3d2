"""Files that a model reads when it runs, and what else they might hold.

Reads are heard by an audit hook, which hears those of numpy and of the standard library as well; questions about files
are heard by patched functions of `os`. Nothing of the user's is changed: another answer comes from a file elsewhere,
and while it is given nothing can be written.
"""

from __future__ import annotations

import functools
import inspect
import io
import itertools
import linecache
import os
import re
import sys
import tokenize
import traceback
import warnings
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from exportlint import places
from exportlint.places import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

ASKING = ("stat", "lstat", "access", "listdir", "scandir")  # functions of os that take a path
LOADING = ("loadtxt", "genfromtxt")  # functions of numpy that open files by a function of their own
MOST_BYTES = 2**20  # of a file that is written anew with other contents
MOST_FRAMES = 40
_NPY = b"\x93NUMPY"
_SOURCE = (".py", ".pyc", ".pyi")
_SYSTEM = ("/usr/share/zoneinfo/", "/usr/lib/locale/")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_CHANGING = frozenset({
    "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink", "os.chmod", "os.utime",
    "shutil.rmtree", "shutil.move", "shutil.copyfile", "subprocess.Popen", "os.system",
})  # fmt: skip
_TORCH = str(Path(torch.__file__).parent) + os.sep
_SHOWING = frozenset(str(module.__file__) for module in (inspect, linecache, tokenize, traceback, warnings))


class _Ear:
    """Hears what the interpreter opens: there is one for the process, since an audit hook stays for good."""

    def __init__(self) -> None:
        self.heard: Callable[[str, FrameType], None] | None = None
        self.read_only = False
        self._installed = False

    def open(self, heard: Callable[[str, FrameType], None], *, read_only: bool) -> None:
        """Begin to hear; with `read_only`, nothing can be written."""
        if not self._installed:
            sys.addaudithook(self._hear)
            self._installed = True
        self.heard, self.read_only = heard, read_only

    def close(self) -> None:
        """Hear nothing more."""
        self.heard, self.read_only = None, False

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        heard = self.heard
        if heard is None:
            return
        if event == "open":
            path, _, flags = args
            if not isinstance(path, (str, bytes)):
                return
            if not flags & _WRITES:
                heard(os.fsdecode(path), sys._getframe(1))
            elif self.read_only and os.fsdecode(path) != os.devnull:
                raise PermissionError(f"nothing is written while a model meets other files: {os.fsdecode(path)}")
        elif self.read_only and event in _CHANGING:
            raise PermissionError(f"nothing is changed while a model meets other files: {event}")


EAR = _Ear()


def reader(frame: FrameType | None) -> Place | None:
    """The user's line that asked for a file.

    Returns:
        The line; ``None`` for what an import reads, for what torch or exportlint read for themselves, for source that
        a warning shows, and for the folders on the way to a file or to one that is made.
    """
    for caller in itertools.islice(outwards(frame), MOST_FRAMES):
        file, name = caller.f_code.co_filename, caller.f_code.co_name
        if file == __file__ and name == redirected.__name__:
            continue
        if places.is_users(file):
            return None if name == "<module>" else Place(os.path.realpath(file), caller.f_lineno)
        unasked = file in _SHOWING or name.endswith("realpath") or name == "makedirs"
        if unasked or file.startswith("<frozen importlib") or asks_for_itself(file):
            return None
    return None


def asks_for_itself(file: str) -> bool:
    """Whether code of this file, torch's or exportlint's, reads what is no business of the model's."""
    return file.startswith(_TORCH) or f"{os.sep}exportlint{os.sep}" in file


def outwards(frame: FrameType | None) -> Iterator[FrameType]:
    """The frame and those around it, the innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def absolute(path: Any) -> str:
    """The path from the root; links are not followed."""
    return os.path.normpath(Path(path).absolute())


def counts(path: str) -> bool:
    """Whether a file may say something to a model: not source code, and nothing of the system's own."""
    return not path.endswith(_SOURCE) and not path.startswith(_SYSTEM) and ".dist-info" not in path


def elsewhere(path: Any, substitute: tuple[str, str] | None) -> Any:
    """The path that stands for this one, where it is the first of the two or lies in it."""
    if substitute is None or not isinstance(path, (str, os.PathLike)):
        return path
    here, there = absolute(path), substitute[0]
    if here == there or here.startswith(there + os.sep):
        return substitute[1] + here[len(there) :]
    return path


def redirected(function: Callable[..., Any], substitute: tuple[str, str], only: Place | None) -> Callable[..., Any]:
    """The function, with another path as its first argument where that is meant, and where it is asked at `only`."""

    @functools.wraps(function)
    def redirected(path: Any, *args: Any, **kwargs: Any) -> Any:
        here = only is None or reader(sys._getframe(1)) == only
        return function(elsewhere(path, substitute) if here else path, *args, **kwargs)

    return redirected


# -- other answers


def others(path: str, folder: Path, mentioned: Iterable[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """What a file, a folder or nothing might be instead: in words, and the path with what stands for it.

    Args:
        path: Absolute path.
        folder: An empty folder, where the others are made.
        mentioned: Texts that the file might hold.
    """
    here, name = Path(path), Path(path).name
    makers: list[tuple[str, Callable[[Path], Any]]] = []
    if here.is_dir():
        makers = [
            (f"with nothing in {name}", Path.mkdir),
            (f"with more in {name}", lambda there: _with_more(here, there)),
        ]
    elif here.is_file() and here.stat().st_size <= MOST_BYTES:
        makers = [
            (f"with other contents of {name}", functools.partial(Path.write_bytes, data=data))
            for data in _contents(here.read_bytes(), mentioned)
        ]
    if here.exists():
        makers.append((f"without {name}", lambda _: None))
    else:
        makers = [(f"with a file {name}", lambda there: there.write_text("1")), (f"with a folder {name}", Path.mkdir)]
    for number, (words, make) in enumerate(makers):
        there = folder / str(number) / name
        there.parent.mkdir(parents=True)
        make(there)
        yield words, (path, str(there))


def _with_more(here: Path, there: Path) -> None:
    """Make a folder with links to what is in another, and one more file."""
    there.mkdir()
    inside = sorted(here.iterdir())
    for item in inside:
        (there / item.name).symlink_to(item)
    suffix = inside[0].suffix if inside else ""
    (there / f"one_more{suffix}").write_text("1")


def _contents(held: bytes, mentioned: Iterable[str]) -> list[bytes]:
    """Other contents: of the same form with other numbers, longer, those that are mentioned, none."""
    found = [altered(held), held + held, *(text.encode("utf-8", "replace") for text in mentioned), b""]
    return [data for data in dict.fromkeys(found) if data != held]


def altered(held: bytes) -> bytes:
    """The same file with other numbers in it: text, arrays of numpy, archives of them, plain bytes."""
    if held.startswith(_NPY):
        wide = held[6] > 1
        begin = (12 if wide else 10) + int.from_bytes(held[8 : 12 if wide else 10], "little")
        return held[:begin] + _flipped(held[begin:])
    if zipfile.is_zipfile(io.BytesIO(held)):
        return _altered_archive(held)
    try:
        text = held.decode()
    except UnicodeDecodeError:
        return _flipped(held)
    words = {"true": "false", "false": "true", "True": "False", "False": "True"}
    text = re.sub(r"\b[tTfF](?:rue|alse)\b", lambda match: words.get(match[0], match[0]), text)
    return re.sub(r"[0-9]", lambda match: str((int(match[0]) + 1) % 10), text).encode()


def _flipped(held: bytes) -> bytes:
    return bytes(byte ^ 1 for byte in held)


def _altered_archive(held: bytes) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(held)) as old, zipfile.ZipFile(written, "w") as new:
        for item in old.infolist():
            data = old.read(item)
            new.writestr(item.filename, altered(data) if item.filename.endswith(".npy") else data)
    return written.getvalue()
