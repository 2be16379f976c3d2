"""Items, one for each check of a case: of decorated factories, and of models that the command line names."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest

from exportlint.findings import CHECKS, RED, CaseResult
from pytest_exportlint import options, repeating, session
from pytest_exportlint.ledger import MODELS
from pytest_exportlint.node_ids import heading

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from exportlint.checks.case import ModelCase
    from exportlint.findings import CheckResult

_USES = re.compile(rb"\bexport_case\b")
_DECLARES = re.compile(rb"^@(?:\w+\.)*export_case\b", re.MULTILINE)


class ExportFailedError(Exception):
    """A check of a case is red; the message is what a person reads."""


class ExportItem(pytest.Item):
    """One check of one case."""

    def __init__(self, *, shared: session.SharedCase, label: str, factory: Any = None, **rest: Any) -> None:
        super().__init__(**rest)
        self.shared = shared
        self.label = label
        self._factory = factory
        if factory is not None:
            marks = vars(factory).get("pytestmark", [])
            given: list[Any] = [getattr(mark, "mark", mark) for mark in (marks if isinstance(marks, list) else [marks])]
            self.own_markers.extend(given)
            self.keywords.update({mark.name: mark for mark in given})

    def runtest(self) -> None:
        """Have the check run, and tell its outcome."""
        settle(self, self.shared, self.label)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The message of a red check alone; anything else as pytest shows it."""
        if isinstance(excinfo.value, ExportFailedError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path | str, int | None, str]:
        """Where the factory is."""
        return self.path, _line_of(self._factory), heading(self.name)


@functools.lru_cache(maxsize=64)  # the items of a case stand one after the other, and Python reads a file for a class
def _line_of(factory: Any) -> int | None:
    try:
        return inspect.getsourcelines(factory)[1] - 1
    except (OSError, TypeError):
        return None


def settle(item: pytest.Item, shared: session.SharedCase, label: str) -> None:
    """End a test with the outcome of a check.

    Raises:
        ExportFailedError: When it is red, or passes although it is expected to fail.
        pytest.skip.Exception: When it was not checked.
        pytest.xfail.Exception: When it failed as expected.
    """
    from exportlint.checks.requirements import MissingRequirementError
    from pytest_exportlint import messages

    __tracebackhide__ = True
    try:
        shared.result(label)
        check = shared.marked(item, label)
    except (MissingRequirementError, ValueError) as error:
        raise ExportFailedError(str(error)) from None
    result = CaseResult(name=shared.name, target=shared.id, checks=(check,))
    session.remember(item, result)
    notes = session.runner(item.config).notes
    remarks = messages.remarks(result, notes)
    if remarks:
        item.add_report_section("call", "exportlint", remarks)
    if check.red:
        text = messages.failure(result, stack=item.config.get_verbosity() >= 2, made=shared.made())
        raise ExportFailedError(f"{text}\n\nrepeat: {repeating.of_item(item, shared.id, label)}")
    _end(check)


def _end(check: CheckResult) -> None:
    """Skip or expect, where the check did neither pass nor fail."""
    __tracebackhide__ = True
    if check.expected is not None and (check.outcome in RED or any(f.counts for f in check.findings)):
        pytest.xfail(check.expected)
    if check.outcome == "not_checked":
        pytest.skip(f"not checked: {check.reason or 'no reason is known'}")


def of_object(collector: pytest.Collector, name: str, obj: Any) -> list[pytest.Item] | None:
    """The items of a decorated factory or class; ``None`` for anything else.

    Nothing is decorated unless the module of the decorator was imported, so nothing is imported here.

    Raises:
        pytest.Collector.CollectError: When the decorator lacks its arguments, or two cases have one name.
    """
    module = sys.modules.get("exportlint.checks.case")
    if module is None or not isinstance(collector, pytest.Module):
        return None
    if module.is_unfinished(obj, name, collector.obj.__name__):
        raise pytest.Collector.CollectError(f"{collector.nodeid}: {name}: {module.UNFINISHED}")
    cases = getattr(obj, "__dict__", {}).get(module.CASES_ATTRIBUTE)
    if not cases or getattr(obj, "__module__", None) != collector.obj.__name__:
        return None
    for case in cases:
        _require_one(collector, case)
    from exportlint.checks import variants

    asked = [variants.added(case, collector.config.stash[options.KEY].variants) for case in cases]
    return [item for case in asked for part in case.expand() for item in _of_case(collector, part, obj)]


