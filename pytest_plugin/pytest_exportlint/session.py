"""What everything in one pytest session shares: the runner, and the results of the cases whose items are collected."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from exportlint.findings import CaseResult, CheckResult, select_checks
from pytest_exportlint import options
from pytest_exportlint.expectations import Expectation, by_check

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from exportlint.checks.case import ModelCase
    from exportlint.checks.runner import Isolation, NamedCase, Options, Runner

RUNNER = pytest.StashKey["Runner"]()
OBSERVED = pytest.StashKey[list[CaseResult]]()  # of a test: the cases that it checked
LINT = "lint"
UNTOLD = "nothing was found out"
NOT_ASKED = "not asked for by this case"


def runner(config: pytest.Config) -> Runner:
    """The runner of the session, made at the first call; its processes end with the session, also after Ctrl-C.

    Raises:
        MissingRequirementError: When something that the checks need is not there.
    """
    if RUNNER not in config.stash:
        config.stash[RUNNER] = made = _make(config.stash[options.KEY])
        config.add_cleanup(made.close)
    return config.stash[RUNNER]


def require() -> None:
    """Look for what the checks need, in this process.

    Raises:
        MissingRequirementError: When something is not there.
    """
    from exportlint.checks import requirements

    requirements.require()


def _make(settings: options.Settings) -> Runner:
    from exportlint.checks.runner import Runner
    from exportlint.checks.verdicts import Verdicts

    return Runner(runner_options(settings), None if settings.cache is None else Verdicts(settings.cache))


def runner_options(settings: options.Settings) -> Options:
    """What the runner of the checks is asked for."""
    from exportlint.checks.runner import Options

    return Options(
        checks=settings.checks,
        examples=settings.examples,
        devices=settings.devices,
        timeout=settings.timeout,
        isolation=cast("Isolation", settings.isolation),
        tolerance=settings.tolerance,
        memory=settings.memory,
        variants=settings.variants,
        profiles=settings.profiles,
        others=settings.pythons,
    )


def remember(item: pytest.Item, result: CaseResult) -> None:
    """Keep a result for the report of the session."""
    item.stash.setdefault(OBSERVED, []).append(result)


class SharedCase:
    """One model case, of which several items ask for one check each.

    The first that asks has all checks run of which an item was selected, so that they share one export.

    Args:
        config: The session's.
        id_: What items of the case are called, without the check.
        case: The case; ``None`` where it is known by its name only.
        named: How workers find it by name; ``None`` where it exists in this process only.
    """

    def __init__(
        self,
        config: pytest.Config,
        id_: str,
        case: ModelCase | None = None,
        named: NamedCase | None = None,
    ) -> None:
        self.config = config
        self.id = id_
        self.case = case
        self.named = named
        self.name = named.name if named is not None else "" if case is None else case.name
        self.labels: dict[str, None] = {}
        self._results: dict[str, CheckResult] = {}

    def want(self, label: str) -> None:
        """Say that an item asks for this check."""
        self.labels[label] = None

    def take(self, case: ModelCase, named: NamedCase | None = None) -> None:
        """The case, where it is known only once a test runs; the first that is given stays."""
        if self.case is None:
            self.case, self.named, self.name = case, named, case.name

    def result(self, label: str) -> CheckResult:
        """The result of a check, without what was expected of it.

        Raises:
            MissingRequirementError: When something that the checks need is not there.
        """
        if label not in self._results:
            self.want(label)
            missing = [name for name in self.labels if name not in self._results]
            try:
                self._run(missing)
            except BaseException as error:
                # What stopped this, a limit of time perhaps, would stop it again.
                words = f"the checks of this case were stopped: {type(error).__name__}: {error}".splitlines()[0]
                self._leave([name for name in missing if self._asks_for(name)], words)
                self._leave(missing, NOT_ASKED)
                raise
        return self._results[label]

    def marked(self, item: pytest.Item, label: str) -> CheckResult:
        """The result of a check that was run, with what is expected of it.

        Raises:
            ValueError: When a mark of the item means nothing.
        """
        from exportlint.checks.results import with_expectations

        expected = self._expectations(item)
        if label != LINT:
            return with_expectations([self._results[label]], expected)[0]
        # It names the checks that confirm it, and knows nothing of labels for single devices.
        checks = [dataclasses.replace(check, name=_check_of(name)) for name, check in self._results.items()]
        marked = with_expectations(checks, {_check_of(name): reason for name, reason in expected.items()})
        return next(check for check in marked if check.name == LINT)

    def made(self) -> str | None:
        """How the inputs were made, where nobody wrote them down."""
        from pytest_exportlint import messages

        return messages.how_made(self._results.values())

    def _expectations(self, item: pytest.Item) -> dict[str, str]:
        """The reasons for which checks are expected to fail, by check.

        Raises:
            ValueError: When a mark of the item means nothing.
        """
        of_case = self.named.expected if self.named is not None else {}
        if self.case is not None:
            of_case = self.case.expected_failures
        found = [Expectation(case=self.id, check=check, reason=reason) for check, reason in of_case.items()]
        settings = self.config.stash[options.KEY]
        found += [e for e in settings.expected if e.about(self.id)]
        found = [*Expectation.of_marks(item), *found]
        return by_check(found, self._results, settings.devices)

    def _run(self, labels: list[str]) -> None:
        """Run checks; ``device`` once for each device, the first together with the others."""
        devices = [label for label in labels if label.startswith("device-")]
        others = [label for label in labels if label not in devices]
        for group in [[*others, *devices[:1]], *([device] for device in devices[1:])]:
            if group:
                self._run_group(group)

    def _run_group(self, labels: list[str]) -> None:
        from pytest_exportlint import unrun

        device = next((label for label in labels if label.startswith("device-")), None)
        shared = runner(self.config)
        checks = select_checks("device" if label == device else label for label in labels)
        devices = shared.options.devices if device is None else (device.removeprefix("device-"),)
        with options_of(shared, checks=checks, devices=devices):
            found = self._checked(shared)
        for check in unrun.only_shown(found):
            label = device if check.name == "device" and device is not None else check.name
            self._results[label] = dataclasses.replace(check, name=label)
        self._leave(labels, NOT_ASKED)  # which the runner leaves out

    def _asks_for(self, label: str) -> bool:
        """Whether the case has something to do for a check."""
        check = _check_of(label)
        return self.case.asks_for(check) if self.case is not None else self.named is None or check in self.named.asks

    def _leave(self, labels: Iterable[str], reason: str) -> None:
        """Say of the checks without a result that they were not checked."""
        for label in labels:
            self._results.setdefault(label, CheckResult(name=label, outcome="not_checked", reason=reason))

    def _checked(self, shared: Runner) -> tuple[CheckResult, ...]:
        from exportlint.checks.isolation.client import ServerError
        from exportlint.checks.runner import LoadError

        words = UNTOLD
        if self.named is not None and shared.options.isolation != "fork":
            try:
                named = dataclasses.replace(self.named, target=_from_here(self.named.target), expected={})
                return shared.check_named(named, also=self._conftests()).checks
            except (LoadError, ServerError) as error:
                words = str(error)
        if self.case is not None:  # what cannot be loaded by name is here all the same
            require()
            case = dataclasses.replace(self.case, expected_failures={})
            return shared.check_object(case, self.id, str(self.config.rootpath / self.id.partition("::")[0])).checks
        return tuple(CheckResult(name=n, outcome="errored", reason=words) for n in shared.options.checks)

    def _conftests(self) -> tuple[str, ...]:
        """The conftest files that count for the case, since they may change what its module does."""
        if self.named is None or not self.named.target.endswith(".py"):
            return ()
        folders = {str(folder) for folder in Path(self.named.target).parents}
        plugins = self.config.pluginmanager.get_plugins()
        files = {os.path.realpath(file) for p in plugins if (file := getattr(p, "__file__", None))}
        return tuple(sorted(f for f in files if Path(f).name == "conftest.py" and str(Path(f).parent) in folders))


def _check_of(label: str) -> str:
    return "device" if label.startswith("device-") else label


def _from_here(target: str) -> str:
    """The target relative to the working directory, so that kept verdicts hold in another checkout."""
    path = Path(target)
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        return str(path.relative_to(Path.cwd()))
    return target


SHARED = pytest.StashKey[dict[str, SharedCase]]()


def shared_case(
    config: pytest.Config,
    id_: str,
    case: ModelCase | None = None,
    named: NamedCase | None = None,
) -> SharedCase:
    """The case of this id, the same object for all items that ask for it."""
    known = config.stash.setdefault(SHARED, {})
    if id_ not in known:
        known[id_] = SharedCase(config, id_, case, named)
    return known[id_]


@contextlib.contextmanager
def options_of(shared: Runner, **changes: object) -> Iterator[None]:
    """Other options of the runner for a while."""
    of_session = shared.options
    shared.options = dataclasses.replace(of_session, **changes)  # type: ignore[arg-type]
    try:
        yield
    finally:
        shared.options = of_session
