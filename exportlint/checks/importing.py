"""What the user's modules asked about this machine's devices when they were imported, and the same modules anew.

A module holds the answer for good, as a constant or in a class. To see what another answer would change, the modules
are imported again where they are told another.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

from exportlint import places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from exportlint.places import Place

# The lines that asked, in this process and in those that it was forked from.
asked: dict[Place, None] = {}


@contextlib.contextmanager
def noted() -> Iterator[None]:
    """Within it, lines of the user's own modules that ask are noted in `asked`; libraries' are not."""
    from exportlint.devices import questions

    def note(_: object, place: Place, ask: Callable[[], Any]) -> Any:
        if _is_own(place.file):
            asked[place] = None
        return ask()

    with questions.watched(note):
        yield


def forget() -> None:
    """Drop the user's own modules, so that they are imported anew; for a process that ends soon."""
    for name, module in list(sys.modules.items()):
        if name != "__main__" and _is_own(getattr(module, "__file__", None) or ""):
            del sys.modules[name]


def _is_own(file: str) -> bool:
    return places.is_users(file) and not places.is_installed(os.path.realpath(file))