_NAMED = pytest.StashKey[dict[str, Any]]()  # of a module: the cases by their names


def _require_one(collector: pytest.Module, case: ModelCase) -> None:
    if collector.stash.setdefault(_NAMED, {}).setdefault(case.name, case) is not case:
        words = f"more than one model case is named {case.name!r}: give each a name of its own"
        raise pytest.Collector.CollectError(f"{collector.nodeid}: {words}")


def _of_case(collector: pytest.Module, case: ModelCase, factory: Any) -> Iterator[pytest.Item]:
    from exportlint.checks.runner import NamedCase

    config = collector.config
    named = NamedCase(str(collector.path), case.name, case.expected_failures)
    shared = session.shared_case(config, f"{collector.nodeid}::{case.name}", case, named)
    asked = [check for check in CHECKS if case.asks_for(check)]
    for label in config.stash[options.KEY].labels_for(asked):
        name = f"{case.name}[{label}]"
        # Spelt out, since pytest would take the brackets for a part of the name and --lf would not find the item again.
        nodeid = f"{collector.nodeid}::{name}"
        yield ExportItem.from_parent(collector, name=name, nodeid=nodeid, shared=shared, label=label, factory=factory)


class ModelFile(pytest.Module):
    """A file that is no file of tests and holds decorated factories: nothing else of it is collected."""

    def collect(self) -> list[pytest.Item | pytest.Collector]:
        """The items of its cases."""
        found: list[pytest.Item | pytest.Collector] = []
        for name, value in vars(self.obj).copy().items():
            found += of_object(self, name, value) or ()
        return found


def of_file(file_path: Path, parent: pytest.Collector) -> ModelFile | None:
    """A collector for a file that declares cases and that pytest itself passes over."""
    if file_path.suffix != ".py" or parent.session.isinitpath(file_path):
        return None
    if any(file_path.match(pattern) for pattern in parent.config.getini("python_files")):
        return None
    try:
        text = file_path.read_bytes()
    except OSError:
        return None
    if not (_USES.search(text) and _DECLARES.search(text)):
        return None
    collector: ModelFile = ModelFile.from_parent(parent, path=file_path)
    return collector


def of_command_line(session_node: pytest.Session) -> list[pytest.Item]:
    """The items of the models that ``--export-model`` names.

    Raises:
        pytest.UsageError: When one cannot be found or loaded, with the reason.
    """
    from exportlint.checks.isolation.client import ServerError
    from exportlint.checks.requirements import MissingRequirementError
    from exportlint.checks.runner import LoadError
    from exportlint.checks.targets import MissingTargetError, expand

    config = session_node.config
    settings, items = config.stash[options.KEY], list[pytest.Item]()
    for target in settings.models:
        try:
            sources = expand(target)
            named = [case for source in sources for case in session.runner(config).list_cases(source)]
        except (MissingTargetError, MissingRequirementError, LoadError, ServerError, OSError) as error:
            raise pytest.UsageError(f"--export-model: {error}") from None
        for case in named:
            label_of_case = f"{MODELS}::{case.label}"
            shared = session.shared_case(config, label_of_case, named=case)
            items += [
                ExportItem.from_parent(
                    session_node,
                    name=f"{case.label}[{label}]",
                    nodeid=f"{label_of_case}[{label}]",
                    shared=shared,
                    label=label,
                )
                for label in settings.labels_for(case.asks)
            ]
    return items
