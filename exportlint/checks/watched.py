"""Reads of which Python tells no audit hook: of the environment, and questions about files that are not opened.

Stand-ins for `os.environ` and for functions of `os`, for a process that ends with its job. Dynamo inlines them as it
does what they stand for, so they take no note while it traces: what it captures without them it captures with them.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Any

from exportlint.places import INSTALLED

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

EVERYTHING = "*"  # stands for all variables, where the environment was copied or looped over; no variable is named so
ASKED = ("stat", "lstat", "access", "readlink")  # `os.path` and `pathlib` ask these
# Between the code that asks and what is asked.
BETWEEN = ("_collections_abc", "genericpath", "glob", "os", "pathlib", "posixpath", "shutil", "subprocess", "zipfile")
PACKAGES_BETWEEN = ("asyncio", "concurrent", "multiprocessing", "pathlib")
_RESOLVING = frozenset({"realpath", "_joinrealpath"})  # asks about each folder above a path
_COMPILERS = ("_dynamo", "_functorch", "_inductor")  # of torch; they ask about what they keep themselves
_COVERAGE = ("coverage", "pytest_cov")  # measure the model, and are none of it


def _files_between() -> frozenset[str]:
    """The standard library's files that ask on behalf of their callers."""
    folder = os.path.dirname(os.__file__)  # noqa: PTH120 (as the code's own file names are written)
    named = {os.path.join(folder, f"{name}.py") for name in BETWEEN}  # noqa: PTH118
    loaded = {getattr(sys.modules.get(name), "__file__", None) for name in BETWEEN}
    frozen = {f"<frozen {name}>" for name in BETWEEN}
    return frozenset(named | frozen | {file for file in loaded if file})


class Callers:
    """Tells the code that asks for something from what is between.

    Args:
        ignored: Beginnings of the paths of code that does not count.
    """

    def __init__(self, ignored: tuple[str, ...]) -> None:
        folder = os.path.dirname(os.__file__)  # noqa: PTH120
        self._library = folder + os.sep
        self._installed = tuple(os.path.join(folder, name) + os.sep for name in INSTALLED)  # noqa: PTH118
        self._between = _files_between()
        self._folders = tuple(os.path.join(folder, name) + os.sep for name in PACKAGES_BETWEEN)  # noqa: PTH118
        self._torch = _folder_of("torch")
        self._compilers = tuple(self._torch + name + os.sep for name in _COMPILERS)
        self._ignored = (*ignored, *(_folder_of(name) for name in _COVERAGE if name in sys.modules), "<frozen ")

    def asking(
        self, frame: FrameType | None, *, through_library: bool = False, through_torch: bool = False
    ) -> FrameType | None:
        """The code that asked; `None` where it does not count.

        Args:
            frame: Where it was asked.
            through_library: Take all of the standard library for between.
            through_torch: Take torch for between, its compilers apart: what `torch.jit.load` asks, its caller does.
        """
        while frame is not None:
            file = frame.f_code.co_filename
            passed = (
                self._is_between(file)
                or (through_library and self._is_library(file))
                or (through_torch and self._is_torch(file))
            )
            if not passed:
                return None if file.startswith(self._ignored) else frame
            frame = frame.f_back
        return None

    def _is_between(self, file: str) -> bool:
        return file in self._between or file.startswith(self._folders)

    def _is_torch(self, file: str) -> bool:
        return file.startswith(self._torch) and not file.startswith(self._compilers)

    def _is_library(self, file: str) -> bool:
        return file.startswith("<frozen ") or (file.startswith(self._library) and not file.startswith(self._installed))


def _folder_of(package: str) -> str:
    """Where a package that is imported lies, with the separator; what no path begins with where it is nowhere."""
    file = getattr(sys.modules.get(package), "__file__", None)
    return os.path.dirname(file) + os.sep if file else "\0"  # noqa: PTH120


def watch_environment(note: Callable[[str], None], callers: Callers) -> None:
    """Call `note` with the name of each variable that code that counts asks for, or with `EVERYTHING`."""
    from torch.compiler import is_dynamo_compiling

    def hear(key: Any, frame: FrameType | None) -> None:
        if callers.asking(frame) is not None:
            note(os.fsdecode(key) if isinstance(key, (str, bytes)) else str(key))

    kind = type(os.environ)

    class Watched(kind):  # type: ignore[misc, valid-type]
        def __getitem__(self, key: Any) -> Any:
            if not is_dynamo_compiling():
                hear(key, sys._getframe(1))
            return super().__getitem__(key)

        def __iter__(self) -> Any:  # also of a copy, and of a loop over the values
            if not is_dynamo_compiling():
                hear(EVERYTHING, sys._getframe(1))
            return super().__iter__()

    os.environ.__class__ = Watched
    if os.supports_bytes_environ:
        os.environb.__class__ = Watched


def watch_questions(note: Callable[[Any], None], callers: Callers) -> None:
    """Call `note` with each path that code that counts asks about without opening it."""
    from torch.compiler import is_dynamo_compiling

    def hear(path: Any, frame: FrameType | None) -> None:
        if frame is None or frame.f_code.co_name in _RESOLVING:
            return
        if callers.asking(frame, through_torch=True) is not None:
            note(path)

    def watched(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def asked(path: Any, *args: Any, **keywords: Any) -> Any:
            if not is_dynamo_compiling() and keywords.get("dir_fd") is None:
                hear(path, sys._getframe(1))
            return original(path, *args, **keywords)

        return asked

    for name in ASKED:
        original = getattr(os, name)
        stand_in = watched(original)
        setattr(os, name, stand_in)
        for capable in (os.supports_dir_fd, os.supports_effective_ids, os.supports_fd, os.supports_follow_symlinks):
            if original in capable:
                capable.add(stand_in)
