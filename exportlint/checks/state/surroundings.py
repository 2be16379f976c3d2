"""What a model reads of its surroundings: clocks, random numbers of Python and numpy, the environment, files.

`Surroundings` is a context in which reads by the user's own frames are noted with their line, and in which a `Twin`
gives other answers: another time, another seed, another value of a variable. All patches are undone at its end.
"""

from __future__ import annotations

import builtins
import copy
import datetime
import functools
import io
import itertools
import os
import random
import secrets
import sys
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from exportlint import places
from exportlint.checks.state import files
from exportlint.places import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType, ModuleType

Kind = Literal["clock", "random", "entropy", "environment", "file", "path", "seed"]

CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
ENTROPY: tuple[tuple[ModuleType, tuple[str, ...]], ...] = (
    (os, ("urandom",)),
    (uuid, ("uuid1", "uuid4")),
    (secrets, ("token_bytes", "token_hex", "token_urlsafe", "randbelow", "randbits", "choice")),
)
EPOCH, UPTIME = 1_750_000_000.0, 5_000.0  # where a twin's clocks begin, in seconds
# Seconds: more than a day with a fraction; a second and an odd number of nanoseconds; half a day; most of a year.
SHIFTS = (123_456.789, 1.000_000_007, 43_200.0, 26_000_000.0)
TICK = 0.01  # seconds between two reads of a twin's clock; they grow, so that code that waits for a time gets there
OTHER_SEEDS = (20_077, 1, 2, 3, 4, 5, 6, 7)
OTHER_VALUES = (None, "0", "1", "", "other")


@dataclass(frozen=True, slots=True)
class Read:
    """A read of the surroundings.

    Attributes:
        kind: What was read.
        what: How the source names it: ``time.time``, the variable, the file.
        place: The line that read it.
        path: Of a file, or of what was asked of the file system: its absolute path.
    """

    kind: Kind
    what: str
    place: Place
    path: str = ""


@dataclass(frozen=True, slots=True)
class Twin:
    """Other surroundings.

    Attributes:
        clock: Whether clocks are replaced by one that counts its reads.
        shift: Seconds by which that clock is ahead, for reads at `only`, or all.
        seed: Seed of Python's and numpy's random numbers; torch's stays.
        variable: Name and value of an environment variable; ``None`` for one that is not set.
        file: Absolute path of a file or folder, and the path of what stands for it; nothing can be written then.
        only: The only line to which shift, seed and file apply.
    """

    clock: bool = False
    shift: float = 0.0
    seed: int | None = None
    variable: tuple[str, str | None] | None = None
    file: tuple[str, str] | None = None
    only: Place | None = None


