"""The examples of all rules, as the tests of this folder run them."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from exportlint.findings import MODES, Outcomes
from exportlint.rules import catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.rules.base import Proof, Rule

MAJOR, MINOR = importlib.metadata.version("torch").split(".")[:2]
RELEASE = int(MAJOR), int(MINOR)
FINE: Outcomes = dict.fromkeys(MODES, "fine")  # type: ignore[arg-type]


@dataclass(frozen=True)
class Case:
    """An example of a rule, what it is to show and how to see it.

    Attributes:
        id: What tests and results name it by.
        rule: The rule.
        source: The text of the example.
        wanted: The outcomes to see; of a check's proof those of the finding, so that none stands for no finding.
        proof: How to see them.
        variant: The rule's variant; empty for its main form.
        bad: Whether the rule holds there.
        like: The bad example that computes the same, of a fixed one.
    """

    id: str
    rule: Rule
    source: str
    wanted: Outcomes
    proof: Proof
    variant: str = ""
    bad: bool = False
    like: str | None = None

    @property
    def oldest(self) -> tuple[int, int] | None:
        """A release of torch that has the hazard, where a later one has not."""
        return (2, 0) if self.rule.until else None

    @property
    def check(self) -> str:
        """The check that is the proof."""
        return self.rule.observed_by[0].check


def cases() -> list[Case]:
    """Every example of every rule."""
    return [case for rule in catalogue().values() for case in _of(rule)]


def _of(rule: Rule) -> Iterator[Case]:
    for case in _all_of(rule):
        seen = {mode: outcome for mode, outcome in case.wanted.items() if mode == "export"}  # checks export
        yield replace(case, wanted=seen) if case.proof == "check" else case


def _all_of(rule: Rule) -> Iterator[Case]:
    proof = rule.proof
    fine: Outcomes = {} if proof == "check" else FINE
    yield Case(f"{rule.code} bad", rule, rule.bad, rule.outcomes, proof, bad=True)
    yield Case(f"{rule.code} good", rule, rule.good, fine, proof)
    yield Case(f"{rule.code} fixed", rule, rule.fixed, fine, proof, like=rule.bad)
    for name, variant in rule.variants.items():
        wanted = variant.outcomes_in(RELEASE)
        yield Case(f"{rule.code} {name}", rule, variant.bad, wanted, variant.proof or proof, name, bad=True)
    for i, near in enumerate(rule.near):
        wanted = rule.variants[near.variant].outcomes_in(RELEASE) if near.variant else rule.outcomes
        kind = (rule.variants[near.variant].proof if near.variant else None) or proof
        yield Case(f"{rule.code} near {i} bad", rule, near.bad, wanted, kind, near.variant, bad=True)
        yield Case(f"{rule.code} near {i} good", rule, near.good, fine, kind)
