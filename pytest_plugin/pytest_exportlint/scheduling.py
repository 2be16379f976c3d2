"""Scheduling over workers of xdist: as with ``--dist load``, but the items of a case are sent to one worker."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xdist.scheduler import LoadScheduling

from exportlint.findings import CHECKS

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

_CHECKS = "|".join(CHECKS)
_ITEM = re.compile(rf"^(?P<case>.*)\[(?:{_CHECKS})(?:-[\w-]+)?\]$", re.DOTALL)
_SUITE = re.compile(rf"^(?P<owner>.*::)test_(?:{_CHECKS})(?P<parameters>\[.*\])?$", re.DOTALL)


def case_of(nodeid: str) -> str | None:
    """The case of an item, by the look of its id; ``None`` for what looks like a test of its own."""
    item = _ITEM.match(nodeid)
    if item is not None:
        return item["case"]
    test = _SUITE.match(nodeid)
    return None if test is None else f"{test['owner']}{test['parameters'] or ''}"


class LoadCases(LoadScheduling):  # type: ignore[misc]
    """`LoadScheduling` whose chunks end where a case ends."""

    def _send_tests(self, node: WorkerController, num: int) -> None:
        super()._send_tests(node, self._to_the_end_of_a_case(num))

    def _to_the_end_of_a_case(self, number: int) -> int:
        """How many of the pending tests to send, so that no case is cut in two."""
        if not self.collection or number <= 0:
            return number
        while number < len(self.pending):
            last, following = (self.collection[self.pending[i]] for i in (number - 1, number))
            case = case_of(last)
            if case is None or case != case_of(following):
                break
            number += 1
        return number
