"""Checks many models of the zoo, one line of JSON for each as soon as it is done; a run that was stopped goes on."""

from __future__ import annotations

import concurrent.futures
import contextlib
import datetime
import json
import os
import platform
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from exportlint import locking, zoo
from exportlint.checks import environment
from exportlint.checks.isolation.client import ServerError
from exportlint.checks.runner import LoadError, NamedCase, Options, Runner
from exportlint.text import own_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

SAME = ("model", "settings", "versions", "error")  # records of an error that agree in these say the same


class NoModelError(zoo.ZooError):
    """A specification stands for nothing."""

    def __init__(self, target: str, words: str) -> None:
        super().__init__(words)
        self.target = target


@dataclass(frozen=True)
class Record:
    """What is known of one model: the JSON of one line."""

    model: str
    seconds: float
    settings: dict[str, Any]
    versions: dict[str, str]
    date: str
    case: dict[str, Any] | None = None
    error: str | None = None

    @property
    def words(self) -> str:
        """One line for a person who watches."""
        if self.case is None:
            return f"{self.model}  {self.error}"
        checks = []
        for check in self.case["checks"]:
            counted = sum(f["severity"] != "info" for f in check["findings"])
            checks.append(f"{check['name']} {check['outcome']}" + (f" ({counted})" if counted else ""))
        return f"{self.model}  {self.seconds:.0f} s  " + "  ".join(checks)


class Lines:
    """The file of results. A line that a killed run left unfinished is dropped; complete ones are never rewritten."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records = list(self._read())

    def _read(self) -> Iterator[dict[str, Any]]:
        """The complete lines.

        Raises:
            ValueError: When a line is no JSON object that names a model.
        """
        data = self.path.read_bytes() if self.path.exists() else b""
        end = data.rfind(b"\n") + 1
        if end < len(data):
            os.truncate(self.path, end)
        for number, line in enumerate(data[:end].splitlines(), 1):
            try:
                record = json.loads(line)
            except ValueError:
                record = None
            if not isinstance(record, dict) or "model" not in record:
                raise ValueError(f"{self.path}:{number} is no result of the zoo")
            yield record

    def done(self, settings: dict[str, Any], versions: dict[str, str]) -> set[str]:
        """The models that were checked with these settings and versions; those that could not be are tried again."""
        alike = [r for r in self.records if r.get("settings") == settings and r.get("versions") == versions]
        return {r["model"] for r in alike if r.get("case") is not None}

    def add(self, record: Record) -> None:
        """Write one line, in one piece; an error that the file holds already is not written again."""
        made = msgspec.to_builtins(record)
        if record.case is None and any(all(r.get(key) == made[key] for key in SAME) for r in self.records):
            return
        self.records.append(made)
        line = json.dumps(made, sort_keys=True) + "\n"
        with self.path.open("ab", buffering=0) as file:
            file.write(line.encode())
            os.fsync(file.fileno())


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Keep other runs from adding lines to a file; one that stays empty is removed.

    Raises:
        ValueError: When another run adds lines to it.
        OSError: When it cannot be opened.
    """
    with path.open("ab") as file:
        try:
            locking.lock(file.fileno())
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror}") from error
        try:
            yield
        finally:
            if not os.fstat(file.fileno()).st_size:
                path.unlink(missing_ok=True)


def versions() -> dict[str, str]:
    """What the run is made with."""
    known = {name: environment.version(name) for name in ("exportlint", "torch", *environment.PACKAGES)}
    return {"python": platform.python_version(), **{name: found for name, found in known.items() if found is not None}}


def expand(runner: Runner, targets: Sequence[str]) -> list[str]:
    """The models that specifications stand for, each once.

    Raises:
        NoModelError: When one stands for nothing.
    """
    found: dict[str, None] = {}
    for target in targets:
        try:
            found.update(dict.fromkeys(_models(runner, target)))
        except (zoo.ZooError, LoadError) as error:
            raise NoModelError(target, str(error)) from error
    return list(found)


def _models(runner: Runner, target: str) -> list[str]:
    if not zoo.is_specification(target):
        raise zoo.ZooError(f"{target!r} is no model: write one of {', '.join(f'{s}:NAME' for s in zoo.SOURCES)}")
    zoo.require(target)
    if zoo.WILDCARDS.isdisjoint(target):
        return [target]  # a worker that is asked to check it says when there is none
    return [case.name for case in runner.list_cases(target)]


def run(targets: Sequence[str], options: Options, lines: Lines, say: Callable[[str], None]) -> int:
    """Check the models that are not done.

    Returns:
        How many could not be loaded.

    Raises:
        NoModelError: When a specification stands for nothing.
    """
    settings = {"checks": list(options.checks), "devices": list(options.devices), "timeout": options.timeout}
    made_with, failed = versions(), 0
    with Runner(options) as runner:
        models = expand(runner, targets)
        done = lines.done(settings, made_with)
        todo = [model for model in models if model not in done]
        say(f"{len(todo)} models to check, {len(models) - len(todo)} done")
        for number, record in enumerate(_records(runner, todo, settings, made_with), 1):
            lines.add(record)
            failed += record.case is None
            say(f"[{number}/{len(todo)}] {record.words}")
    return failed


def _records(
    runner: Runner, models: list[str], settings: dict[str, Any], made_with: dict[str, str]
) -> Iterator[Record]:
    def check(model: str) -> Record:
        return _check(runner, model, settings, made_with)

    if runner.options.jobs == 1:  # in this thread, since Ctrl-C reaches no other
        yield from map(check, models)
        return
    pool = concurrent.futures.ThreadPoolExecutor(runner.options.jobs)
    try:
        for future in concurrent.futures.as_completed([pool.submit(check, model) for model in models]):
            yield future.result()
    except BaseException:
        runner.close()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _check(runner: Runner, model: str, settings: dict[str, Any], made_with: dict[str, str]) -> Record:
    began = time.monotonic()
    case, error = None, None
    try:
        case = msgspec.to_builtins(runner.check_named(NamedCase(model, model, {}, alone=True)))
    except (LoadError, ServerError) as failure:
        error = str(failure)
    except Exception as failure:  # one model's fault is not the others'
        error = own_fault(failure)
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    return Record(model, round(time.monotonic() - began, 1), settings, made_with, date, case, error)
