"""Which imports are done once for many cases, in a child of the worker server that is kept to be forked."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from exportlint import zoo
from exportlint.checks import loading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FROM = 2  # cases of a target; a single one would not be worth it


class Prepared:
    """Knows the targets of which a second case was asked for; safe to use from several threads.

    Args:
        prepare: Imports what a target needs, and further modules, in a child that is kept under the target's name;
            whether it is there.
    """

    def __init__(self, prepare: Callable[[str, list[str]], bool]) -> None:
        self._prepare = prepare
        self._lock = threading.Lock()
        self._targets: dict[str, _Target] = {}

    def name_for(self, target: str, case: str) -> str:
        """The name of the child that has imported what the case needs; empty where there is none."""
        shared, known = self._target(target)
        with known.lock:
            known.cases.add(case)
            if known.ready is None and len(known.cases) >= FROM:
                known.ready = self._prepare(shared, list(known.libraries))
            return shared if known.ready else ""

    def learn(self, target: str, libraries: Iterable[str]) -> None:
        """Take note of what a case of a target imported beside the target itself."""
        self._target(target)[1].libraries.update(dict.fromkeys(libraries))

    def _target(self, target: str) -> tuple[str, _Target]:
        shared = zoo.source_of(target) or loading.split(target)[0]
        with self._lock:
            return shared, self._targets.setdefault(shared, _Target())


class _Target:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.cases: set[str] = set()
        self.libraries: dict[str, None] = {}
        self.ready: bool | None = None  # once it was tried
