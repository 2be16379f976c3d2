"""Jobs in a child forked from the caller, for cases that exist only as objects."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import tempfile
from typing import TYPE_CHECKING

from exportlint.checks import requirements
from exportlint.checks.isolation.watch import Watch
from exportlint.torch_hooks import forked

if TYPE_CHECKING:
    from collections.abc import Callable

    from exportlint.checks.isolation.job import Emit, Ending, Limits


def why_unsafe() -> str | None:
    """Why this process must not be forked, or ``None``."""
    if sys.platform != "linux":
        return f"forking is not safe on {sys.platform}"
    torch = sys.modules.get("torch")
    for name in ("cuda", "xpu", "mtia"):
        initialised = getattr(getattr(torch, name, None), "is_initialized", None)
        if initialised is not None and initialised():
            return f"torch.{name} is initialised, which does not survive a fork"
    return forked.why_not() if torch is not None else None


def run(job: Callable[[Emit], None], limits: Limits, on_message: Emit) -> Ending:
    """Run the job in a child of this process.

    One thread is all that the child may compute with: after a big operator of the parent, OpenMP's threads are gone in
    the child, and the next parallel region would wait for them for ever. What an export imports is imported here first,
    which costs two seconds once; else it would cost each child as much. Accelerators that this process has asked for
    are hidden from the child, which cannot use them.

    Raises:
        MissingRequirementError: When torch is missing, broken or too old.
    """
    requirements.require_torch()
    ours, theirs = socket.socketpair()
    with ours, tempfile.TemporaryFile() as output:
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            _child(job, ours, theirs, output.fileno(), limits, parent)
        theirs.close()
        watch = Watch(ours, output, limits, on_message, poll_exit=lambda: _exit_code(pid), pid=pid)
        return watch.wait()


def _child(
    job: Callable[[Emit], None],
    ours: socket.socket,
    theirs: socket.socket,
    output: int,
    limits: Limits,
    parent: int,
) -> None:
    try:
        import torch

        torch.set_num_threads(1)
        forked.hide_lost()
        from exportlint.checks.isolation import child

        child.become(parent)
        ours.close()
        child.run(job, theirs, output, limits)
    finally:
        os._exit(1)


def _exit_code(pid: int) -> int | None:
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # somebody else's SIGCHLD handler was faster
        return 1
    if not ended:
        return None
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # what the job itself started
    return os.waitstatus_to_exitcode(status)
