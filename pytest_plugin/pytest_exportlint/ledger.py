"""Which cases a session met, and which of the failures that are expected are about none of them."""

from __future__ import annotations

import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_exportlint.expectations import label_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from exportlint.findings import CaseResult
    from pytest_exportlint import options
    from pytest_exportlint.expectations import Expectation

OBSERVED, MODELS = "export-observe", "export-model"  # what the ids of cases begin with that are in no file of tests
WILD = "*?["


class Ledger:
    """The cases that an expectation is about, each with its checks.

    Args:
        settings: Those of the session; without expectations, nothing is noted.
    """

    def __init__(self, settings: options.Settings) -> None:
        self._settings = settings
        self.cases: dict[str, set[str]] = {}  # without checks: they are not known before the case runs
        self.uncollected: set[str] = set()  # files and folders that were skipped or failed, and so told no cases

    def meet(self, id_: str, labels: Iterable[str] = ()) -> None:
        """Take note of a case, and of checks that it has."""
        if any(expected.about(id_) for expected in self._settings.expected):
            self.cases.setdefault(id_, set()).update(labels)

    def meet_result(self, id_: str, result: CaseResult) -> None:
        """Take note of a case that ran."""
        devices = self._settings.devices
        self.meet(id_, (label_of(check.name.rpartition(".")[2], devices) for check in result.checks))

    def plain(self) -> dict[str, Any]:
        """What a worker of xdist sends."""
        cases = {id_: sorted(labels) for id_, labels in self.cases.items()}
        return {"cases": cases, "uncollected": sorted(self.uncollected)}

    def merge(self, sent: Mapping[str, Any]) -> None:
        """Take in what a worker sent."""
        for id_, labels in sent.get("cases", {}).items():
            self.meet(id_, labels)
        self.uncollected.update(sent.get("uncollected", ()))

    def unmatched(self, config: pytest.Config) -> Iterator[tuple[str, str]]:
        """The file and words for each expectation that is about nothing, as far as this session can tell."""
        scope = _Scope(config, self._settings, self.uncollected)
        for expected in self._settings.expected:
            words = self._wrong_with(expected, scope)
            if words is not None:
                yield expected.place, f"expected-failures: {words}"

    def _wrong_with(self, expected: Expectation, scope: _Scope) -> str | None:
        met = [labels for id_, labels in self.cases.items() if expected.about(id_)]
        if not met:
            return f"{expected.case} is no case" if scope.holds(expected.case) else None
        if not scope.all_checks or not all(met) or any(expected.check_is(label) for labels in met for label in labels):
            return None
        return f"{expected.case} has no check {expected.check}"


class _Scope:
    """What a session would have met if it existed."""

    def __init__(self, config: pytest.Config, settings: options.Settings, uncollected: set[str]) -> None:
        option, here = config.option, config.invocation_params.dir
        self._root, self._settings, self._uncollected = config.rootpath, settings, uncollected
        self._whole = config.args_source != pytest.Config.ArgsSource.ARGS and not settings.models
        named = [str(argument) for argument in config.args]
        self._folders = [Path(here, name).resolve() for name in named if "::" not in name]
        self._ignored = [Path(here, str(name)).resolve() for name in getattr(option, "ignore", None) or ()]
        self._part = bool(getattr(option, "lf", False) or getattr(option, "ignore_glob", None))
        self._selected = bool(option.keyword or option.markexpr or getattr(option, "deselect", None))
        self.all_checks = option.exportlint_checks is None and option.exportlint_devices is None

    def holds(self, case: str) -> bool:
        """Whether the session would have met the case of this id."""
        path, _, name = case.partition("::")
        if path == MODELS or self._part:
            return False
        if path == OBSERVED:
            wanted = self._settings.observe
            asked = wanted is not None and (not wanted or any(fnmatch.fnmatchcase(name, w) for w in wanted))
            return asked and self._whole and not self._selected
        return not self._was_skipped(path) and self._is_collected(path)

    def _was_skipped(self, path: str) -> bool:
        return any(
            where in ("", ".") or path.startswith(f"{where}/") or fnmatch.fnmatchcase(where, path)
            for where in self._uncollected
        )

    def _is_collected(self, path: str) -> bool:
        """Whether the file, or each file that its wildcards may stand for, was looked into."""
        if any(mark in path for mark in WILD):
            fixed = path[: min(path.index(mark) for mark in WILD if mark in path)].rpartition("/")[0]
            return self._whole or any(map(Path(self._root, fixed).resolve().is_relative_to, self._folders))
        file = Path(self._root, path).resolve()
        if any(map(file.is_relative_to, self._ignored)):
            return False
        return any(map(file.is_relative_to, self._folders)) or (self._whole and not file.exists())


LEDGER = pytest.StashKey[Ledger]()
LEFT_OUT = pytest.StashKey[str]()
"""Which tests of suites were left out, and why, in words."""
