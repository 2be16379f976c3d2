"""Which items run, and in which order: those of one case together, since the first has the others' checks run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.findings import are_chosen
from exportlint.text import counted
from pytest_exportlint import options, session, suite
from pytest_exportlint.items import ExportItem, of_command_line
from pytest_exportlint.ledger import LEDGER, LEFT_OUT
from pytest_exportlint.node_ids import plain_id

if TYPE_CHECKING:
    import pytest


def add_models(session_node: pytest.Session, items: list[pytest.Item]) -> None:
    """Add the items of the models that the command line names."""
    if session_node.config.stash[options.KEY].models:
        items += of_command_line(session_node)


def drop_unselected(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of suites whose check was not asked for; those that few cases ask for, unless they are chosen."""
    checks = config.stash[options.KEY].checks
    wanted = set(checks) - (set() if are_chosen(checks) else suite.SELDOM)
    dropped = [item for item in items if suite.is_of_suite(item) and suite.check_of(item) not in wanted]
    if dropped:
        gone = set(dropped)
        config.hook.pytest_deselected(items=dropped)
        config.stash[LEFT_OUT] = _left_out(dropped)
        items[:] = [item for item in items if item not in gone]


def _left_out(dropped: list[pytest.Item]) -> str:
    """Why pytest counts tests as deselected although nobody deselected any."""
    checks = dict.fromkeys(str(suite.check_of(item)) for item in dropped)
    were = f"{counted(len(dropped), 'test')} of suites deselected"
    return f"{were}, whose checks were not asked for: {', '.join(checks)}; --export-checks and `checks` name checks"


def note_cases(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take note of the cases that were collected, before any is deselected."""
    ledger = config.stash[LEDGER]
    for item in items:
        if isinstance(item, ExportItem):
            ledger.meet(item.shared.id, [item.label])
        elif suite.is_of_suite(item):
            ledger.meet(suite.case_id(item), suite.labels_of(item))
        elif "export_check" in getattr(item, "fixturenames", ()):
            ledger.meet(plain_id(item))


def put_together(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Say which checks are wanted of each case, and bring its items to where the first of them is."""
    first: dict[str, int] = {}
    ranks: list[tuple[int, int]] = []
    for index, item in enumerate(items):
        shared = _shared(config, item)
        rank = first.setdefault(shared.id, index) if shared is not None else index
        ranks.append((rank, index))
        if shared is not None:
            _group(config, item, shared)
    items[:] = [item for _, item in sorted(zip(ranks, items, strict=True), key=lambda pair: pair[0])]


def _shared(config: pytest.Config, item: pytest.Item) -> session.SharedCase | None:
    """The case of an item, told that its checks are wanted."""
    if isinstance(item, ExportItem):
        item.shared.want(item.label)
        return item.shared
    if suite.is_of_suite(item):
        shared = session.shared_case(config, suite.case_id(item))
        for label in suite.labels_of(item):
            shared.want(label)
        return shared
    return None


def _group(config: pytest.Config, item: pytest.Item, shared: session.SharedCase) -> None:
    """For ``--dist loadgroup``, which else would send each item where it likes."""
    if config.getvalue("loadgroup") if hasattr(config.option, "loadgroup") else False:
        import pytest

        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(shared.id))
