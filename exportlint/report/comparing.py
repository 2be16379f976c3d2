"""Two runs beside each other: what got worse, what was mended, and what cannot be said any more."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from exportlint.findings import RED
from exportlint.text import listed, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from exportlint.findings import CaseResult, CheckResult, Finding, Readiness

T = TypeVar("T")
MOST_TITLES = 3


@dataclass(frozen=True, slots=True)
class Change:
    """A check of a case that says something else than before.

    Attributes:
        case: Name of the case.
        target: Its TARGET.
        check: Name of the check.
        words: What changed, in one line.
    """

    case: str
    target: str
    check: str
    words: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changed from one run to another.

    Attributes:
        regressions: Checks that are red and were not, or that have findings which they had not; red checks of new
            cases too. TARGETs that cannot be loaded any more are among them, with the check ``load``.
        mended: Checks that were red and are not, though they still ran.
        unchecked: Checks that ran before and do not say anything now.
        new: Cases that were not there before.
        gone: Cases that are not there any more.
        surroundings: What else differs, such as the version of torch.
    """

    regressions: tuple[Change, ...] = ()
    mended: tuple[Change, ...] = ()
    unchecked: tuple[Change, ...] = ()
    new: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    surroundings: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[tuple[str, tuple[Change, ...]], ...]:
        """The checks that changed, under their titles, the worst first."""
        return (
            ("regressions", self.regressions),
            ("mended", self.mended),
            ("no longer checked", self.unchecked),
        )

    @property
    def cases(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The cases that came and went, under their titles."""
        return ("new cases", self.new), ("cases that are gone", self.gone)

    @property
    def summary(self) -> str:
        """``2 regressions, 1 check mended, ...``, or that nothing changed."""
        parts = (
            (self.regressions, "regression", "regressions"),
            (self.mended, "mended check", "mended checks"),
            (self.unchecked, "check that no longer ran", "checks that no longer ran"),
            (self.new, "new case", "new cases"),
            (self.gone, "case gone", "cases gone"),
        )
        words = [f"{len(found)} {one if len(found) == 1 else many}" for found, one, many in parts if found]
        return ", ".join(words) or "nothing changed"


def compare(old: Readiness, new: Readiness) -> Comparison:
    """What changed from `old` to `new`; findings are known again through lines that moved."""
    before, after = _cases(old), _cases(new)
    errors = {error.target for error in old.errors}
    lost = [Change(e.target, e.target, "load", one_line(e.message)) for e in new.errors if e.target not in errors]
    pairs = [(before.get(name), case) for name, case in after.items()]
    return Comparison(
        regressions=(*lost, *(change for was, case in pairs for change in _regressions(was, case))),
        mended=tuple(change for was, case in pairs for change in _mended(was, case)),
        unchecked=tuple(change for was, case in pairs for change in _unchecked(was, case)),
        new=tuple(_shown(case) for name, case in after.items() if name not in before),
        gone=tuple(_shown(case) for name, case in before.items() if name not in after),
        surroundings=tuple(_surroundings(old, new)),
    )


def _cases(run: Readiness) -> dict[tuple[object, int], CaseResult]:
    return _numbered(run.cases, lambda case: (case.target, case.name))


def _numbered(items: Iterable[T], name: Callable[[T], object]) -> dict[tuple[object, int], T]:
    """The items by name, those of one name told apart by their order."""
    counts: Counter[object] = Counter()
    found = {}
    for item in items:
        key = name(item)
        found[key, counts[key]] = item
        counts[key] += 1
    return found


def _shown(case: CaseResult) -> str:
    return case.name if case.name == case.target else f"{case.name} ({case.target})"


def _checks(case: CaseResult | None) -> dict[tuple[object, int], CheckResult]:
    return {} if case is None else _numbered(case.checks, lambda check: check.name)


def _pairs(was: CaseResult | None, case: CaseResult) -> Iterator[tuple[CheckResult | None, CheckResult]]:
    before = _checks(was)
    return ((before.get(key), check) for key, check in _checks(case).items())


def _regressions(was: CaseResult | None, case: CaseResult) -> Iterator[Change]:
    for before, check in _pairs(was, case):
        if not check.red:
            continue
        found = _new_findings(before, check)
        worse = check.outcome in RED and (before is None or before.outcome not in RED or before.expected is not None)
        if found or worse:
            yield _change(case, check, _why_red(check, found))


def _mended(was: CaseResult | None, case: CaseResult) -> Iterator[Change]:
    for before, check in _pairs(was, case):
        if before is not None and before.red and not check.red and check.outcome != "not_checked":
            yield _change(case, check, f"was {_word(before)}, {_word(check)} now")


def _unchecked(was: CaseResult | None, case: CaseResult) -> Iterator[Change]:
    for before, check in _pairs(was, case):
        if before is not None and before.outcome != "not_checked" and check.outcome == "not_checked":
            reason = f": {one_line(check.reason)}" if check.reason else ""
            yield _change(case, check, f"was {_word(before)}, not checked now{reason}")
    if was is not None:
        now = _checks(case)
        for key, before in _checks(was).items():
            if key not in now and before.outcome != "not_checked":
                yield _change(case, before, f"was {_word(before)}, was not asked for now")


def _change(case: CaseResult, check: CheckResult, words: str) -> Change:
    return Change(case.name, case.target, check.name, words)


def _word(check: CheckResult) -> str:
    return check.outcome.replace("_", " ") if check.outcome != "passed" or not check.red else "passed with findings"


def _why_red(check: CheckResult, found: list[Finding]) -> str:
    """The new findings, or why the check is red."""
    titles = list(dict.fromkeys(f"{finding.rule} at {finding.place}" for finding in found))
    if titles:
        return f"{_word(check)}: {listed(titles, MOST_TITLES)}"
    return f"{_word(check)}: {one_line(check.reason)}" if check.reason else _word(check)


def _new_findings(before: CheckResult | None, check: CheckResult) -> list[Finding]:
    """The findings that count and are more than there were alike before."""
    old = before.findings if before is not None and before.expected is None else ()
    known = Counter(finding.identity for finding in old if finding.counts)
    found = []
    for finding in check.findings:
        if finding.counts and not known[finding.identity]:
            found.append(finding)
        elif finding.counts:
            known[finding.identity] -= 1
    return found


def _surroundings(old: Readiness, new: Readiness) -> Iterator[str]:
    before, after = old.environment, new.environment
    for label, was, now in (
        ("torch", before.torch, after.torch),
        ("exportlint", before.exportlint, after.exportlint),
        ("packages", ", ".join(before.packages), ", ".join(after.packages)),
        ("Python", before.python, after.python),
        ("platform", before.platform, after.platform),
        ("devices", ", ".join(before.devices), ", ".join(after.devices)),
        ("examples", str(before.examples), str(after.examples)),
    ):
        if was != now:
            yield f"{label}: {one_line(str(was))} before, {one_line(str(now))} now"
