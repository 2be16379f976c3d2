"""The caller's end of the worker server."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from exportlint.checks.isolation.job import KEEP, USE, WARM
from exportlint.checks.isolation.watch import Watch

if TYPE_CHECKING:
    from exportlint.checks.isolation.job import Emit, Ending, Limits

START_SECONDS = 180.0
BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); import exportlint.checks.isolation.server as s; s.main()"
)


# What changes from job to job and decides nothing about what is imported.
PASSING = ("PYTEST_",)
# How threads of OpenMP wait for work, which a process reads once. By default they spin: between the operators of a
# small model they take more time than these compute.
WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


class ServerError(RuntimeError):
    """The worker server could not be started, in one line."""


class WorkerServer:
    """Starts a worker server when it is first needed and again when it died; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._closed = False

    def run(
        self, job: str, arguments: dict[str, Any], limits: Limits, on_message: Emit, *, path: list[str] | None = None,
        keep: str = "", use: str = "", warm: bool = False,
    ) -> Ending:  # fmt: skip
        """Run the job ``module:function`` in a child of the server.

        Args:
            job: The function; it is called with a function that sends a message, and with `arguments`.
            arguments: Keyword arguments, JSON.
            limits: What the job may use.
            on_message: Called with each message of the job.
            path: ``sys.path`` of the job. Default: the caller's.
            keep: A name for the child, which is kept to be forked once the job is done.
            use: The name of a child that was kept, to run the job in a child of; of the server where there is none.
            warm: Whether the process that forks the child exports a small model before, once (`warming`).

        Raises:
            ServerError: When the server cannot be started.
        """
        request = {
            "job": job,
            "arguments": arguments,
            "environment": dict(os.environ),
            "cwd": str(Path.cwd()),
            "path": sys.path if path is None else path,
            "limits": msgspec.to_builtins(limits),
        }
        first = WARM if warm else ""
        which = KEEP + _named(keep, request) if keep else USE + _named(use, request) if use else "-"
        ending, began = self._request(first + which, request, limits, on_message)
        if ending.how == "lost" and not began:  # what was to fork it died before it did
            ending, _ = self._request(f"{first}-", request, limits, on_message)
        return ending

    def _request(self, which: str, request: dict[str, Any], limits: Limits, on_message: Emit) -> tuple[Ending, bool]:
        """Send a request and wait for its end; how the job ended, and whether it began."""
        ours, theirs = socket.socketpair()
        with ours, tempfile.TemporaryFile() as output:
            with theirs, tempfile.TemporaryFile() as file:
                file.write(json.dumps(request).encode())  # it keeps the surrogates of what is not UTF-8
                file.seek(0)
                self._send(which, [theirs.fileno(), output.fileno(), file.fileno()])
            watch = Watch(ours, output, limits, on_message)
            return watch.wait(), watch.pid is not None

    def start(self) -> None:
        """Start the server if it does not run.

        Raises:
            ServerError: When it cannot be started, with the reason.
        """
        with self._lock:
            self._started()

    def close(self) -> None:
        """End the server and all its children; later jobs raise `ServerError`."""
        with self._lock:
            self._closed = True
            self._end()

    def _send(self, which: str, fds: list[int]) -> None:
        with self._lock:
            try:
                socket.send_fds(self._started(), [which.encode()], fds)
            except (BrokenPipeError, ConnectionError):  # it died between two jobs
                self._end()
                socket.send_fds(self._started(), [which.encode()], fds)

    def _started(self) -> socket.socket:
        if self._closed:
            raise ServerError("the worker server was closed")
        if self._control is not None and self._process is not None and self._process.poll() is None:
            return self._control
        self._end()
        control, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        path = [entry for entry in sys.path if entry and os.path.realpath(entry) != os.path.realpath(Path.cwd())]
        root = str(Path(__file__).resolve().parents[3])
        command = [sys.executable, "-c", BOOT, str(theirs.fileno()), json.dumps([*path, root])]
        with theirs:
            self._process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env=environment(),
            )
        self._control = control
        self._await_ready(control)
        return control

    def _await_ready(self, control: socket.socket) -> None:
        data = b""
        while not data.endswith(b"\n"):
            ready, _, _ = select.select([control], [], [], START_SECONDS)
            more = control.recv(1 << 16) if ready else b""
            if not more:
                self._end()
                raise ServerError("the worker server ended before it was ready" if ready else "the worker server hangs")
            data += more
        answer = msgspec.json.decode(data)
        if answer["failure"] is not None:
            self._end()
            raise ServerError(answer["failure"])

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=5)
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            self._process = None


def environment() -> dict[str, str]:
    """The environment of a process in which checks compute; its jobs are given the caller's own."""
    chosen = any(name in os.environ for name in WAITING)
    return dict(os.environ) if chosen else {**os.environ, WAITING[0]: "passive"}


def _named(name: str, request: dict[str, Any]) -> str:
    """A name that stands for a child in these surroundings."""
    environment = {key: value for key, value in request["environment"].items() if not key.startswith(PASSING)}
    surroundings = json.dumps([name, environment, request["cwd"], request["path"]], sort_keys=True)
    return hashlib.sha256(surroundings.encode("utf-8", "backslashreplace")).hexdigest()
