"""What a worker process does: limit itself, run one job, and send its messages as lines of JSON."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib
import logging
import os
import re
import resource
import signal
import sys
import traceback
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    from exportlint.checks.isolation.job import Emit, Limits, Message

PR_SET_PDEATHSIG = 1
STACK_OF_LATE = re.compile(r"^Timeout \(\d+:\d\d:\d\d")  # how faulthandler begins before it ends a process
OUT_OF_MEMORY = 86  # exit status of a job that ran into its memory limit


_workers: set[int] = set()  # the process that runs a job, in it


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """End this process, with its stack, if something takes longer; code of others' processes is left alone."""
    if seconds <= 0 or os.getpid() not in _workers:
        yield
        return
    faulthandler.dump_traceback_later(seconds, exit=True, file=2)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def become(parent: int) -> None:
    """Turn the forked process into a worker: its own group, no core files, and dead when its parent dies."""
    os.setsid()
    die_with(parent)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the call
            os._exit(1)


def redirect_output(fd: int) -> None:
    """Send what the job prints, from Python or from C, to this file; give it no standard input."""
    sys.stdout.flush()
    sys.stderr.flush()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    for stream in {sys.stdout, sys.stderr, *_logged_to()}:  # files of pytest's, maybe
        with contextlib.suppress(OSError, ValueError, AttributeError):
            os.dup2(fd, stream.fileno())
    sys.stdout = open(1, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    faulthandler.enable(file=2)
    # The parent, and the kernel at the CPU limit, ask for the stack before the end.
    faulthandler.register(signal.SIGQUIT, file=2, chain=True)
    faulthandler.register(signal.SIGXCPU, file=2, chain=True)


def _logged_to() -> Iterator[Any]:
    """The streams that handlers of loggers write to, such as torch's: what was stderr when they were made."""
    loggers = [logging.root, *logging.root.manager.loggerDict.values()]
    for logger in loggers:
        for handler in getattr(logger, "handlers", ()):
            if isinstance(handler, logging.StreamHandler) and not isinstance(handler, logging.FileHandler):
                yield handler.stream


def limit_memory(limits: Limits) -> None:
    """Limit the memory that the process may write to, beyond what it has already."""
    _limit(resource.RLIMIT_DATA, _private_bytes() + limits.memory_bytes)


def limit_cpu(seconds: float) -> None:
    """Give the process this much more CPU time from now on."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + seconds) + 1)


def _limit(kind: int, limit: int) -> None:
    """Lower a limit as far as it may be raised again."""
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def lift_limits() -> None:
    """Take the limits back that were set, for a process that goes on after its job."""
    for kind in (resource.RLIMIT_DATA, resource.RLIMIT_CPU):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (hard, hard))


def _private_bytes() -> int:
    """Writable private memory as RLIMIT_DATA counts it."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:  # noqa: PTH123
        for line in status:
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    return 0


def sender(channel: socket.socket, limits: Limits) -> Emit:
    """A function that sends a message; the CPU limit starts anew with each check."""
    encode = msgspec.json.Encoder().encode

    def emit(message: Message) -> None:
        if "check" in message:
            limit_cpu(limits.cpu_seconds)
        try:
            line = encode(message)
        except UnicodeEncodeError:  # a lone surrogate, as in file names that are not UTF-8
            line = encode(_encodable(message))
        channel.sendall(line + b"\n")

    return emit


def _encodable(value: Any) -> Any:
    """The value with lone surrogates in its strings, and in the keys of its mappings, written as escapes."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    return [_encodable(item) for item in value] if isinstance(value, (list, tuple)) else value


def run(
    job: Callable[[Emit], None],
    channel: socket.socket,
    output: int,
    limits: Limits,
    go_on: Callable[[], None] = lambda: None,
) -> None:
    """Run the job, go on with something else, and end the process; never returns to the code that forked."""
    status = 1
    try:
        emit = sender(channel, limits)
        emit({"pid": os.getpid()})
        redirect_output(output)
        _workers.add(os.getpid())
        limit_memory(limits)
        limit_cpu(limits.cpu_seconds)
        job(emit)
        emit({"done": True})
        status = 0
        go_on()
    except BaseException as error:
        status = report_death(error)
    finally:
        os._exit(status)


def report_death(error: BaseException) -> int:
    """Print the traceback of what ended the job, and return the exit status that stands for it."""
    from exportlint import blame

    status = 1
    if blame.is_out_of_memory(error):
        status = OUT_OF_MEMORY
        while error.__cause__ is not None:  # what was asked for, and where, is said by the first of the chain
            error = error.__cause__
    traceback.print_exception(error)
    return status


def named_job(name: str, arguments: dict[str, Any]) -> Callable[[Emit], None]:
    """The job ``module:function`` with its arguments bound."""
    module, _, function = name.partition(":")

    def job(emit: Emit) -> None:
        getattr(importlib.import_module(module), function)(emit, **arguments)

    return job
