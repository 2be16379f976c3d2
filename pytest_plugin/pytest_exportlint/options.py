"""The settings of the plugin: the command line, else ``[tool.exportlint.pytest]``, else the defaults."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from exportlint.findings import (
    CHECKS,
    DEFAULT_CHECKS,
    DEVICES,
    PROFILES,
    VARIANTS,
    are_chosen,
    listed_checks,
    select_checks,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exportlint.checks.other_python import OtherPython
    from exportlint.config import Table
    from pytest_exportlint.expectations import Expectation

ISOLATIONS = ("auto", "server", "fork", "none")
REPORTS = (".html", ".json", ".md", ".sarif", ".xml")
MOST_GIB = 1e6
LEAST_SECONDS = 1.0
CACHE = ".exportlint_cache"
KEYS = (
    "checks", "devices", "examples", "timeout", "memory", "isolation", "tolerance", "cache-dir", "observe-limit",
    "expected-failures", "variants", "profile", "reload-python",
)  # fmt: skip

FIELDS = {"profile": "profiles", "reload-python": "pythons"}  # of `Settings`, where it is called otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What was asked for.

    Attributes:
        checks: Names of the checks, in the order in which they run.
        examples: Calls that hypothesis draws for each case.
        devices: Devices for the check ``device``.
        timeout: Seconds that one check may compute.
        memory: GiB that the checks of one case may take; ``None`` for most of the machine's.
        isolation: Where checks run, one of `ISOLATIONS`.
        tolerance: Relative and absolute tolerance for cases that have none of their own.
        cache: Where verdicts are kept; ``None`` for nowhere.
        models: Specifications of models to check beside the tests.
        observe: Names of classes whose calls are observed; empty for every class, ``None`` for no observation.
        observe_limit: Cases of one class that are made of observed calls.
        reports: Files to write.
        github: Whether to print annotations for GitHub.
        expected: Failures that are expected.
        variants: Variants in which each case is checked, beside its own.
        profiles: Runtimes whose limits count in the check ``opset``.
        pythons: Interpreters of other environments in which the check ``reload`` loads the program, too.
    """

    checks: tuple[str, ...] = DEFAULT_CHECKS
    examples: int = 20
    devices: tuple[str, ...] = ("second",)
    timeout: float = 300.0
    memory: float | None = None
    isolation: str = "auto"
    tolerance: tuple[float, float] | None = None
    cache: Path | None = None
    models: tuple[str, ...] = ()
    observe: tuple[str, ...] | None = None
    observe_limit: int = 3
    reports: tuple[Path, ...] = ()
    github: bool = False
    expected: tuple[Expectation, ...] = ()
    variants: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    pythons: tuple[OtherPython, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The checks as items name them: the check ``device`` once for each device."""
        return self.labels_for(CHECKS)

    def labels_for(self, asked: Iterable[str]) -> tuple[str, ...]:
        """The same for a case that asks for these checks; where checks were chosen, they are all there."""
        wanted = frozenset(CHECKS) if are_chosen(self.checks) else frozenset(asked)
        return tuple(
            label
            for check in self.checks
            if check in wanted
            for label in ([f"device-{device}" for device in self.devices] if check == "device" else [check])
        )


DEFAULTS = Settings()
MARK = "export_xfail"
MARK_HELP = (
    f"{MARK}(check, reason, torch=None): the check of this name is expected to fail on this model; torch may be a "
    "range of versions, such as '>=2.13,<2.15'."
)
KEY = pytest.StashKey[Settings]()

# dest, option, metavar, help
_TEXTS = (
    ("checks", "NAMES", f"Checks to run, separated by commas. {listed_checks()}"),
    ("examples", "N", f"Calls that the check shapes draws for each model. Default: {DEFAULTS.examples}."),
    (
        "devices",
        "NAMES",
        f"Devices, separated by commas: {', '.join(DEVICES)}, or a type that torch knows. Default: second.",
    ),
    ("timeout", "SECONDS", f"Seconds that one check may compute. Default: {DEFAULTS.timeout:g}."),
    (
        "isolation",
        "WHERE",
        f"Where checks run: {', '.join(ISOLATIONS)}. Default: auto, a child process; none, pytest's own, is to debug.",
    ),
    ("variants", "NAMES", f"Check each case in these variants too, separated by commas: {', '.join(VARIANTS)}."),
    (
        "profile",
        "NAMES",
        f"Runtimes whose limits count in the check opset, separated by commas: {', '.join(PROFILES)}.",
    ),
    ("cache_dir", "FOLDER", f"Where verdicts are kept. Default: {CACHE} beside pytest's configuration."),
)

_OTHER_NAMES = {"devices": ("--export-device",)}


def add(parser: pytest.Parser) -> None:
    """Add the options; values are read later, by `read`, so that a bad one is a message of one line."""
    group = parser.getgroup("exportlint", "exportlint: export, reload, move and reshape models")
    for name, metavar, words in _TEXTS:
        names = [f"--export-{name.replace('_', '-')}", *_OTHER_NAMES.get(name, ())]
        group.addoption(*names, dest=f"exportlint_{name}", metavar=metavar, help=words)
    group.addoption(
        "--export-model", dest="exportlint_models", metavar="SPEC", action="append", default=[],
        help="Check a model that no test names: hf:MODEL_TYPE, timm:NAME, torchvision:NAME, package.module:factory, "
        "path.py. May be repeated and hold wildcards. Without paths of tests, no test is run.",
    )  # fmt: skip
    group.addoption(
        "--export-reload-python", dest="exportlint_pythons", metavar="PATH", action="append",
        help="An interpreter of another environment in which the check reload loads the program, too. May be repeated.",
    )  # fmt: skip
    group.addoption(
        "--export-observe", dest="exportlint_observe", metavar="CLASS,...", nargs="?", const="",
        help="Check the models that the tests call, with the inputs that they give; of these classes, or of all.",
    )  # fmt: skip
    group.addoption(
        "--export-report", dest="exportlint_reports", metavar="FILE", action="append", default=[],
        help=f"Write the results here; the suffix ({', '.join(REPORTS)}) is the format. May be repeated.",
    )  # fmt: skip
    group.addoption(
        "--export-no-cache", dest="exportlint_no_cache", action="store_true", help="Keep no verdicts and use none."
    )
    group.addoption(
        "--export-github", dest="exportlint_github", action="store_true", help="Print annotations for GitHub Actions."
    )


def read(config: pytest.Config) -> Settings:
    """The settings of this run.

    Raises:
        pytest.UsageError: When a value on the command line, or in the configuration, means nothing.
    """
    from exportlint import config as configuration

    try:
        values = _of_configuration(configuration.read(config.rootpath).table("pytest"), config.rootpath)
    except configuration.ConfigError as error:
        raise pytest.UsageError(f"exportlint: {error}") from None
    readers = {
        "checks": _checks, "examples": _examples, "devices": _devices, "timeout": _timeout, "isolation": _isolation,
        "variants": _variants, "profile": _profiles,
    }  # fmt: skip
    for name, reader in readers.items():
        text = config.getoption(f"exportlint_{name}")
        if text is not None:
            try:
                values[FIELDS.get(name, name)] = reader(text)
            except ValueError as error:
                raise pytest.UsageError(f"--export-{name}: {error}") from None
    pythons = config.getoption("exportlint_pythons")
    if pythons is not None:
        try:
            values["pythons"] = _identified(Path(config.invocation_params.dir, path) for path in pythons)
        except ValueError as error:
            raise pytest.UsageError(f"--export-reload-python: {error}") from None
    observed = config.getoption("exportlint_observe")
    folder = values.pop("cache-dir", None)
    return Settings(
        **values,
        cache=_cache(config, folder),
        models=tuple(config.getoption("exportlint_models")),
        observe=None if observed is None else tuple(name.strip() for name in observed.split(",") if name.strip()),
        reports=tuple(_report(config, name) for name in config.getoption("exportlint_reports")),
        github=config.getoption("exportlint_github"),
    )


def _of_configuration(table: Table, root: Path) -> dict[str, Any]:
    """What the table ``[tool.exportlint.pytest]`` sets, by the names of `Settings`; and ``cache-dir``."""
    table.only(KEYS)
    numbers = {
        key: table.get(key, (int, float), "a number") for key in ("examples", "timeout", "memory", "observe-limit")
    }
    texts = {key: table.get(key, str, "a string") for key in ("isolation", "cache-dir")}
    values: dict[str, Any] = {}
    readers = {"examples": _examples, "timeout": _timeout, "memory": _memory, "observe-limit": _examples}
    for key, given in (numbers | texts).items():
        if given is not None:
            reader = {**readers, "isolation": _isolation}.get(key, str)
            values[key.replace("observe-limit", "observe_limit")] = _converted(table, key, reader, str(given))
    selectors = {
        "checks": select_checks, "devices": _select_devices, "variants": _select_variants, "profile": _select_profiles,
        "reload-python": lambda paths: _identified(root / path for path in paths),
    }  # fmt: skip
    for key, select_names in selectors.items():
        names = table.strings(key)
        if names is not None:
            values[FIELDS.get(key, key)] = _converted(table, key, select_names, names)
    if "tolerance" in table.values:
        values["tolerance"] = _tolerance(table.table("tolerance"))
    if "expected-failures" in table.values:
        from pytest_exportlint.expectations import Expectation

        values["expected"] = Expectation.of_configuration(table)
    return values


def _converted(table: Table, key: str, convert: Any, given: Any) -> Any:
    try:
        return convert(given)
    except ValueError as error:
        raise table.error(key, f"is wrong: {error}") from None


def _tolerance(table: Table) -> tuple[float, float]:
    table.only(("rtol", "atol"))
    bounds = [table.get(key, (int, float), "a number") or 0.0 for key in ("rtol", "atol")]
    for key, bound in zip(("rtol", "atol"), bounds, strict=True):
        if not 0 <= bound < math.inf:
            raise table.error(key, f"must be finite and at least 0, not {bound}")
    return float(bounds[0]), float(bounds[1])


def _known(names: Iterable[str], known: tuple[str, ...], what: str) -> tuple[str, ...]:
    """The names, each of which is known, in the order of those."""
    __tracebackhide__ = True
    wanted = list(names)
    for name in wanted:
        if name not in known:
            raise ValueError(f"{name!r} is no {what}; known: {', '.join(known)}")
    return tuple(name for name in known if name in wanted)


def _select_devices(names: Iterable[str]) -> tuple[str, ...]:
    from exportlint.checks import device_names

    return device_names.select(names)


def _names(value: str) -> list[str]:
    return [name.strip() for name in value.split(",") if name.strip()]


def _checks(value: str) -> tuple[str, ...]:
    return select_checks(_names(value))


def _devices(value: str) -> tuple[str, ...]:
    return _select_devices(_names(value))


def _select_variants(names: Iterable[str]) -> tuple[str, ...]:
    return _known(names, VARIANTS, "variant")


def _variants(value: str) -> tuple[str, ...]:
    return _select_variants(_names(value))


def _select_profiles(names: Iterable[str]) -> tuple[str, ...]:
    return _known(names, PROFILES, "profile")


def _profiles(value: str) -> tuple[str, ...]:
    return _select_profiles(_names(value))


def _identified(paths: Iterable[Path]) -> tuple[OtherPython, ...]:
    from exportlint.checks import other_python

    return tuple(other_python.identify(str(path)) for path in paths)


def _examples(value: str) -> int:
    # int() also takes " 1_0 ", which is no number to anyone else
    if not (value.isascii() and value.isdigit()):
        raise ValueError(f"{value!r} is no whole number of at least 0")
    return int(value)


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return math.nan


def _timeout(value: str) -> float:
    seconds = _number(value)
    if not (math.isfinite(seconds) and seconds >= LEAST_SECONDS):
        raise ValueError(f"{value!r} is no number of seconds of at least {LEAST_SECONDS:g}")
    return seconds


def _memory(value: str) -> float:
    size = _number(value)
    if not 0 < size <= MOST_GIB:
        raise ValueError(f"{value!r} is no number of GiB above 0")
    return size


def _isolation(value: str) -> str:
    if value not in ISOLATIONS:
        raise ValueError(f"{value!r} is none of {', '.join(ISOLATIONS)}")
    return value


def _cache(config: pytest.Config, configured: str | None) -> Path | None:
    if config.getoption("exportlint_no_cache"):
        return None
    asked = config.getoption("exportlint_cache_dir")
    if asked is not None:
        folder = Path(config.invocation_params.dir, asked)
        if not asked.strip() or (folder.exists() and not folder.is_dir()):
            raise pytest.UsageError(f"--export-cache-dir: {asked!r} is no folder")
        return folder
    folder = Path(config.rootpath) / (configured or CACHE)
    if configured and folder.exists() and not folder.is_dir():
        raise pytest.UsageError(f"exportlint: cache-dir: {configured!r} is no folder")
    return folder


def _report(config: pytest.Config, name: str) -> Path:
    path = Path(config.invocation_params.dir) / name
    if path.suffix.lower() not in REPORTS:
        raise pytest.UsageError(f"--export-report: {name}: the suffix must be one of {', '.join(REPORTS)}")
    if not path.parent.is_dir():
        raise pytest.UsageError(f"--export-report: {name}: there is no folder {path.parent}")
    if path.exists() and not path.is_file():
        raise pytest.UsageError(f"--export-report: {name} is no regular file")
    return path
