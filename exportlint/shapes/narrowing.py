"""Which guards narrow a dimension that should be dynamic, and the findings for them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from exportlint import blame
from exportlint.torch_hooks.guards import user_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from exportlint.findings import Finding, Result
    from exportlint.torch_hooks.guards import Guard

Kind = Literal["pinned", "bounded", "divisible", "equal", "bound", "unequal"]

SOURCE = re.compile(r"L\[[^\]]+\][^\s,()]*?\.size\(\)\[\d+\]")
MOST_CLAUSES = 4  # of what one finding says of several sizes
# torch's words for what it refuses, and the kinds of guards that can be meant.
WORDS: tuple[tuple[str, frozenset[Kind]], ...] = (
    ("specialized it to be a constant", frozenset({"pinned"})),
    ("must always be equal", frozenset({"equal"})),
    ("%", frozenset({"divisible", "bound"})),
    ("satisfy the generated guard", frozenset({"bounded", "bound", "divisible"})),
)


def kind_of(guard: Guard) -> Kind:
    """What a guard does to the sizes in it.

    ``pinned`` to a number, ``bounded`` by one, ``divisible``, ``equal`` to another size, ``bound`` by any other
    equation (every dimension can look symbolic and still be bound), or merely ``unequal``.
    """
    expression, symbols = guard.expression, guard.expression.free_symbols
    relation = getattr(expression, "rel_op", None)
    if relation == "!=":
        return "unequal"
    if relation == "==":
        if "Mod(" in str(expression) or "//" in str(expression):
            return "divisible" if len(symbols) == 1 else "bound"
        if len(symbols) == 1:
            return "pinned"
        return "equal" if expression.lhs.is_Symbol and expression.rhs.is_Symbol else "bound"
    return "bounded" if len(symbols) == 1 else "bound"


def say(guard: Guard) -> str:
    """What happens at the guard's line, in one sentence."""
    kind, text = kind_of(guard), guard.text
    if kind == "pinned":
        return f"this line pins a dynamic size to a constant: {text}"
    if kind == "equal":
        return f"this line makes two sizes equal: {text}"
    if kind == "bounded":
        return f"this line bounds a dynamic size: {text}"
    return f"this line binds dynamic sizes: {text}"


def of_refusal(guards: Sequence[Guard], error: BaseException, outcome: Result) -> tuple[Finding, ...]:
    """Findings for an export that was refused since guards narrow dimensions that were declared dynamic.

    Every violation that torch lists is matched with the guards of its kind; those at one line are one finding, which
    names each size.

    Args:
        guards: The guards of the export.
        error: What it raised.
        outcome: What the refusal means: the capture that was asked for breaks, or it holds for fewer sizes.
    """
    findings: list[tuple[Finding, frozenset[str]]] = []
    for line in str(error).splitlines():
        kinds = next((kinds for words, kinds in WORDS if words in line), None)
        if kinds is None:
            continue
        for guard in _meant(guards, kinds, set(SOURCE.findall(line))):
            rule, evidence = blame.size_rule(guard.place), user_words(line.strip(" -"))
            found = blame.finding(rule, say(guard), guard.place, outcome=outcome, evidence=evidence)
            findings.append((found, frozenset(guard.sources.values())))
    return joined(findings)


def joined(found: Iterable[tuple[Finding, frozenset[str]]]) -> tuple[Finding, ...]:
    """One finding for each rule, line and severity, which says what each says of other sizes than those before it.

    Args:
        found: Findings, each with the sizes that it is about; where these are not known, one at a line is enough.
    """
    groups: dict[tuple[Any, ...], tuple[list[Finding], set[str]]] = {}
    for finding, sizes in found:
        same, covered = groups.setdefault((finding.rule, finding.file, finding.line, finding.severity), ([], set()))
        if not same or not sizes <= covered:
            same.append(finding)
            covered |= sizes
    return tuple(_one(same) for same, _ in groups.values())


def _one(findings: Sequence[Finding]) -> Finding:
    """The first finding with the messages and the evidence of all; clauses that all have are said once."""
    clauses = dict.fromkeys(clause for finding in findings for clause in finding.message.split("; "))
    seen = list(dict.fromkeys(finding.evidence for finding in findings if finding.evidence))
    more = [f"and {len(clauses) - MOST_CLAUSES} more"] if len(clauses) > MOST_CLAUSES else []
    evidence = "; ".join(seen[:MOST_CLAUSES]) or None
    return replace(findings[0], message="; ".join([*list(clauses)[:MOST_CLAUSES], *more]), evidence=evidence)


def _meant(guards: Iterable[Guard], kinds: frozenset[Kind], sources: set[str]) -> list[Guard]:
    """The guards that a violation can be about: of its kinds, and over its sizes where it names them."""
    of_kind = [guard for guard in guards if not guard.deferred and guard.place is not None and kind_of(guard) in kinds]
    about = [guard for guard in of_kind if sources & set(guard.sources.values())]
    return about or of_kind
