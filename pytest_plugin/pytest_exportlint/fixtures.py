"""The fixture `export_check`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from exportlint.findings import CHECKS, select_checks
from pytest_exportlint import options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from exportlint.checks.case import ModelCase
    from exportlint.checks.runner import Runner
    from exportlint.findings import CaseResult

_NOTHING = object()  # where the caller gave no model
USAGE = "export_check needs a ModelCase, or a module (or a factory of one) and its inputs: export_check(model, (x,))"


class ExportCheck:
    """Runs the checks of model cases and fails the test where one of them is red."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def __call__(
        self,
        model: Any = _NOTHING,
        args: Any = None,
        kwargs: Any = None,
        *,
        checks: Iterable[str] | None = None,
        **settings: Any,
    ) -> CaseResult:
        """Run the checks of a model case.

        Args:
            model: A `ModelCase`; or an ``nn.Module``, or a factory of one, of which a case is made.
            args: Positional arguments of the example call, as for `ModelCase`; none beside a `ModelCase`.
            kwargs: Keyword arguments of the example call, as for `ModelCase`; none beside a `ModelCase`.
            checks: Names of the checks to run. Default: those of ``--export-checks``.
            **settings: Keyword arguments of `ModelCase`; where a case is given, what to change in it.

        Returns:
            What the checks found. For a case with `methods`, the checks of all of them, each named
            ``method.check``.

        Raises:
            pytest.fail.Exception: When a check is red: it failed, errored, crashed or timed out, or found something
                of severity warning or error, and was not expected to. Also when torch is missing or too old.
            TypeError: When an argument is of the wrong kind.
            ValueError: When a check is unknown, or an argument has a wrong value.
        """
        __tracebackhide__ = True
        if model is _NOTHING:
            raise TypeError(USAGE)
        names = None if checks is None else _selected(checks)
        case = _case(model, args, kwargs, settings, default_name=self._item.name)
        case = dataclasses.replace(case, expected_failures=self._expected(case))
        runner = self._runner()
        result = _run(runner, case, names or runner.options.checks, self._item)
        from pytest_exportlint import unrun

        result = dataclasses.replace(result, checks=unrun.only_shown(result.checks))
        self._report(result, runner.notes)
        return result

    def _runner(self) -> Runner:
        __tracebackhide__ = True
        from exportlint.checks import requirements
        from pytest_exportlint import session

        try:
            session.require()
            return session.runner(self._item.config)
        except requirements.MissingRequirementError as error:
            words = str(error)
        pytest.fail(words, pytrace=False)  # out here, since pytest would show the exception beside it

    def _expected(self, case: ModelCase) -> dict[str, str]:
        """What the case, the marks of the test and the configuration expect to fail."""
        __tracebackhide__ = True
        from pytest_exportlint import expectations
        from pytest_exportlint.node_ids import plain_id

        try:
            found = expectations.Expectation.of_marks(self._item)
        except ValueError as error:
            raise ValueError(str(error)) from None
        settings = self._item.config.stash[options.KEY]
        found += tuple(e for e in settings.expected if e.about(plain_id(self._item)))
        return {**expectations.by_check(found, CHECKS, settings.devices), **case.expected_failures}

    def _report(self, result: CaseResult, notes: list[str]) -> None:
        __tracebackhide__ = True
        from pytest_exportlint import messages, repeating, session
        from pytest_exportlint.ledger import LEDGER
        from pytest_exportlint.node_ids import plain_id

        session.remember(self._item, result)
        self._item.config.stash[LEDGER].meet_result(plain_id(self._item), result)
        remarks = messages.remarks(result, notes)
        if remarks:
            self._item.add_report_section("call", "exportlint", remarks)
        if result.red:
            stack = self._item.config.get_verbosity() >= 2
            text = messages.failure(result, stack=stack)
            pytest.fail(f"{text}\n\nrepeat: {repeating.of_test(self._item)}", pytrace=False)


@pytest.fixture
def export_check(request: pytest.FixtureRequest) -> ExportCheck:
    """Export, reload, move and reshape a model: ``export_check(ModelCase(...))`` or ``export_check(model, args)``.

    The test fails with one message for each finding; else the call returns what the checks found.
    """
    return ExportCheck(request.node)


@pytest.fixture
def _export_settle(request: pytest.FixtureRequest) -> Callable[[Any, str], None]:
    """Ends a test of an `ExportSuite` with the outcome of its check."""

    def settle(case: Any, check: str) -> None:
        __tracebackhide__ = True
        from pytest_exportlint.suite import settle_case

        settle_case(request.node, case, check)

    return settle


def _case(model: Any, args: Any, kwargs: Any, settings: dict[str, Any], *, default_name: str) -> ModelCase:
    """The case that was given, with what is to be changed in it, or a new one."""
    __tracebackhide__ = True
    from exportlint.checks.case import ModelCase, require_settings

    if isinstance(model, ModelCase) and (args is not None or kwargs is not None):
        raise TypeError("a ModelCase holds its own arguments: args and kwargs are not taken beside it")
    try:
        require_settings(settings)
        if isinstance(model, ModelCase):
            return dataclasses.replace(model, **settings)
        if getattr(model, "__name__", "") == "<lambda>":  # which has no name to show
            settings = {"name": default_name, **settings}
        return ModelCase(model, () if args is None else args, {} if kwargs is None else kwargs, **settings)
    except (TypeError, ValueError) as error:  # raised anew here, so that pytest shows the caller's line
        raise type(error)(str(error)) from None


def _selected(checks: Iterable[str]) -> tuple[str, ...]:
    __tracebackhide__ = True
    try:
        return select_checks([checks] if isinstance(checks, str) else checks)
    except ValueError as error:  # raised anew here, so that pytest shows the caller's line
        raise ValueError(str(error)) from None


def _run(runner: Runner, case: ModelCase, checks: tuple[str, ...], item: pytest.Item) -> CaseResult:
    """Run these checks on the case, or on each of its methods."""
    __tracebackhide__ = True
    from exportlint.checks import variants
    from exportlint.checks.isolation.client import ServerError
    from pytest_exportlint import session

    try:
        with session.options_of(runner, checks=checks):
            parts = variants.added(case, runner.options.variants).expand()
            results = [runner.check_object(part, item.nodeid, str(item.path)) for part in parts]
    except ServerError as error:
        words = str(error)
    else:
        return _joined(case, parts, results)
    pytest.fail(f"exportlint cannot start its worker server: {words}", pytrace=False)


def _joined(case: ModelCase, parts: Sequence[ModelCase], results: list[CaseResult]) -> CaseResult:
    """One result for a case of several methods or variants."""
    if len(parts) == 1:
        return results[0]
    checks = tuple(
        dataclasses.replace(check, name=f"{label}.{check.name}" if label else check.name)
        for part, result in zip(parts, results, strict=True)
        for label in [part.name.removeprefix(case.name).removeprefix(".")]
        for check in result.checks
    )
    return dataclasses.replace(results[0], name=case.name, checks=checks)
