"""Failures that are expected: by the configuration, or by ``@pytest.mark.export_xfail``."""

from __future__ import annotations

import fnmatch
import functools
import importlib.metadata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exportlint.findings import CHECKS
from pytest_exportlint.options import MARK

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pytest

    from exportlint.config import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A check that is expected to fail.

    Attributes:
        case: The id of the case, as ``path::name``; may hold wildcards.
        check: Name of the check; ``device`` stands for all devices, ``device-cuda`` for one.
        reason: Why.
        torch: The versions of torch for which that holds; empty for all.
        place: Where it is written, for messages.
    """

    case: str
    check: str
    reason: str
    torch: str = ""
    place: str = ""

    @classmethod
    def of_configuration(cls, table: Table) -> tuple[Expectation, ...]:
        """The tables ``expected-failures``.

        Raises:
            ConfigError: When one of them is not what it should be.
        """
        given = table.get("expected-failures", list, "an array of tables")
        return tuple(cls._of(table, item) for item in given or ())

    @classmethod
    def _of(cls, table: Table, item: Any) -> Expectation:
        key = "expected-failures"
        if not isinstance(item, dict):
            raise table.error(key, "must be an array of tables")
        unknown = sorted(item.keys() - {"case", "check", "reason", "torch"})
        if unknown:
            raise table.error(key, f"has the key {unknown[0]!r}, which is not known; known: case, check, reason, torch")
        for wanted in ("case", "check", "reason"):
            if not isinstance(item.get(wanted), str) or not item[wanted].strip():
                raise table.error(key, f"needs a {wanted}, which is a string")
        try:
            validate(item["check"], item.get("torch", ""))
        except ValueError as error:
            raise table.error(key, f"is wrong: {error}") from None
        return cls(place=str(table.file), **item)

    @classmethod
    def of_marks(cls, item: pytest.Item) -> tuple[Expectation, ...]:
        """The marks of an item.

        Raises:
            ValueError: When one has other arguments than a check, a reason and perhaps a range.
        """
        return tuple(cls._of_mark(item, mark) for mark in item.iter_markers(MARK))

    @classmethod
    def _of_mark(cls, item: pytest.Item, mark: pytest.Mark) -> Expectation:
        given = {**dict(zip(("check", "reason", "torch"), mark.args, strict=False)), **mark.kwargs}
        complete = {"check", "reason"} <= given.keys() <= {"check", "reason", "torch"} and len(mark.args) <= 3
        if not complete or not all(isinstance(value, str) and value.strip() for value in given.values()):
            raise ValueError(f"the mark {MARK} takes check=, reason= and perhaps torch=, all of them strings")
        validate(given["check"], given.get("torch", ""))
        return cls(case=item.nodeid, **given)

    @property
    def holds(self) -> bool:
        """Whether it holds for the torch that is installed."""
        from packaging.specifiers import SpecifierSet

        version = torch_version()
        return version is not None and SpecifierSet(self.torch).contains(version, prereleases=True)

    def about(self, case: str) -> bool:
        """Whether a case of this id is meant."""
        return self.case == case or fnmatch.fnmatchcase(case, self.case)

    def check_is(self, label: str) -> bool:
        """Whether a check is meant that results or items call so."""
        return self.check == label or (self.check == "device" and label.startswith("device-"))


def validate(check: str, torch: str) -> None:
    """Look at the name of a check and a range of versions.

    Raises:
        ValueError: When one of them means nothing.
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    from exportlint.checks import device_names

    if check.startswith("device-") and torch_version() is not None:  # which may know more devices than exportlint
        device_names.select([check.removeprefix("device-")])
    elif check not in CHECKS and not check.startswith("device-"):
        raise ValueError(f"{check!r} is no check; known: {', '.join(CHECKS)}")
    if not isinstance(torch, str):
        raise ValueError(f"torch must be a range of versions such as '>=2.13', not {torch!r}")
    try:
        SpecifierSet(torch)
    except InvalidSpecifier:
        raise ValueError(f"{torch!r} is no range of versions such as '>=2.13,<2.15'") from None


@functools.cache
def torch_version() -> str | None:
    """The version of torch that is installed, without the name of its build; torch is not imported."""
    try:
        return importlib.metadata.version("torch").partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return None


def reasons(expectations: Iterable[Expectation], label: str) -> str | None:
    """The reason for which a check is expected to fail, if there is one."""
    return next((e.reason for e in expectations if e.check_is(label) and e.holds), None)


def by_check(expectations: Iterable[Expectation], checks: Iterable[str], devices: Sequence[str]) -> dict[str, str]:
    """The reasons for which checks are expected to fail.

    Args:
        expectations: Those about the case, the most important first.
        checks: Names of checks, or what items call them.
        devices: Those of the session.
    """
    known = list(expectations)
    found = {check: reasons(known, label_of(check, devices)) for check in checks}
    return {check: reason for check, reason in found.items() if reason is not None}


def label_of(check: str, devices: Sequence[str]) -> str:
    """What items call a check: ``device`` with its device, where there is but one."""
    return f"device-{devices[0]}" if check == "device" and len(devices) == 1 else check
