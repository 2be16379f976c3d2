"""What a rule is: one kind of portability hazard, with the words that explain it and the proof that it is one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from exportlint.findings import Mode, Outcomes, Result
    from exportlint.fixes.edits import Fix
    from exportlint.source.events import Event
    from exportlint.source.sites import Site

Proof = Literal["capture", "second device", "second call", "surroundings", "reload", "build", "check", "run"]
Stage = Literal["stable", "preview"]
Reach = Literal["capture", "program"]


def outcomes(*, export: Result, strict: Result, compiled: Result) -> Outcomes:
    """What happens in each capture mode."""
    return {"export": export, "export-strict": strict, "compile": compiled}


def observed(found: Result) -> Outcomes:
    """What a check sees in the mode that checks capture in; of the others nothing is known."""
    return {"export": found}


@dataclass(frozen=True, slots=True)
class Match:
    """A place where a rule holds.

    Attributes:
        site: The node to report.
        message: What happens here, in one sentence without a final full stop.
        variant: Name of the variant of the rule; empty for the rule's main form.
        rewrite: The rewrite in the user's own names; the rule's where empty.
        guess: Whether it rests on a guess at which dimensions vary, so that it is advice unless a model case runs it.
        fix: What `exportlint check --fix` writes instead.
        made: Where something was made that may only reach `site` by calls: then the place is the call that hands it
            on, in the function that made it.
    """

    site: Site
    message: str
    variant: str = ""
    rewrite: str = ""
    guess: bool = False
    fix: Fix | None = None
    made: Site | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A form of the hazard that ends otherwise than the rule's main form.

    Attributes:
        outcomes: What happens in each mode.
        bad: A runnable example, as for the rule.
        proof: How to see it; the rule's own way where ``None``.
        advice: Whether a finding is of severity ``info`` in every mode: nothing fails, but it may not be meant.
        changed: What happens from a later release of torch on, by release such as ``2.14``, where that differs. The
            linter goes by `outcomes` where it is not told the release.
    """

    outcomes: Outcomes
    bad: str
    proof: Proof | None = None
    advice: bool = False
    changed: Mapping[str, Outcomes] = field(default_factory=dict)

    def outcomes_in(self, release: tuple[int, int]) -> Outcomes:
        """What happens in each mode with this release of torch, such as ``(2, 14)``."""
        found = self.outcomes
        for since, outcomes in sorted(self.changed.items(), key=lambda item: _release(item[0])):
            if _release(since) <= release:
                found = outcomes
        return found


def _release(words: str) -> tuple[int, int]:
    major, minor = words.split(".")
    return int(major), int(minor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """Two examples that differ by one token of Python, on either side of the hazard's edge."""

    bad: str
    good: str
    variant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observer:
    """A check that would see the hazard in this capture mode, and what must hold for it to see it.

    Attributes:
        check: Name of the check.
        mode: The capture mode.
        precondition: What must hold of the case.
        first_call: Whether it captures a model that was never called, where the hazard may need an earlier call: what
            it sees confirms a prediction, and what it does not see refutes none.
    """

    check: str
    mode: Mode = "export"
    precondition: Literal["", "dynamic dimension"] = ""
    first_call: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One kind of portability hazard.

    Examples are the text of a file after the model-case convention (``build()``, ``inputs()``, ``inputs2()``), since
    the linter imports no torch; the test-suite runs them.

    Attributes:
        code: ``EXP`` and three digits; the first digit is the family.
        name: Kebab-case name, as stable as the code.
        summary: What the hazard is, in one sentence without a final full stop.
        rewrite: The rewrite to show where a finding has no better one of its own.
        page: The explanation, Markdown; the docstring of the rule's file.
        outcomes: What happens in each capture mode; of a rule that only a check can observe, in that of the checks.
        bad: An example in which the rule holds.
        good: A portable example close to it.
        fixed: The bad example rewritten.
        proof: How the suite sees what the outcomes claim: ``check`` runs the first of `observed_by` on the example,
            ``build`` its ``build()``, which saves and loads.
        near: Pairs of near misses.
        variants: Forms that end otherwise, by name.
        advice: Whether a finding is of severity ``info``: nothing fails, but it may not be meant.
        fixed_differs: Why the fixed example computes something else than the bad one, where it is meant to.
        observed_by: The checks that would see the hazard.
        stage: ``stable`` rules are on by default.
        until: The release of torch, such as ``2.6``, that ended the hazard: there are findings only where the oldest
            release that the project runs with is known to be older. Empty where none did.
        reach: Where the rule holds: in code that is captured, or in the program around it, which saves and loads.
        events: The kinds of events that `match` wants.
        match: Yields a `Match` for each place where the rule holds; ``None`` where only a check can observe it.
    """

    code: str
    name: str
    summary: str
    rewrite: str
    page: str
    outcomes: Outcomes
    bad: str
    good: str
    fixed: str
    proof: Proof
    near: tuple[Near, ...] = ()
    variants: Mapping[str, Variant] = field(default_factory=dict)
    advice: bool = False
    fixed_differs: str = ""
    observed_by: tuple[Observer, ...] = ()
    stage: Stage = "stable"
    until: str = ""
    reach: Reach = "capture"
    events: tuple[type[Event], ...] = ()
    match: Callable[[Any], Iterable[Match]] | None = None

    def outcomes_of(self, variant: str, release: tuple[int, int] | None = None) -> Outcomes:
        """The outcomes of a variant, with a release of torch; of the main form where the name is empty.

        Raises:
            KeyError: When the rule has no such variant.
        """
        if not variant:
            return self.outcomes
        found = self.variants[variant]
        return found.outcomes if release is None else found.outcomes_in(release)

    def holds_in(self, oldest: tuple[int, int] | None) -> bool:
        """Whether the hazard is one for a project whose oldest release of torch this is; ``None`` where unknown."""
        return not self.until or (oldest is not None and oldest < _release(self.until))

    def is_advice(self, variant: str) -> bool:
        """Whether a finding of this variant, or of the main form, is of severity ``info`` in every mode.

        Raises:
            KeyError: When the rule has no such variant.
        """
        return self.variants[variant].advice if variant else self.advice
