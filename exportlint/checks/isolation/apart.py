"""A part of a check in a forked child, so that nothing which it leaves behind in Python is seen by what follows."""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any

from exportlint import blame
from exportlint.checks.isolation import child
from exportlint.checks.isolation.job import Ending
from exportlint.torch_hooks import forked

if TYPE_CHECKING:
    from collections.abc import Callable


class DiedError(Exception):
    """The child died, or the part raised; the message says how, in words that follow "the process"."""


def possible() -> bool:
    """Whether a process that has computed may be forked on this platform."""
    return sys.platform == "linux"


def run(part: Callable[[], Any]) -> Any:
    """What the part returns, as JSON gives it back; limits of the process hold for its child too.

    Where this platform does not fork safely, the part is run here.

    Raises:
        DiedError: When the child died, or the part raised.
        MemoryError: When it ran out of memory.
    """
    if not possible():
        return part()
    read, write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        _child(part, write, parent)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code == child.OUT_OF_MEMORY:
        raise MemoryError
    if code != 0 or not said:  # it may end itself and call that well
        raise DiedError(Ending("signal" if code < 0 else "exit", abs(code)).words)
    answer = json.loads(said)
    if "error" in answer:
        raise DiedError(f"raised {answer['error']}")
    return answer["result"]


def _child(part: Callable[[], Any], write: int, parent: int) -> None:
    status = 1
    try:
        child.die_with(parent)
        import torch

        torch.set_num_threads(1)  # OpenMP's threads are gone here
        forked.hide_lost()
        answer = json.dumps(_answer(part))
        with os.fdopen(write, "w") as pipe:
            pipe.write(answer)
        status = 0
    except BaseException as error:
        status = child.report_death(error)
    finally:
        sys.stderr.flush()
        os._exit(status)


def _answer(part: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"result": part()}
    except MemoryError:
        raise
    except Exception as error:
        blame.pass_on_memory_error(error)
        traceback.print_exception(error)
        return {"error": blame.words(error)}
