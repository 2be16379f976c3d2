"""Interpreters of their own, for one job of the loader each: they ignore the caller's environment and module path."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from exportlint.checks import loader
from exportlint.checks.isolation.client import environment
from exportlint.checks.isolation.job import Ending

if TYPE_CHECKING:
    from exportlint.checks.isolation.job import Emit

_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[2]); from exportlint.checks import loader; loader.main(*sys.argv[1::2])"
)


class FreshInterpreters:
    """Starts interpreters, each for one job; several threads may do so at once.

    Args:
        apart: Whether each has a process group of its own, which ends with it. A job in a worker's process has not: it
            is in the worker's, and ends with that.
    """

    def __init__(self, *, apart: bool = True) -> None:
        self._apart = apart
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()

    def run(self, job: str, folder: str, seconds: float, on_message: Emit, python: str = sys.executable) -> Ending:
        """Run a job of the loader in its folder, and hear what it says.

        Args:
            job: The name of the job.
            folder: What the job is about; its working directory.
            seconds: How long it may take.
            on_message: Called with each message, once the process has ended.
            python: The interpreter, which may be that of another environment.
        """
        (Path(folder) / loader.MESSAGES).unlink(missing_ok=True)  # of another interpreter
        with tempfile.TemporaryFile("w+", errors="backslashreplace") as output:
            process = subprocess.Popen(
                [python, "-I", "-c", _BOOT, folder, _alone(folder), job],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=folder,
                start_new_session=self._apart,
                env=environment(),
            )
            with self._lock:
                self._processes.add(process)
            try:
                process.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                return Ending("wall")
            finally:
                self._end(process)
                with self._lock:
                    self._processes.discard(process)
            for line in _lines(Path(folder) / loader.MESSAGES):
                on_message(json.loads(line))
            output.seek(0)
            code, lines = process.returncode, tuple(output.read().splitlines())
        return Ending("done" if code == 0 else "signal" if code < 0 else "exit", abs(code), lines)

    def close(self) -> None:
        """End those that still run."""
        with self._lock:
            for process in self._processes:
                self._end(process)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._apart:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        process.wait()


def _alone(folder: str) -> str:
    """A folder with exportlint alone: where it is installed, all of this environment lies beside it."""
    own = Path(folder) / "own"
    if not own.is_dir():
        own.mkdir()
        (own / "exportlint").symlink_to(Path(__file__).resolve().parents[1], target_is_directory=True)
    return str(own)


def _lines(file: Path) -> list[str]:
    """The whole lines of a file that its writer may not have finished, or begun."""
    text = file.read_text(encoding="ascii") if file.is_file() else ""
    return text.split("\n")[:-1]
