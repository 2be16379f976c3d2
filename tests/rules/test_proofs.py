"""Every example of every rule, run with the installed torch: what a rule declares is what happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cases import Case, cases
from checking import check
from forms import FORMS, Form
from seeing import seen_of

from exportlint.rules import catalogue

if TYPE_CHECKING:
    from collections.abc import Iterable

CASES = cases()
CHECKED = [case for case in CASES if case.proof == "check"]
FIXED = {case.rule.code: case for case in CASES if case.like is not None and case.proof != "run"}
NOT_IN_EAGER = {"EXP002", "EXP802", "EXP803"}  # whose bad examples do not run


@pytest.fixture(scope="session")
def observed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, list[str]]]:
    """What torch made of each example that a selected test asks for, by its id.

    Examples run in processes of their own, since torch can abort them.
    """
    folder = tmp_path_factory.mktemp("proofs")
    asked = _asked(request.session.items)
    wanted = [{"id": c.id, "source": c.source, "proof": c.proof} for c in CASES if c.proof != "check"]
    wanted += [{"id": f"{c.id} like bad", "source": c.source, "like": c.like} for c in FIXED.values()]
    wanted += [{"id": f"form {i}", "source": f.source, "proof": f.proof} for i, f in enumerate(FORMS)]
    found = seen_of([job for job in wanted if job["id"] in asked], folder)
    found.update(check([case for case in CHECKED if case.id in asked], folder))
    return found


def _asked(items: Iterable[pytest.Item]) -> set[str]:
    """The ids of what the tests among these look at."""
    given = [i.callspec.params for i in items if isinstance(i, pytest.Function) and "observed" in i.fixturenames]
    found = {p["case"].id for p in given if "case" in p} | {f"form {p['number']}" for p in given if "number" in p}
    return found | {f"{FIXED[p['code']].id} like bad" for p in given if "code" in p}


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id.replace(" ", "-"))
def test_outcomes_are_what_torch_does(case: Case, observed: dict[str, dict[str, list[str]]]) -> None:
    seen = observed[case.id]
    assert "error" not in seen, seen
    assert {mode: outcome for mode, (outcome, _) in seen.items()} == dict(case.wanted), seen


@pytest.mark.slow  # minutes, beside the examples of the rules
@pytest.mark.parametrize(("number", "form"), list(enumerate(FORMS)))
def test_further_forms_end_as_they_say(number: int, form: Form, observed: dict[str, dict[str, list[str]]]) -> None:
    seen = observed[f"form {number}"]
    assert "error" not in seen, seen
    assert tuple(outcome for outcome, _ in seen.values()) == form.outcomes, seen


@pytest.mark.parametrize("code", FIXED)
def test_fixed_computes_what_bad_computes(code: str, observed: dict[str, dict[str, list[str]]]) -> None:
    """In eager, in both calls, wherever the bad example runs, unless the rule says why it is not to."""
    rule = catalogue()[code]
    wanted = "differs" if rule.fixed_differs else "same"
    if code in NOT_IN_EAGER or (rule.proof == "build" and rule.outcomes["export"] == "unportable"):
        wanted = "nothing to compare with"
    assert observed[f"{FIXED[code].id} like bad"]["eager"][0] == wanted
