"""The class `ExportSuite`: one test for each check, of cases that the subclass's fixture or parameters give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from exportlint.findings import CHECKS
from pytest_exportlint import options, session
from pytest_exportlint.items import ExportFailedError, settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from exportlint.checks.case import ModelCase
    from exportlint.checks.runner import NamedCase

PREFIX = "test_"
SELDOM = frozenset({"steps", "methods", "training"})  # checks that few cases ask for


class ExportSuite:
    """Base class of tests of model cases: ``test_capture``, ``test_reload`` and so on, one for each check.

    A subclass says which cases there are, by the name ``case``::

        @pytest.mark.parametrize("case", [encoder, decoder], ids=lambda case: case.name)
        class TestModels(ExportSuite):
            pass

    or by a fixture ``case`` of its own. The tests of one case share one export. `case` is a `ModelCase`.
    """


def _test(check: str) -> Callable[..., None]:
    def test(self: ExportSuite, case: Any, _export_settle: Callable[[Any, str], None]) -> None:
        __tracebackhide__ = True
        _export_settle(case, check)

    test.__name__ = f"{PREFIX}{check}"
    test.__qualname__ = f"ExportSuite.{test.__name__}"
    test.__doc__ = f"The check ``{check}``."
    return test


for _check in CHECKS:
    setattr(ExportSuite, f"{PREFIX}{_check}", _test(_check))


def is_of_suite(item: pytest.Item) -> bool:
    """Whether an item is a test that `ExportSuite` defines."""
    owner = getattr(item, "cls", None)
    name = getattr(item, "originalname", "")
    return isinstance(owner, type) and issubclass(owner, ExportSuite) and check_of(item) is not None and bool(name)


def without_case(item: pytest.Item, error: BaseException | None) -> str | None:
    """What to write, where a test of a suite could not begin since nothing says which cases there are."""
    if not isinstance(error, pytest.FixtureLookupError) or error.argname != "case" or not is_of_suite(item):
        return None
    name = item.cls.__name__  # type: ignore[attr-defined]
    return (
        f"{name} has no case: write what it checks above the class, as in\n"
        '    @pytest.mark.parametrize("case", [ModelCase(...)], ids=lambda case: case.name)\n'
        "or give it a fixture `case` that returns a ModelCase."
    )


def check_of(item: pytest.Item) -> str | None:
    """The check of a test of a suite."""
    check = getattr(item, "originalname", "").removeprefix(PREFIX)
    return check if check in CHECKS else None


def case_id(item: pytest.Item) -> str:
    """What the items of one case have in common: the class and the parameters."""
    parameters = getattr(getattr(item, "callspec", None), "id", "")
    owner = item.nodeid.rpartition("::")[0]
    return f"{owner}[{parameters}]" if parameters else owner


def labels_of(item: pytest.Item) -> list[str]:
    """The checks of the item as results name them: of ``device`` one for each device."""
    check = check_of(item)
    settings = item.config.stash[options.KEY]
    return [label for label in settings.labels if label.partition("-")[0] == check]


def _named(item: pytest.Item, case: ModelCase) -> NamedCase | None:
    """How workers find the case, where the module of the test holds it in a variable."""
    from exportlint.checks.loading import declared
    from exportlint.checks.runner import NamedCase

    module = getattr(item, "module", None)
    if module is None or not any(found is case for found in declared(module)):
        return None
    return NamedCase(str(item.path), case.name, case.expected_failures)


def settle_case(item: pytest.Item, case: Any, check: str) -> None:
    """End a test of an `ExportSuite` with the outcome of its check.

    Raises:
        pytest.fail.Exception: When the check is red.
        pytest.skip.Exception: When it was not checked.
        pytest.xfail.Exception: When it failed as expected.
        TypeError: When `case` is no `ModelCase` of one method.
    """
    __tracebackhide__ = True
    from exportlint.checks.case import ModelCase

    if not isinstance(case, ModelCase):
        raise TypeError(f"case must be a ModelCase, not {type(case).__name__}")
    if case.methods:
        raise TypeError(f"case {case.name!r} has methods: parametrise with case.expand(), which makes a case of each")
    shared = session.shared_case(item.config, case_id(item))
    shared.take(case, _named(item, case))
    held: BaseException | None = None
    for label in labels_of(item):
        try:
            settle(item, shared, label)
        except ExportFailedError as error:
            held = pytest.fail.Exception(str(error), pytrace=False)
            break
        except (pytest.skip.Exception, pytest.xfail.Exception) as error:  # of one device; another may be red
            held = error
    if held is not None:
        raise held from None
