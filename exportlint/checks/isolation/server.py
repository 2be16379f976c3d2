"""The worker server: a process that has imported torch and forks a child for each job.

It keeps one thread and runs no operator, since an OpenMP region before a fork hangs the child. It imports nothing of
the user's. A request is three file descriptors: a socket for the job's messages, a file for what it prints, and a file
with the job and the environment, working directory and module path that the child shall see. The server adds the exit
status as the last message. When the socket of the requests closes, because its owner ended or was killed, all children
are killed.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import socket
import sys
from typing import Any

import msgspec

from exportlint.checks import requirements
from exportlint.checks.isolation import child
from exportlint.checks.isolation.job import Limits
from exportlint.checks.jobs import module_of
from exportlint.findings import CHECKS

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
        Server(control).serve()
        os._exit(0)  # nothing is left to do, and torch takes a second to tear itself down


def preload() -> None:
    """Import what every child would import; what is missing is for the checks to say."""
    for name in PRELOADED:
        with contextlib.suppress(Exception):
            importlib.import_module(name)


class Server:
    """The loop: accept requests, fork, reap."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.children: dict[int, socket.socket] = {}
        self.wakeup_read, self.wakeup_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def serve(self) -> None:
        """Serve until the other end of the control socket closes."""
        signal.set_wakeup_fd(self.wakeup_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        try:
            while True:
                control = self.control.fileno()
                ready, _, _ = select.select([control, self.wakeup_read], [], [])
                if self.wakeup_read in ready:
                    os.read(self.wakeup_read, 4096)
                    self.reap()
                if control in ready and not self.accept():
                    return
        finally:
            for pid in self.children:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)

    def accept(self) -> bool:
        """Take one request and fork; False when the control socket closed."""
        data, fds, _, _ = socket.recv_fds(self.control, 1, 3)
        if not data:
            return False
        channel, output = socket.socket(fileno=fds[0]), fds[1]
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            self.run_child(server, fds[2], channel, output)
        os.close(fds[2])
        os.close(output)
        self.children[pid] = channel
        return True

    def run_child(self, server: int, request_file: int, channel: socket.socket, output: int) -> None:
        """In the child: take over the caller's surroundings and run the job."""
        try:
            child.become(server)
            self.control.close()
            for other in self.children.values():
                other.close()
            with open(request_file, "rb") as file:
                request = json.load(file)
            os.environ.clear()
            os.environ.update(request["environment"])
            os.chdir(request["cwd"])
            sys.path[:] = request["path"]
            limits = Limits(**request["limits"])
            import torch

            torch.set_num_threads(limits.threads)
            child.run(child.named_job(request["job"], request["arguments"]), channel, output, limits)
        finally:
            os._exit(1)

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
