"""The units of many files: those that an earlier run knows are taken from it, and several processes run the others."""

from __future__ import annotations

import concurrent.futures
import gc
import hashlib
import multiprocessing
import os
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from exportlint.source.cache import still_there
from exportlint.source.project import Project
from exportlint.source.units import Analyst, Unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from exportlint.source.cache import Cache, Contents
    from exportlint.source.engine import Effort, Options

_SMALL = 400_000  # characters of source below which other processes cost more than they save
_JUDGES = ("modes", "torch_version", "whole_project")  # options that do not change what a file says
_CHUNKS = 8  # pieces of work for each process
_FRAMES = 1_000  # how deeply the analysis may nest, wherever it is called from


class Table(msgspec.Struct, array_like=True):
    """Units as they are kept: what was read for several of them is written once.

    Attributes:
        facts: What was read: a file, and its digest.
        units: By path, a unit and the places among the facts of what was read for it.
    """

    facts: list[tuple[str, str]]
    units: dict[str, tuple[Unit, list[int]]]


@dataclass(slots=True, eq=False)
class Units:
    """What the module classes of files say, by path."""

    options: Options
    effort: Effort
    cache: Cache
    contents: Contents
    given: Mapping[str, bytes] = field(default_factory=dict)
    _facts: dict[tuple[str, str], int] = field(default_factory=dict)
    _known: dict[str, tuple[Unit, list[int]]] = field(default_factory=dict)
    _learnt: bool = False

    def __post_init__(self) -> None:
        """Read what an earlier run found out under the same options."""
        table = self.cache.read(self._name, Table)
        if table is not None:
            self._facts = {fact: i for i, fact in enumerate(table.facts)}
            self._known = table.units

    @property
    def _name(self) -> str:
        asked = {f.name: getattr(self.options, f.name) for f in fields(self.options) if f.name not in _JUDGES}
        words = msgspec.json.encode(asked, order="deterministic")
        return f"units-{hashlib.blake2b(words, digest_size=6).hexdigest()}"

    def of(self, path: str) -> Unit:
        """What the file at a real path says, after `run`."""
        return self._known[path][0]

    def run(self, paths: Iterable[str]) -> None:
        """Find out what the files at these real paths say, unless it is known and nothing it was read from changed."""
        wanted = sorted(paths)
        wrong = self._wrong({i for path in wanted if path in self._known for i in self._known[path][1]})
        stale = [path for path in wanted if path not in self._known or not wrong.isdisjoint(self._known[path][1])]
        for path, unit in _run(stale, self.options, self.effort, self.given):
            self._learnt = True
            places = [self._facts.setdefault(fact, len(self._facts)) for fact in unit.reads.items()]
            unit.reads = {}  # a large project reads the same files for thousands of units
            self._known[path] = unit, places

    def _wrong(self, places: set[int]) -> set[int]:
        """Which of these facts hold no more."""
        facts = list(self._facts)
        return {i for i in places if self.contents.digest(facts[i][0]) != facts[i][1]}

    def keep(self) -> None:
        """Keep what was found out for the next run, and of what was read no more than it needs."""
        if not self._learnt:
            return
        facts, used = list(self._facts), dict[int, int]()
        units = {
            path: (unit, [used.setdefault(i, len(used)) for i in places])
            for path, (unit, places) in still_there(self._known).items()
        }
        self.cache.write(self._name, Table([facts[i] for i in used], units))


def _run(paths: list[str], options: Options, effort: Effort, given: Mapping[str, bytes]) -> Iterator[tuple[str, Unit]]:
    jobs = min(effort.jobs, len(paths)) if effort.seconds is None else 1
    if jobs > 1 and not given and sum(map(_size, paths)) > _SMALL:
        yield from _run_apart(paths, options, jobs)
        return
    analyst = _analyst(options, effort.seconds, given)
    with _undisturbed():
        for path in paths:
            yield path, analyst.unit(Path(path))


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116 - a string is at hand
    except OSError:
        return 0


def _analyst(
    options: Options, seconds: dict[str, float] | None = None, given: Mapping[str, bytes] | None = None
) -> Analyst:
    project = Project(
        options.module_bases, options.tracing_predicates, options.entry_points, options.tensor_types, given or {}
    )
    return Analyst(project, options.preview, seconds)


_worker: list[Analyst] = []
"""The analyst of this process, where it is one that works for another."""


def _run_apart(paths: list[str], options: Options, jobs: int) -> Iterator[tuple[str, Unit]]:
    # A fork is the cheapest start, and safe while there is one thread.
    alone = threading.active_count() == 1 and "fork" in multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("fork" if alone and sys.platform == "linux" else "spawn")
    pool = concurrent.futures.ProcessPoolExecutor(jobs, context, _begin, (options,))
    try:
        for chunk, units in pool.map(_run_chunk, _chunks(paths, jobs * _CHUNKS)):
            yield from zip(chunk, units, strict=True)
    except BaseException:  # Ctrl-C above all: what a worker is at may take a minute
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(options: Options) -> None:
    gc.disable()
    _worker[:] = [_analyst(options)]


def _run_chunk(paths: list[str]) -> tuple[list[str], list[Unit]]:
    with _undisturbed():
        return paths, [_worker[0].unit(Path(path)) for path in paths]


def _chunks(paths: list[str], count: int) -> Iterator[list[str]]:
    """Neighbours together, which import much the same, in pieces of about one size."""
    most = sum(map(_size, paths)) / count
    chunk: list[str] = []
    size = 0
    for path in paths:
        chunk.append(path)
        size += _size(path)
        if size >= most:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Collect no garbage meanwhile, since trees are large and hardly ever garbage; nest as deeply from anywhere."""
    collects, limit = gc.isenabled(), sys.getrecursionlimit()
    gc.disable()
    gc.freeze()
    sys.setrecursionlimit(_depth() + _FRAMES)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
        gc.unfreeze()
        if collects:
            gc.enable()


def _depth() -> int:
    frame = sys._getframe()
    count = 0
    while frame.f_back is not None:
        frame, count = frame.f_back, count + 1
    return count
