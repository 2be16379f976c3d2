"""Jobs, their limits, and how they ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from exportlint.processors import processors

Message = dict[str, Any]
Emit = Callable[[Message], None]

# Printed output is read back only where a job died; more than this is a fault of its own.
MAX_OUTPUT_BYTES = 256 * 2**20
LATE = "took too long for one call"
WARM = "warm "  # a request to the server begins with this where it pays to warm up first
KEEP, USE = "keep ", "use "  # then with one of these and a name, where it has to do with one


@dataclass(frozen=True, slots=True)
class Limits:
    """What a job may use.

    Attributes:
        cpu_seconds: CPU time for one check, all threads together.
        wall_seconds: Wall-clock time for one check; generous, for code that waits without computing.
        memory_bytes: Writable private memory of the process beyond what it was started with.
        threads: Threads that torch may compute with.
    """

    cpu_seconds: float
    wall_seconds: float
    memory_bytes: int
    threads: int = 1

    @classmethod
    def for_timeout(cls, timeout: float, *, jobs: int, memory_bytes: int | None = None) -> Limits:
        """Limits for `jobs` jobs at once that may each compute for `timeout` seconds."""
        threads = max(1, processors() // jobs)
        return cls(
            cpu_seconds=timeout * threads,
            wall_seconds=3 * timeout + 10,
            memory_bytes=memory_bytes or int(0.75 * machine_memory()) // jobs,
            threads=threads,
        )


End = Literal["done", "signal", "exit", "late", "wall", "cpu", "memory", "output", "lost"]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a job ended: ``done`` when it said so itself, else what stopped it.

    Attributes:
        how: ``signal`` and ``exit`` when the process died, ``late`` when it ended itself since one call took too long,
            ``wall``, ``cpu``, ``memory`` and ``output`` when a limit
            stopped it, ``lost`` when the server that ran it is gone.
        code: Signal number or exit status, where there is one.
        output: The last lines that it printed.
    """

    how: End
    code: int = 0
    output: tuple[str, ...] = field(default=())

    @property
    def words(self) -> str:
        """The ending as a part of a sentence, such as ``was killed by SIGABRT``."""
        if self.how == "signal":
            return f"was killed by {signal_name(self.code)}"
        return {
            "done": "ended",
            "exit": f"ended with status {self.code}",
            "late": LATE,
            "wall": "did not end in time",
            "cpu": "used up its CPU time",
            "memory": "used up its memory",
            "output": f"printed more than {MAX_OUTPUT_BYTES // 2**20} MiB",
            "lost": "was lost with its worker server",
        }[self.how]


def signal_name(number: int) -> str:
    """``SIGSEGV`` for 11."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def machine_memory() -> int:
    """Bytes of memory of the machine, or of the control group that the process lives in."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 8 * 2**30
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            total = min(total, int(Path(limit).read_text()))
        except (OSError, ValueError):
            continue
    return total
