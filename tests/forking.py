"""Run a function in a forked child, for what cannot be undone in a process: the second device's registration."""

from __future__ import annotations

import json
import os
import signal
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def in_fork(function: Callable[..., Any], *args: Any, seconds: int = 60) -> Any:
    """What the function returns, as JSON gives it back; an exception in the child fails the test with its traceback."""
    import torch

    from exportlint.torch_hooks import forked

    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.alarm(10 * seconds)  # one that waits for nothing; other processes may need the processor
        torch.set_num_threads(1)  # a fork after a parallel operator hangs otherwise
        forked.hide_lost()
        try:
            answer = {"result": function(*args)}
        except BaseException:
            answer = {"error": traceback.format_exc()}
        with os.fdopen(write, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    assert text, f"the child ended with status {status} and no answer"
    answer = json.loads(text)
    assert "error" not in answer, answer["error"]
    return answer["result"]


def forked(function: Callable[[], None]) -> Callable[[], None]:
    """The test's body runs in a fork; its assertions fail the test."""

    def test() -> None:
        in_fork(function)

    test.__name__ = function.__name__
    return test
