"""The worker server: a process that has imported torch and forks a child for each job.

It computes with one thread, since a team of OpenMP's threads would be missing in the children, which would wait for it
for ever. It imports nothing of the user's. A request is three file descriptors: a socket for the job's messages, a file
for what it prints, and a file with the job and the environment, working directory and module path that the child shall
see. The server adds the exit status as the last message. When the socket of the requests closes, because its owner
ended or was killed, all children are killed.

A child may be *kept*: once its job, which imports what many jobs import, is done, it is a server of its own, and the
requests that name it are handed to it. It does as the server does, from further on. One that has started a thread, or
asked for an accelerator, cannot be forked, and ends.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from exportlint.checks import requirements
from exportlint.checks.isolation import child, fork
from exportlint.checks.isolation.job import KEEP, USE, WARM, Limits
from exportlint.checks.jobs import module_of
from exportlint.findings import CHECKS

KEPT = 8  # children at most
END_SECONDS = 3.0  # how long those that are kept may take to end
PRELOADED = ("hypothesis", "exportlint.checks.jobs", *map(module_of, CHECKS))


def main() -> None:
    """Serve requests on the socket that is file descriptor ``argv[1]`` until it closes."""
    control = socket.socket(fileno=int(sys.argv[1]))
    failure = None
    try:
        requirements.require_torch()
        preload()
    except requirements.MissingRequirementError as error:
        failure = str(error)
    try:
        control.sendall(msgspec.json.encode({"failure": failure}) + b"\n")
    except OSError:  # the owner has gone
        return
    if failure is None:
        Server(control, _threads()).serve()
        os._exit(0)  # nothing is left to do, and torch takes a second to tear itself down


def preload() -> None:
    """Import what every child would import; what is missing is for the checks to say."""
    for name in PRELOADED:
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def _freeze() -> None:
    """Spare each child from looking through all that is imported, again and again."""
    gc.collect()
    gc.freeze()


def _threads() -> int:
    """How many threads this process has, those of C included."""
    return len(list(Path("/proc/self/task").iterdir()))


class Server:
    """The loop: accept requests, fork, reap.

    Args:
        control: The socket of the requests.
        threads: How many threads a process may have that is forked.
    """

    def __init__(self, control: socket.socket, threads: int) -> None:
        self.control = control
        self.threads = threads
        self.warm = False
        self.children: dict[int, socket.socket] = {}
        self.kept: dict[str, socket.socket] = {}  # sockets of requests, by the names of the children
        self.servers: set[int] = set()  # children that are kept, or were
        self.wakeup_read, self.wakeup_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def serve(self, *, to_the_end: bool = False) -> None:
        """Serve until the other end of the control socket closes; `to_the_end` waits for the jobs that run then."""
        signal.set_wakeup_fd(self.wakeup_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        _freeze()
        try:
            while True:
                control = self.control.fileno()
                ready, _, _ = select.select([control, self.wakeup_read], [], [])
                if self.wakeup_read in ready:
                    os.read(self.wakeup_read, 4096)
                    self.reap()
                if control in ready and not self.accept():
                    break
            while to_the_end and self.children:
                select.select([self.wakeup_read], [], [])
                os.read(self.wakeup_read, 4096)
                self.reap()
        finally:
            self.end_servers()
            for pid in self.children:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)

    def end_servers(self) -> None:
        """Let the children that are kept kill what their own children started, which nobody else knows."""
        waiting = {pid for pid in self.servers if pid in self.children}
        for pid in waiting:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + END_SECONDS
        while waiting and time.monotonic() < deadline:
            waiting -= {pid for pid in waiting if os.waitpid(pid, os.WNOHANG)[0]}
            time.sleep(0.01)

    def accept(self) -> bool:
        """Take one request, and fork or hand it on; False when the control socket closed."""
        data, fds, _, _ = socket.recv_fds(self.control, 256, 3)
        if not data:
            return False
        words = data.decode()
        wanted, words = words.startswith(WARM), words.removeprefix(WARM)
        if words.startswith(USE) and self.hand_on(words.removeprefix(USE), fds, WARM if wanted else ""):
            return True
        if wanted:
            self.warm_up()
        requests = socket.socketpair(type=socket.SOCK_SEQPACKET) if words.startswith(KEEP) else None
        channel, output = socket.socket(fileno=fds[0]), fds[1]
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            if requests is not None:
                requests[0].close()
            self.run_child(server, fds[2], channel, output, None if requests is None else requests[1])
        os.close(fds[2])
        os.close(output)
        self.children[pid] = channel
        if requests is not None:
            self.servers.add(pid)
            requests[1].close()
            self.keep(words.removeprefix(KEEP), requests[0])
        return True

    def warm_up(self) -> None:
        """Do once what each child would do first; what fails is for the checks to say."""
        if not self.warm:
            self.warm = True
            with contextlib.suppress(Exception):
                importlib.import_module("exportlint.checks.isolation.warming").warm_up()
            _freeze()

    def keep(self, name: str, requests: socket.socket) -> None:
        """Remember a child that is kept; one too many is let go, and ends with its last job."""
        self.let_go(name)
        while len(self.kept) >= KEPT:
            self.let_go(next(iter(self.kept)))
        self.kept[name] = requests

    def let_go(self, name: str) -> None:
        """Forget a child."""
        requests = self.kept.pop(name, None)
        if requests is not None:
            requests.close()

    def hand_on(self, name: str, fds: list[int], warm: str) -> bool:
        """Send a request to a child that is kept; whether there is one."""
        if name not in self.kept:
            return False
        try:
            socket.send_fds(self.kept[name], [f"{warm}-".encode()], fds)
        except OSError:  # it has ended
            self.let_go(name)
            return False
        for fd in fds:
            os.close(fd)
        return True

    def run_child(
        self, server: int, request_file: int, channel: socket.socket, output: int, requests: socket.socket | None
    ) -> None:
        """In the child: take over the caller's surroundings and run the job; serve requests of its own after it."""
        try:
            child.become(server)
            self.control.close()
            for other in (*self.children.values(), *self.kept.values()):
                other.close()
            with open(request_file, "rb") as file:
                request = json.load(file)
            os.environ.clear()
            os.environ.update(request["environment"])
            os.chdir(request["cwd"])
            sys.path[:] = request["path"]
            limits = Limits(**request["limits"])
            import torch

            torch.set_num_threads(limits.threads if requests is None else 1)
            job = child.named_job(request["job"], request["arguments"])
            child.run(job, channel, output, limits, lambda: self.go_on(channel, requests))
        finally:
            os._exit(1)

    def go_on(self, channel: socket.socket, requests: socket.socket | None) -> None:
        """In a child that is kept, once its job is done: tell the end, and serve until nobody can send a request."""
        threads = threading.active_count() > 1 or _threads() > self.threads
        if requests is None or threads or fork.why_unsafe() is not None:
            return
        child.lift_limits()
        self.tell(channel, {"exit": 0})
        channel.close()
        self.wakeup_read, self.wakeup_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.control, self.children, self.kept, self.servers = requests, {}, {}, set()
        self.serve(to_the_end=True)

    def reap(self) -> None:
        """Send the exit status of each child that ended."""
        while self.children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            channel = self.children.pop(pid, None)
            if channel is None:
                continue
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)  # what the job itself started
            self.tell(channel, {"exit": os.waitstatus_to_exitcode(status)})
            channel.close()

    @staticmethod
    def tell(channel: socket.socket, message: dict[str, Any]) -> None:
        """Send a message; a caller that is gone needs none."""
        with contextlib.suppress(OSError):
            channel.sendall(msgspec.json.encode(message) + b"\n")


if __name__ == "__main__":
    main()