@dataclass
class Surroundings:
    """A context that notes reads and answers as its twin does.

    Attributes:
        modules: The user's Python modules, whose own names for clocks and generators are patched too.
        twin: The other surroundings, if any.
        reads: What was read, each once, in order.
    """

    modules: Iterable[ModuleType]
    twin: Twin = field(default_factory=Twin)
    reads: dict[Read, None] = field(default_factory=dict)
    _undo: list[Callable[[], None]] = field(default_factory=list)
    _count: int = 0

    def __enter__(self) -> Surroundings:
        try:
            self._patch_clocks()
            self._patch_generators()
            self._patch_environment()
            self._patch_files()
            self._replace(torch, "manual_seed", self._noted("seed", "torch.manual_seed", torch.manual_seed))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()

    def _replace(self, owner: Any, name: str, new: Any) -> None:
        """Patch a name, and every name that the user's modules have for the same thing."""
        old = getattr(owner, name)
        targets = [(owner, name)]
        for module in self.modules:
            targets += [(module, key) for key, value in list(vars(module).items()) if value is old]
        for target, key in targets:
            setattr(target, key, new)
            self._undo.append(functools.partial(setattr, target, key, old))

    def _note(self, kind: Kind, what: str, place: Place | None) -> None:
        if place is not None:
            self.reads.setdefault(Read(kind, what, place))

    def _noted(self, kind: Kind, what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with calls by the user's own frames noted."""

        @functools.wraps(function)
        def noted(*args: Any, **kwargs: Any) -> Any:
            self._note(kind, what, direct(sys._getframe(1)))
            return function(*args, **kwargs)

        return noted

    def _patch_clocks(self) -> None:
        for name in CLOCKS:
            if hasattr(time, name):
                self._replace(time, name, self._clock(f"time.{name}", getattr(time, name), 1.0))
                nano = self._clock(f"time.{name}_ns", getattr(time, f"{name}_ns"), 1e9)
                self._replace(time, f"{name}_ns", nano)
        for name, asks in (("localtime", 0), ("gmtime", 0), ("ctime", 0), ("strftime", 1)):
            self._replace(time, name, self._broken_down(name, getattr(time, name), asks))
        dates, moments = self._dates()
        self._replace(datetime, "date", dates)
        self._replace(datetime, "datetime", moments)

    def _broken_down(self, name: str, function: Callable[..., Any], asks: int) -> Callable[..., Any]:
        """A function that reads the clock where it is called with no more than this many arguments."""
        local = time.localtime

        @functools.wraps(function)
        def read(*args: Any) -> Any:
            place = direct(sys._getframe(1))
            if len(args) > asks and args[asks] is not None:
                return function(*args)
            self._note("clock", f"time.{name}", place)
            if place is None or not self.twin.clock:
                return function(*args)
            now = EPOCH + self._ahead(place)
            return function(*args[:asks], now if asks == 0 else local(now))

        return read

    def _clock(self, what: str, function: Callable[[], Any], scale: float) -> Callable[[], Any]:
        epoch = EPOCH if what.startswith("time.time") else UPTIME

        @functools.wraps(function)
        def read() -> Any:
            place = direct(sys._getframe(1))
            self._note("clock", what, place)
            if place is None or not self.twin.clock:
                return function()
            ahead = self._ahead(place)
            return int(epoch * scale) + round(ahead * scale) if scale > 1 else epoch + ahead

        return read

    def _ahead(self, place: Place) -> float:
        """Seconds by which the twin's clock is ahead at this read. Time also passes faster on a shifted clock."""
        self._count += 1
        shifted = self.twin.shift if self.twin.only in (None, place) else 0.0
        return shifted + TICK * self._count * self._count * (2 if shifted else 1)

    def _dates(self) -> tuple[type, type]:
        """The classes of dates and of moments, whose present is read from the twin's clock."""
        surroundings, date, moment = self, datetime.date, datetime.datetime

        class Dates(date, metaclass=_Standing):  # type: ignore[misc, valid-type]
            @classmethod
            def today(cls) -> datetime.date:
                now = surroundings._date("datetime.date.today", moment.now(), sys._getframe(1))
                return cls(now.year, now.month, now.day)

        class Moments(moment, metaclass=_Standing):  # type: ignore[misc, valid-type]
            @classmethod
            def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
                return surroundings._date("datetime.datetime.now", moment.now(tz), sys._getframe(1))

            @classmethod
            def utcnow(cls) -> datetime.datetime:
                now = moment.now(datetime.timezone.utc).replace(tzinfo=None)
                return surroundings._date("datetime.datetime.utcnow", now, sys._getframe(1))

            @classmethod
            def today(cls) -> datetime.datetime:
                return surroundings._date("datetime.datetime.today", moment.now(), sys._getframe(1))

        return Dates, Moments

    def _date(self, what: str, now: datetime.datetime, frame: FrameType) -> datetime.datetime:
        place = direct(frame)
        self._note("clock", what, place)
        if place is None or not self.twin.clock:
            return now
        return type(now).fromtimestamp(EPOCH + self._ahead(place), now.tzinfo)

    def _patch_generators(self) -> None:
        for name in random.__all__:
            if getattr(getattr(random, name), "__self__", None) is random._inst and "state" not in name:
                kind: Kind = "seed" if name == "seed" else "random"
                drawn = self._drawn(getattr(random, name), random.getstate, random.setstate, random.seed)
                self._replace(random, name, self._noted(kind, f"random.{name}", drawn))
        for owner, names in ENTROPY:
            for name in names:
                what = f"{owner.__name__}.{name}"
                self._replace(owner, name, self._noted("entropy", what, getattr(owner, name)))
        numpy: Any = sys.modules.get("numpy")
        if numpy is not None:
            self._patch_numpy(numpy.random)

    def _patch_numpy(self, generators: Any) -> None:
        for name in generators.__all__:
            function = getattr(generators, name)
            if getattr(function, "__self__", None) is generators.mtrand._rand and "state" not in name:
                kind: Kind = "seed" if name == "seed" else "random"
                drawn = self._drawn(function, generators.get_state, generators.set_state, generators.seed)
                self._replace(generators, name, self._noted(kind, f"numpy.random.{name}", drawn))
        make = generators.default_rng

        @functools.wraps(make)
        def default_rng(seed: Any = None) -> Any:
            if seed is None:
                self._note("entropy", "numpy.random.default_rng", direct(sys._getframe(1)))
            return make(seed)

        self._replace(generators, "default_rng", default_rng)

    def _drawn(
        self,
        function: Callable[..., Any],
        get: Callable[[], Any],
        put: Callable[[Any], None],
        seed: Callable[[int], None],
    ) -> Callable[..., Any]:
        """The function; where the twin is about one line only, that line draws other numbers and no other line does."""
        other = self.twin.seed
        if other is None or self.twin.only is None or function is seed:
            return function

        @functools.wraps(function)
        def drawn(*args: Any, **kwargs: Any) -> Any:
            if direct(sys._getframe(2)) != self.twin.only:
                return function(*args, **kwargs)
            before = get()
            function(*copy.deepcopy(args), **copy.deepcopy(kwargs))
            after = get()
            self._count += 1
            try:
                put(before)
                seed(other + self._count)
                return function(*args, **kwargs)
            finally:
                put(after)

        return drawn

    def seed(self) -> None:
        """Seed Python's and numpy's generators as the twin wants them; to be called before the model is."""
        if self.twin.seed is None or self.twin.only is not None:
            return
        random.seed(self.twin.seed)
        numpy: Any = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed(self.twin.seed)

    def _patch_environment(self) -> None:
        kind: Any = type(os.environ)
        plain = kind.__getitem__

        def getitem(environ: Any, key: Any) -> Any:
            self._note("environment", str(key), through_libraries(sys._getframe(1)))
            return plain(environ, key)

        kind.__getitem__ = getitem
        self._undo.append(lambda: setattr(kind, "__getitem__", plain))
        if self.twin.variable is not None:
            name, value = self.twin.variable
            old = os.environ.get(name)
            self._undo.append(functools.partial(set_variable, name, old))
            set_variable(name, value)

    def _patch_files(self) -> None:
        files.EAR.open(self._opened, read_only=self.twin.file is not None)
        self._undo.append(files.EAR.close)
        for name in files.ASKING:
            self._replace(os, name, self._asked(getattr(os, name)))
        if self.twin.file is None:
            return
        plain, opened = io.open, files.redirected(io.open, self.twin.file, self.twin.only)
        for owner in (builtins, io):
            if owner.open is plain:
                self._replace(owner, "open", opened)
        self._replace(torch, "save", _refused)
        numpy: Any = sys.modules.get("numpy")
        for name in files.LOADING if numpy is not None else ():
            self._replace(numpy, name, files.redirected(getattr(numpy, name), self.twin.file, self.twin.only))

    def _opened(self, path: str, frame: FrameType) -> None:
        if files.counts(path):
            place = files.reader(frame)
            if place is not None:
                self.reads.setdefault(Read("file", Path(path).name, place, files.absolute(path)))

    def _asked(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that asks the file system about a path, which is noted and may be another one."""

        @functools.wraps(function)
        def asked(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
            if isinstance(path, (str, os.PathLike)) and files.counts(name := str(path)):
                place = files.reader(sys._getframe(1))
                if place is not None:
                    full = files.absolute(name)
                    self.reads.setdefault(Read("path", Path(full).name, place, full))
                    path = files.elsewhere(path, self.twin.file if self.twin.only in (None, place) else None)
            return function(path, *args, **kwargs)

        return asked


def _refused(*_: Any, **__: Any) -> None:
    raise PermissionError("nothing is written while a model meets other files")


class _Standing(type):
    """For a class that stands for its base: what is an instance of the base is an instance of it."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.__mro__[1])

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls.__mro__[1])


def set_variable(name: str, value: str | None) -> None:
    """Set an environment variable; ``None`` takes it away."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def direct(frame: FrameType) -> Place | None:
    """The line of a frame that is the user's own; ``None`` for torch's and for libraries that read on their own."""
    file = frame.f_code.co_filename
    return Place(os.path.realpath(file), frame.f_lineno) if places.is_users(file) else None


def through_libraries(frame: FrameType) -> Place | None:
    """The user's line that asked the standard library or numpy to read; ``None`` where torch or exportlint asked."""
    for caller in itertools.islice(files.outwards(frame), 20):
        file = caller.f_code.co_filename
        if places.is_users(file):
            return Place(os.path.realpath(file), caller.f_lineno)
        if files.asks_for_itself(file):
            return None
    return None
