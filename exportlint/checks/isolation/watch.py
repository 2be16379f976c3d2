"""The caller's side of a job: read its messages, stop it at its limits, and say how it ended."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from exportlint.checks.isolation.child import OUT_OF_MEMORY, STACK_OF_LATE
from exportlint.checks.isolation.job import MAX_OUTPUT_BYTES, Ending

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from exportlint.checks.isolation.job import Emit, End, Limits, Message

TICK_SECONDS = 0.2
STACK_SECONDS = 1.0  # how long a process that is to be stopped may take to print its stack
LOST_SECONDS = 5.0  # how long to wait for the exit status once the other end has closed
TAIL_BYTES = 64 * 1024


@dataclass
class Watch:
    """One running job.

    Attributes:
        channel: The caller's end of the socket on which the job's messages arrive.
        output: The file that the job prints to.
        limits: Limits on wall-clock time and output are kept here; those on CPU time and memory by the kernel.
        on_message: Called with each message of the job, in order.
        poll_exit: The exit code of the process once it has ended, where the caller itself is its parent.
    """

    channel: socket.socket
    output: IO[bytes]
    limits: Limits
    on_message: Emit
    poll_exit: Callable[[], int | None] | None = None
    pid: int | None = None
    exit_code: int | None = None
    done: bool = False
    stopped: End | None = None
    buffer: bytearray = field(default_factory=bytearray)
    began: float = 0.0
    waited_before: float = 0.0  # as `_waited` said when the check began

    def wait(self) -> Ending:
        """Wait for the end of the job; on any exception, Ctrl-C included, the job is killed first."""
        try:
            self._loop()
        except BaseException:
            self._kill(signal.SIGKILL)
            if self.poll_exit is not None:
                self._await_exit(LOST_SECONDS)
            raise
        return self._ending()

    def _loop(self) -> None:
        self._begin()
        while self.exit_code is None:
            check_began, closed = self._receive()
            if check_began:
                self._begin()
            if self.poll_exit is not None:
                self.exit_code = self.poll_exit()
                if self.exit_code is not None:
                    self._drain()
            if closed and self.exit_code is None:
                self._await_exit(LOST_SECONDS)
                return
            if self.stopped is None and self._is_late():
                self._stop("wall")
            elif os.fstat(self.output.fileno()).st_size > MAX_OUTPUT_BYTES and self.stopped is None:
                self._stop("output")

    def _begin(self) -> None:
        """Time is counted from now on."""
        self.began = time.monotonic()
        self.waited_before = self._waited()

    def _is_late(self) -> bool:
        """Whether the check takes too long, not counting how long others kept it from a processor."""
        late_by = time.monotonic() - self.began - self.limits.wall_seconds
        return late_by > 0 and late_by > self._waited() - self.waited_before

    def _waited(self) -> float:
        """The seconds for which the process was ready to run and did not, of the thread that waited most.

        Zero on systems that do not tell. Source: ``schedstats`` in the kernel's documentation of the scheduler.
        """
        waits = [0.0]
        for thread in Path(f"/proc/{self.pid}/task").glob("*/schedstat") if self.pid is not None else ():
            with contextlib.suppress(OSError, ValueError, IndexError):
                waits.append(int(thread.read_text().split()[1]) / 1e9)
        return max(waits)

    def _receive(self) -> tuple[bool, bool]:
        """Handle what has arrived within a tick; whether a check began, and whether the other end closed."""
        if not select.select([self.channel], [], [], TICK_SECONDS)[0]:
            return False, False
        data = self.channel.recv(1 << 16)
        self.buffer += data
        began = False
        *lines, rest = self.buffer.split(b"\n")
        self.buffer = bytearray(rest)
        for line in lines:
            began |= self._handle(msgspec.json.decode(line))
        return began, not data

    def _drain(self) -> None:
        self.channel.setblocking(False)
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while not self._receive()[1]:
                pass

    def _handle(self, message: Message) -> bool:
        """Take note of one message; whether it says that a check began."""
        if "pid" in message:
            self.pid = message["pid"]
        elif "exit" in message:
            self.exit_code = message["exit"]
        elif "done" in message:
            self.done = True
        else:
            self.on_message(message)
        return "check" in message

    def _stop(self, why: End) -> None:
        """Ask for the stack, then kill."""
        self.stopped = why
        self._kill(signal.SIGQUIT, group=False)
        self._await_exit(STACK_SECONDS)
        self._kill(signal.SIGKILL)

    def _await_exit(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while self.exit_code is None and time.monotonic() < end:
            if self.poll_exit is not None:
                self.exit_code = self.poll_exit()
                time.sleep(0.01)
            elif self._receive()[1]:
                return

    def _kill(self, number: int, *, group: bool = True) -> None:
        if self.pid is None or self.exit_code is not None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            (os.killpg if group else os.kill)(self.pid, number)

    def _ending(self) -> Ending:
        output = tail(self.output)
        if self.done:
            return Ending("done", output=output)
        if self.stopped is not None:
            return Ending(self.stopped, output=output)
        code = self.exit_code
        if code is None:
            self._kill(signal.SIGKILL)  # what the job itself started
            return Ending("lost", output=output)
        if code < 0:
            return Ending("cpu" if -code == signal.SIGXCPU else "signal", -code, output)
        if code == 1 and any(map(STACK_OF_LATE.match, output)):
            return Ending("late", code, output)
        return Ending("memory" if code == OUT_OF_MEMORY else "exit", code, output)


def tail(file: IO[bytes]) -> tuple[str, ...]:
    """The last lines of what was printed."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - TAIL_BYTES))
    return tuple(file.read().decode(errors="backslashreplace").splitlines())
