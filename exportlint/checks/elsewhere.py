"""The checks of one case as a job for an executor: another process, or another machine with the same folder.

The job and what it returns can be pickled. A process keeps its runner from job to job, since it starts a server.
"""

from __future__ import annotations

import atexit
import functools
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exportlint.checks.isolation.client import ServerError
from exportlint.checks.runner import LoadError, NamedCase, Options, Runner
from exportlint.checks.verdicts import Verdicts
from exportlint.text import own_fault

if TYPE_CHECKING:
    import concurrent.futures

    from exportlint.findings import CaseResult


class LostError(Exception):
    """What was to check a case is gone; the message is one line, fit for a user."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a job found out.

    Attributes:
        case: The result; ``None`` where there is none.
        error: Why there is none, in one line.
        notes: What there is to say of how checks ran.
        machine: The name of the machine.
    """

    case: CaseResult | None = None
    error: str = ""
    notes: tuple[str, ...] = ()
    machine: str = ""


@dataclass(frozen=True, slots=True)
class Pool:
    """An executor, and what its jobs are told beside their case.

    Attributes:
        executor: Runs jobs in other processes, or on other machines.
        options: What the caller wants.
        folder: The working directory.
        cache: Where verdicts are kept; ``None`` where none are.
    """

    executor: concurrent.futures.Executor
    options: Options
    folder: str
    cache: str | None = None

    def submit(self, case: NamedCase) -> concurrent.futures.Future[Answer]:
        """Start the job of a case."""
        return self.executor.submit(check, case, self.options, self.folder, self.cache)


def check(case: NamedCase, options: Options, folder: str, cache: str | None) -> Answer:
    """Run the checks of a case.

    Args:
        case: The case.
        options: What the caller wants.
        folder: The working directory of the caller, which this machine must have, too.
        cache: Where verdicts are kept, from there on; ``None`` where none are.
    """
    machine = socket.gethostname()
    try:
        os.chdir(folder)
    except OSError as error:
        return Answer(error=f"the machine {machine} cannot enter {folder}: {error.strerror}", machine=machine)
    runner = _runner(options, cache)
    try:
        return Answer(runner.check_named(case), notes=tuple(runner.notes), machine=machine)
    except (LoadError, ServerError) as error:
        return Answer(error=str(error), machine=machine)
    except Exception as error:  # one case's fault is not the others'
        return Answer(error=own_fault(error), machine=machine)


@functools.lru_cache(maxsize=1)
def _runner(options: Options, cache: str | None) -> Runner:
    runner = Runner(options, None if cache is None else Verdicts(Path(cache)))
    atexit.register(runner.close)
    return runner
