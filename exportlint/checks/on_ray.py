"""An executor that runs jobs as tasks of an existing Ray cluster."""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
import re
import signal
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from exportlint.checks.elsewhere import LostError
from exportlint.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")
SECONDS = 10.0  # that a cluster may take to answer
RETRIES = 3  # of a task whose node, or worker, is lost
GIB = 2**30
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class NoClusterError(Exception):
    """Ray, or its cluster, is not there, or too small; the message is one line, fit for a user."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What one case takes of a node.

    Attributes:
        cpus: Processors.
        memory: GiB.
        gpus: GPUs.
    """

    cpus: float = 1
    memory: float = 4
    gpus: int = 0

    def __str__(self) -> str:
        gpus = f", {self.gpus} GPU" if self.gpus else ""
        return f"{self.cpus:g} CPU, {self.memory:g} GiB{gpus}"

    @property
    def resources(self) -> dict[str, float]:
        """By Ray's names, memory in bytes."""
        return {"CPU": self.cpus, "memory": self.memory * GIB, "GPU": self.gpus}


class RayExecutor(concurrent.futures.Executor):
    """Runs each job as a task; one whose node is lost is run again on another.

    Args:
        address: Of the cluster, as ``ray.init`` takes it; ``auto`` for the one of this machine or of ``RAY_ADDRESS``.
        needs: What a job takes of a node.

    Raises:
        NoClusterError: When Ray is not installed, there is no cluster at the address, or no node of it is large enough.
    """

    def __init__(self, address: str, needs: Needs) -> None:
        try:
            import ray
        except ImportError:
            raise NoClusterError("--executor ray needs the package ray: pip install 'exportlint[ray]'") from None
        self._ray = ray
        try:
            _reach(address)
            with _own_signals():
                ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
        except Exception as error:
            words = (str(error).splitlines() or [type(error).__name__])[0]
            raise NoClusterError(f"no Ray cluster can be reached at {address}: {words}") from error
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if not any(all(node.get(key, 0) >= number for key, number in needs.resources.items()) for node in nodes):
            ray.shutdown()
            raise NoClusterError(f"no node of the Ray cluster has what a case takes: {needs}")
        options = {"num_cpus": needs.cpus, "memory": int(needs.memory * GIB), "num_gpus": needs.gpus}
        self._task = ray.remote(_call).options(
            **options, max_retries=RETRIES, retry_exceptions=False, scheduling_strategy="SPREAD"
        )
        self._waiting: dict[concurrent.futures.Future[Any], Any] = {}

    def submit(self, job: Callable[..., T], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[T]:
        """Start a job, as soon as a node has room for it."""
        reference = self._task.remote(job, args, kwargs)
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        future.set_running_or_notify_cancel()
        self._waiting[future] = reference
        reference.future().add_done_callback(lambda inner: self._pass_on(inner, future))
        return future

    def _pass_on(self, inner: concurrent.futures.Future[T], future: concurrent.futures.Future[T]) -> None:
        self._waiting.pop(future, None)
        try:
            future.set_result(inner.result())
        except self._ray.exceptions.RayError as error:
            future.set_exception(
                LostError(f"the Ray cluster could not check it: {type(error).__name__}: {_words(error)}")
            )
        except BaseException as error:
            future.set_exception(error)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let go of the cluster; what still runs is ended."""
        if wait and not cancel_futures:
            concurrent.futures.wait(list(self._waiting))
        for reference in list(self._waiting.values()):
            with contextlib.suppress(Exception):
                self._ray.cancel(reference, force=True)
        self._ray.shutdown()


def _reach(address: str) -> None:
    """Connect to ``host:port`` once, since Ray tries for minutes.

    Raises:
        OSError: When nothing answers there.
    """
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "://" not in host:
        socket.create_connection((host, int(port)), timeout=SECONDS).close()


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Let Ray take no signal over: the caller ends a run in its own way."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def _words(error: Exception) -> str:
    """What Ray says, without its colours; of a traceback the end."""
    lines = [line.strip() for line in COLOURS.sub("", str(error)).splitlines() if line.strip()]
    return one_line((lines or [""])[-1 if len(lines) > 1 and "Traceback" in str(error) else 0], 300)


def _call(job: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
    return job(*args, **kwargs)
