"""How well the linter foretold what the checks of a run saw, by rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from exportlint.joining import NAME as LINT

if TYPE_CHECKING:
    from exportlint.findings import Readiness

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Score:
    """The lines at which one rule was right or wrong.

    Attributes:
        rule: Code of the rule; ``all`` for the sum.
        confirmed: Lines that were predicted, and at which a check saw it.
        refuted: Lines that were predicted, ran under the check that would see it, and were fine.
        missed: Lines at which a check saw what was not predicted.
        not_exercised: Lines that were predicted and that no check decided.
    """

    rule: str
    confirmed: int = 0
    refuted: int = 0
    missed: int = 0
    not_exercised: int = 0

    @property
    def precision(self) -> float | None:
        """The part of decided predictions that is right; ``None`` where none was decided."""
        decided = self.confirmed + self.refuted
        return self.confirmed / decided if decided else None

    @property
    def recall(self) -> float | None:
        """The part of what was seen that was predicted; ``None`` where nothing was seen."""
        seen = self.confirmed + self.missed
        return self.confirmed / seen if seen else None


def score_card(readiness: Readiness) -> tuple[Score, ...]:
    """The scores by rule, and their sum last; empty where nothing was predicted or missed.

    A line counts once, in however many cases it ran. One that any case confirms is confirmed; one that another refutes
    is not exercised by others. What a check saw in any case is not refuted by another.
    """
    places: dict[str, dict[str, set[Place]]] = {}
    for case in readiness.cases:
        for check in case.checks:
            for finding in check.findings:
                ours = finding.verdict is not None and (check.name == LINT) != (finding.verdict == "missed")
                if ours and finding.severity != "info" and finding.file is not None and finding.line is not None:
                    sets = places.setdefault(finding.rule, {})
                    sets.setdefault(str(finding.verdict), set()).add((finding.file, finding.line))
    scores = [_score(rule, sets) for rule, sets in sorted(places.items())]
    return (*scores, _sum(scores)) if scores else ()


def _score(rule: str, sets: dict[str, set[Place]]) -> Score:
    confirmed, refuted, missed, open_ = (
        sets.get(key, set()) for key in ("confirmed", "refuted", "missed", "not_exercised")
    )
    return Score(
        rule,
        len(confirmed),
        len(refuted - confirmed - missed),
        len(missed - confirmed),
        len(open_ - confirmed - refuted),
    )


def _sum(scores: list[Score]) -> Score:
    return Score(
        "all",
        sum(score.confirmed for score in scores),
        sum(score.refuted for score in scores),
        sum(score.missed for score in scores),
        sum(score.not_exercised for score in scores),
    )


def percent(part: float | None) -> str:
    """``92 %``, or a dash where there is nothing to divide by."""
    return "-" if part is None else f"{part:.0%}".replace("%", " %")
