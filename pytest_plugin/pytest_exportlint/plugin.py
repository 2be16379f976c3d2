"""The pytest plugin: wires options, fixtures, items and the report to pytest.

Starting it imports neither torch nor hypothesis nor a check, and where nothing in a repository asks for it,
it collects nothing and changes nothing. What a hook needs is imported by the hook: pytest loads this at every start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_exportlint import options
from pytest_exportlint.fixtures import _export_settle, export_check

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

__all__ = ["_export_settle", "export_check"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the group ``exportlint``."""
    options.add(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Read the settings, so that a bad value ends the run before the first test."""
    config.addinivalue_line("markers", options.MARK_HELP)
    if config.option.help:
        return
    settings = config.stash[options.KEY] = options.read(config)
    if settings.models and config.args_source != pytest.Config.ArgsSource.ARGS:
        config.args[:] = []  # nobody asked for tests
    from pytest_exportlint.ledger import LEDGER, Ledger
    from pytest_exportlint.summary import Summary

    config.stash[LEDGER] = Ledger(settings)
    summary = Summary(config)
    config.pluginmanager.register(summary, "exportlint-summary")
    if settings.observe is not None:
        from pytest_exportlint.observing import Observer

        config.pluginmanager.register(Observer(config, summary.notes), "exportlint-observer")


def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: Any) -> list[pytest.Item] | None:
    """Collect decorated factories and classes."""
    from pytest_exportlint import items

    return items.of_object(collector, name, obj)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect model files that hold decorated factories."""
    from pytest_exportlint import items

    return items.of_file(file_path, parent)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Add the models of the command line before anything is selected; afterwards put the items of a case together."""
    from pytest_exportlint import ordering

    ordering.add_models(session, items)
    ordering.drop_unselected(config, items)
    ordering.note_cases(config, items)
    yield
    ordering.put_together(config, items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Send results with the report of their test, also from a worker of xdist, and say how long a check itself took."""
    report = yield
    if report.when == "setup" and report.failed and call.excinfo is not None:
        from pytest_exportlint import suite

        report.longrepr = suite.without_case(item, call.excinfo.value) or report.longrepr
    if report.when == "call":
        from pytest_exportlint import items, session, suite

        observed = item.stash.get(session.OBSERVED, None)
        if observed:
            from pytest_exportlint import wire

            wire.attach(report, observed)
            if isinstance(item, items.ExportItem) or suite.is_of_suite(item):
                report.duration = sum(check.seconds for case in observed for check in case.checks if not check.cached)
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Where tests go to whichever worker is free, the items of a case go to one."""
    if config.getvalue("dist") != "load":
        return None
    from pytest_exportlint.scheduling import LoadCases

    return LoadCases(config, log)
