"""Jobs in the caller's own process: no limit holds, and a crash ends the caller."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from exportlint.checks.isolation.job import Ending

if TYPE_CHECKING:
    from collections.abc import Callable

    from exportlint.checks.isolation.job import Emit


def run(job: Callable[[Emit], None], on_message: Emit) -> Ending:
    """Run the job here; what it raises counts as its death, except for Ctrl-C."""
    try:
        job(on_message)
    except MemoryError:
        return Ending("memory", output=tuple(traceback.format_exc().splitlines()))
    except (Exception, SystemExit) as error:
        code = error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else 1
        return Ending("exit", code, tuple(traceback.format_exc().splitlines()))
    return Ending("done")
