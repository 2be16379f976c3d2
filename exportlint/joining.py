"""Lay what the linter predicted over what the checks observed.

A prediction is *confirmed* when a check saw the same rule, or one of its family, at the place. It is *refuted* only
when a check that would see it ran to its end, the line ran, the check's precondition held, and nothing was seen there.
Otherwise it was *not exercised*: a table that guesses would publish false precision. What a check saw and no rule
predicted was *missed*.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Mapping  # noqa: TC003 - read at run time, to decode the message of a worker
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exportlint.findings import CheckResult, Finding
from exportlint.places import parsed
from exportlint.rules import catalogue
from exportlint.text import counted, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from exportlint.findings import Mode, Verdict
    from exportlint.rules.base import Observer

NAME = "lint"
CONFIRMED_BY = "confirmed by "  # how the evidence of a confirmed prediction begins
DID_NOT_RUN = "the line did not run"  # the evidence of a prediction about such a line
# Outcomes after which a check has looked at everything that it looks at. A capture that failed stopped at its failure,
# and of a program that holds for some sizes only the others were not tried.
TO_THE_END: Mapping[str, frozenset[str]] = dict.fromkeys(("capture", "compile", "shapes"), frozenset({"passed"}))
BY_DEFAULT = frozenset({"passed", "failed"})
CAPTURES_IN: Mapping[str, Mode] = {"compile": "compile"}  # where that is not the mode export
SEQUENCES = "steps"  # the check whose wrong results over several calls prove lost state
# A device for a block, and what is made in it: one hazard that is predicted at the head, and seen at the tensor.
DEVICE_OF_A_BLOCK = frozenset({"EXP201", "EXP202"})
STATE = "state"  # the check that finds what carried state by what makes results differ, so one may hide another
OF_THE_CASE = frozenset({"EXP603"})  # faults of what a case asks for, which the source of its model does not show
IN_NO_MODE = frozenset({"torchscript"})  # what it sees is of no capture mode that the linter judges


@dataclass(frozen=True, slots=True)
class Exercised:
    """What a run of a case exercised.

    Attributes:
        lines: Lines that ran in the eager call of the example, by file as findings name it.
        dynamic: Whether every dimension of every input that could vary was dynamic, so that any size that the source
            mentions was one.
        sizes: The sizes of inputs that were dynamic, in the user's words, such as ``x.shape[0]``.
    """

    lines: Mapping[str, frozenset[int]]
    dynamic: bool = False
    sizes: frozenset[str] = frozenset()


def join(checks: Sequence[CheckResult], predicted: Iterable[Finding], exercised: Exercised) -> tuple[CheckResult, ...]:
    """The checks of a case with the check ``lint`` added, and with verdicts on the findings of all.

    Args:
        checks: What the other checks observed.
        predicted: What the linter found in the files that ran; each names its file as the checks do.
        exercised: What the run exercised.
    """
    predicted = tuple(predicted)
    observed = [(check, finding) for check in checks for finding in check.findings if _is_judged(check, finding)]
    predictions = []
    hit: set[int] = set()
    for prediction in predicted:
        seen = [pair for pair in observed if same_place(prediction, pair[1]) or _parts_there(prediction, *pair)]
        seen = seen or _seen_in_block(prediction, predicted, observed)
        hit |= {id(finding) for _, finding in seen}
        verdict, evidence = _verdict(prediction, seen, checks, exercised)
        # The user cannot edit the line, and no check of this case could have seen whether it matters.
        severity = "info" if prediction.library and verdict == "not_exercised" else prediction.severity
        joined = dataclasses.replace(prediction, verdict=verdict, evidence=evidence, severity=severity)
        predictions.append(joined)
    return (*(_marked(check, hit) for check in checks), _lint_result(predictions, exercised))


def modes_of(checks: Iterable[str]) -> tuple[Mode, ...]:
    """The capture modes that these checks capture in; that of the export in any case."""
    return tuple(dict.fromkeys(("export", *(CAPTURES_IN[name] for name in checks if name in CAPTURES_IN))))


def same_place(prediction: Finding, finding: Finding) -> bool:
    """Whether two findings are about one hazard: of one family, on common lines of one file."""
    if prediction.file != finding.file or prediction.line is None or finding.line is None:
        return False
    if family(prediction.rule) != family(finding.rule):
        return False
    return finding.line <= (prediction.end_line or prediction.line) and prediction.line <= (
        finding.end_line or finding.line
    )


def _parts_there(prediction: Finding, check: CheckResult, finding: Finding) -> bool:
    """Whether the program parts from the model over several calls where state is predicted to be lost."""
    wrong = check.name == SEQUENCES and finding.rule == "EXP004"
    return wrong and _is_state(prediction) and same_place(dataclasses.replace(prediction, rule="EXP004"), finding)


def _seen_in_block(
    prediction: Finding, predicted: Sequence[Finding], observed: Sequence[tuple[CheckResult, Finding]]
) -> list[tuple[CheckResult, Finding]]:
    """What was seen of the tensors that a predicted ``with torch.device(...)`` places, and is not predicted itself."""
    end = _end_of_block(prediction) if prediction.rule in DEVICE_OF_A_BLOCK else None
    if end is None:
        return []
    whole = dataclasses.replace(prediction, end_line=end)
    own = [other for other in predicted if other is not prediction]
    return [
        (check, finding)
        for check, finding in observed
        if finding.rule in DEVICE_OF_A_BLOCK
        and same_place(whole, finding)
        and not any(same_place(other, finding) for other in own)
    ]


def _end_of_block(prediction: Finding) -> int | None:
    """The last line of the ``with`` whose head a prediction is about; ``None`` where there is none."""
    tree, line = parsed(prediction.file) if prediction.file else None, prediction.line
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, (ast.With, ast.AsyncWith)):
            heads = [item.context_expr for item in node.items]
            if line is not None and any(head.lineno <= line <= (head.end_lineno or head.lineno) for head in heads):
                return node.end_lineno
    return None


def _is_state(prediction: Finding) -> bool:
    return family(prediction.rule) == "EXP5" or prediction.rule == "EXP302"


def family(code: str) -> str:
    """``EXP1`` for ``EXP101``."""
    return code[:4]


def _is_judged(check: CheckResult, finding: Finding) -> bool:
    """Whether a finding is an observation of what the linter predicts, if it can."""
    return check.name not in IN_NO_MODE and finding.severity != "info" and finding.line is not None


def _verdict(
    prediction: Finding,
    seen: list[tuple[CheckResult, Finding]],
    checks: Sequence[CheckResult],
    exercised: Exercised,
) -> tuple[Verdict, str | None]:
    if seen:
        names = ", ".join(dict.fromkeys(check.name for check, _ in seen))
        return "confirmed", f"{CONFIRMED_BY}{names}"
    if not _ran(prediction, exercised):
        return "not_exercised", DID_NOT_RUN
    by_name = {check.name: check for check in checks}
    sequences = by_name.get(SEQUENCES)
    if _is_state(prediction) and sequences is not None and any(f.rule == "EXP004" for f in sequences.findings):
        return "not_exercised", f"{SEQUENCES} saw the program part from the model over several calls, at another line"
    rule = catalogue().get(prediction.rule)
    missing = []
    for number, observer in enumerate(rule.observed_by if rule is not None else ()):
        check = by_name.get(observer.check)
        if check is not None and _untried(prediction, check):
            return "not_exercised", f"{check.name} could not try all that may happen there"
        if prediction.outcomes.get(observer.mode) == "fine" or (check is None and number):
            continue  # nothing is predicted for it, or it is a further one that nobody asked for
        reason = _why_blind(observer, check, prediction, exercised)
        if reason is None:
            return "refuted", f"the line ran, and {observer.check} saw nothing wrong there"
        missing.append(reason)
    return "not_exercised", "; ".join(dict.fromkeys(missing)) or f"no check observes {prediction.rule}"


def _why_blind(observer: Observer, check: CheckResult | None, prediction: Finding, exercised: Exercised) -> str | None:
    """Why a check would not have seen the hazard on a line that ran; ``None`` where it would."""
    if check is None:
        return f"{observer.check} was not run"
    if (partly := _why_partly(check)) is not None:
        return partly
    if observer.mode != CAPTURES_IN.get(check.name, "export"):
        return f"{check.name} does not capture in the mode {observer.mode}"
    if observer.precondition and (static := _why_static(check.name, prediction, exercised)):
        return static
    after = "captures a model that was not called before, and this shows after an earlier call"
    return f"{check.name} {after}" if observer.first_call else None


def _why_partly(check: CheckResult) -> str | None:
    """Why a check did not see all that it may see; ``None`` where it did."""
    if check.outcome not in TO_THE_END.get(check.name, BY_DEFAULT):
        ended = {"failed": "stopped at a failure"}.get(check.outcome, check.outcome.replace("_", " "))
        return f"{check.name}: {ended}"
    if check.name == STATE and _blames_state(check):
        return f"{STATE} blamed another line, which may hide this one"
    return None if check.numbers or check.name == "capture" else f"{check.name} had no numbers to check"


def _blames_state(check: CheckResult) -> bool:
    """Whether a check found state that the program lost or baked: what it blames first may hide further lines."""
    return any(f.counts and (_is_state(f) or f.rule == "EXP303") for f in check.findings)


def _why_static(check: str, prediction: Finding, exercised: Exercised) -> str | None:
    """Which of the sizes that a prediction is about did not vary; ``None`` where each did."""
    if exercised.dynamic:
        return None
    if not prediction.sizes:
        return f"{check} ran, and not every dimension was dynamic"
    fixed = sorted(set(prediction.sizes) - exercised.sizes)
    were = "was" if len(fixed) == 1 else "were"
    return f"{check} ran, and {listed(fixed, 3)} {were} not dynamic" if fixed else None


def _untried(prediction: Finding, check: CheckResult) -> bool:
    """Whether the check says of this rule, at the place, that it saw the cause and could not try what it may do."""
    return any(
        found.rule == prediction.rule and found.severity == "info" and not found.outcomes
        for found in check.findings
        if same_place(prediction, found)
    )


def _ran(prediction: Finding, exercised: Exercised) -> bool:
    lines = exercised.lines.get(prediction.file or "", frozenset())
    first = prediction.line or 0
    return any(line in lines for line in range(first, (prediction.end_line or first) + 1))


def _marked(check: CheckResult, hit: set[int]) -> CheckResult:
    def mark(finding: Finding) -> Finding:
        rule = catalogue().get(finding.rule)
        if not _is_judged(check, finding) or rule is None or family(rule.code) == "EXP0" or rule.code in OF_THE_CASE:
            return finding
        return dataclasses.replace(finding, verdict="confirmed" if id(finding) in hit else "missed")

    return dataclasses.replace(check, findings=tuple(map(mark, check.findings)))


def _lint_result(predictions: list[Finding], exercised: Exercised) -> CheckResult:
    counting = [finding for finding in predictions if finding.counts]
    reason = counting[0].message if counting else counted(len(exercised.lines), "file")
    return CheckResult(
        name=NAME, outcome="failed" if counting else "passed", reason=reason, findings=tuple(predictions)
    )
