from __future__ import annotations

from typing import Any

import job_samples
import pytest

from exportlint.checks.isolation import fork
from exportlint.checks.isolation.client import WorkerServer
from exportlint.checks.isolation.job import Ending, Limits

GIB = 2**30


def limits(*, cpu: float = 30, wall: float = 30, memory: int = 2 * GIB, threads: int = 1) -> Limits:
    return Limits(cpu_seconds=cpu, wall_seconds=wall, memory_bytes=memory, threads=threads)


class Jobs:
    """Runs the jobs of `job_samples` in one kind of process and keeps what they say."""

    def __init__(self, server: WorkerServer | None) -> None:
        self.server = server
        self.said: list[dict[str, Any]] = []

    def run(self, name: str, /, arguments: dict[str, Any] | None = None, **limit: Any) -> Ending:
        self.said = []
        job = getattr(job_samples, name)
        if self.server is None:
            return fork.run(lambda emit: job(emit, **(arguments or {})), limits(**limit), self.said.append)
        return self.server.run(f"job_samples:{name}", arguments or {}, limits(**limit), self.said.append)


@pytest.fixture(scope="session")
def server():
    server = WorkerServer()
    server.start()
    yield server
    server.close()


@pytest.fixture
def own():
    """A server that a test may kill."""
    server = WorkerServer()
    yield server
    server.close()


@pytest.fixture(params=["server", "fork"])
def jobs(request, server):
    import torch  # a forked child shall find it imported, as it is when the caller has made a model

    assert torch
    return Jobs(server if request.param == "server" else None)
