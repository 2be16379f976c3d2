"""Which guards narrow a dimension that should be dynamic, and the findings for them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from exportlint import blame
from exportlint.shapes import advice, conditions
from exportlint.shapes.kinds import Kind, kind_of, merged
from exportlint.text import said
from exportlint.torch_hooks.guards import user_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from exportlint.findings import Finding, Result
    from exportlint.places import Place
    from exportlint.shapes.contract import Contract
    from exportlint.torch_hooks.guards import Guard

# What a line does by the kind of its guard. Of several guards of the same sizes at a line, the first kind tells most.
DOES: dict[Kind, str] = {
    "pinned": "pins a dynamic size to a constant",
    "equal": "makes two sizes equal",
    "divisible": "binds dynamic sizes",
    "bounded": "bounds a dynamic size",
    "counted": "fixes the number of parts of a dynamic size",
    "bound": "binds dynamic sizes",
    "unequal": "tells one size apart",
    "apart": "tells one size apart",
}
UNSEEN = "asks for what holds for every size, which torch does not see"
TELLING = tuple(DOES)
SOURCE = re.compile(r"L\[[^\]]+\][^\s,()]*?\.size\(\)\[\d+\]")
PATH = re.compile(r"inputs((?:\[[^\]]+\]|\.\w+)+)\.shape\[(\d+)\]")  # the same in what is said of hints
NAMED = re.compile(r"(?:You marked|values of) ([^=\n]+?) (?:as dynamic|= L\[)")
MOST_GUARDS = 5  # that are quoted of one size
MOST_CLAUSES = 4  # of what one finding says of several sizes
MOST_REWRITES = 2
# torch's words for what it refuses, and the kinds of guards that can be meant; the first that matches counts.
WORDS: tuple[tuple[re.Pattern[str], frozenset[Kind]], ...] = (
    (re.compile("specialized it to be a constant|inferred a static shape"), frozenset({"pinned"})),
    (re.compile("0/1 specialized"), frozenset()),
    (re.compile("must always be equal|inferred to be equal"), frozenset({"equal", "bound"})),
    (re.compile("must always be related"), frozenset({"bound", "equal"})),
    (re.compile("generated guard.*!="), frozenset({"unequal", "apart", "bound"})),
    (re.compile("generated guard.*%.*=="), frozenset({"divisible", "bound"})),
    (re.compile("generated guard.*=="), frozenset({"divisible", "bound", "counted", "pinned"})),
    (re.compile("generated guard"), frozenset({"bounded", "bound", "divisible", "counted"})),
    (re.compile("user-specified min/max range"), frozenset({"bounded", "counted"})),
)
ADVICE = re.compile(r" If you're using mark_dynamic.*$")  # torch's, for another interface
GUARD = re.compile(r"^(.*satisfy the generated guard) (.*?)\.?$")
HEADLESS = "the export is refused here: what the program is captured for is narrower than what is asked"
SMALL = "torch takes a size of 0 or 1 in the example for a constant"
LARGER = "Export from an example in which the size is 2 or more."


def say(guard: Guard) -> str:
    """What happens at the guard's line, in one sentence."""
    does = UNSEEN if conditions.always(guard.expression) else DOES[kind_of(guard)]
    return f"this line {does}: {conditions.words(guard)}"


def of_refusal(
    guards: Sequence[Guard],
    error: BaseException,
    outcome: Result,
    *,
    contract: Contract | None = None,
    head: Place | None = None,
) -> tuple[Finding, ...]:
    """Findings for an export that was refused since guards narrow dimensions that were declared dynamic.

    Every violation that torch lists is matched with the guards of its kind; those at one line are one finding, which
    names each size. What no guard explains is a finding at the head of the model.

    Args:
        guards: The guards of the export.
        error: What it raised.
        outcome: What the refusal means: the capture that was asked for breaks, or it holds for fewer sizes.
        contract: What was asked, for the names of dimensions.
        head: Where the model begins.
    """
    names, kin = _names(contract), _kin(contract)
    found: list[tuple[tuple[Any, ...], Finding, frozenset[str]]] = []
    for line, evidence in _violations(said(error)):
        kinds = next(kinds for pattern, kinds in WORDS if pattern.search(line))
        sources = _sources(line, names)
        meant = _meant(guards, kinds, sources, kin)
        for guard in meant:
            rule = blame.size_rule(guard.place)
            rewrite = advice.of_guard(guard)
            finding = blame.finding(
                rule, say(guard), guard.place, outcome=outcome, rewrite=rewrite, evidence=named(evidence, guards)
            )
            rank = (0, guard.place, TELLING.index(kind_of(guard)), conditions.obscurity(guard))
            found.append((rank, finding, frozenset(sources or guard.sources.values())))
        if not meant:
            unexplained = _unexplained(line, sources, head, outcome, named(evidence, guards))
            found.append(((1,), unexplained, frozenset(sources or {line})))
    found.sort(key=lambda ranked: ranked[0])
    return joined((finding, sizes) for _, finding, sizes in found)


def _violations(text: str) -> Iterator[tuple[str, str]]:
    """What torch refuses, a line each, and what to quote: all generated guards of the same sizes together."""
    lines = [line.strip(" -") for line in text.splitlines() if line.lstrip().startswith("- ")]
    lines = [ADVICE.sub("", line) for line in lines if any(pattern.search(line) for pattern, _ in WORDS)]
    guards: dict[str, list[str]] = {}
    for match in filter(None, map(GUARD.match, lines)):
        guards.setdefault(match[1], []).append(match[2])
    for line in lines:
        said = GUARD.match(line)
        same = guards[said[1]] if said is not None else []
        more = [f"and {len(same) - MOST_GUARDS} more"] if len(same) > MOST_GUARDS else []
        quoted = f"{said[1]}s {'; '.join([*same[:MOST_GUARDS], *more])}" if said is not None and same[1:] else line
        yield line, user_words(PATH.sub(r"L\1.size()[\2]", quoted))


def named(text: str, guards: Sequence[Guard]) -> str:
    """What torch says, in the user's names for its symbols."""
    names = {symbol: user_words(source) for guard in guards for symbol, source in guard.sources.items()}
    return re.sub(r"\bs\d+\b", lambda found: names.get(found[0], found[0]), text)


def _unexplained(line: str, sources: set[str], head: Place | None, outcome: Result, evidence: str) -> Finding:
    """The finding for a violation that no line of the model explains."""
    if re.search(r"0/1 specialized|constant \([01]\)", line):
        message = "; ".join(f"{SMALL}: {user_words(source)}" for source in sorted(sources)) or SMALL
        return blame.finding("EXP301", message, head, outcome=outcome, rewrite=LARGER, evidence=evidence)
    return blame.finding("EXP301", HEADLESS, head, outcome=outcome, evidence=evidence)


def _names(contract: Contract | None) -> dict[str, set[str]]:
    """The sizes of each name, by torch's words for them."""
    found: dict[str, set[str]] = {}
    for leaf, d, ask in contract.asked if contract is not None else ():
        if ask.name:
            found.setdefault(ask.name, set()).add(leaf.size(d))
    return found


def _kin(contract: Contract | None) -> dict[str, set[str]]:
    """The sizes that follow each `Dim`, as `2 * b` follows `b`, by torch's words for them."""
    found: dict[str, set[str]] = {}
    for leaf, d, ask in contract.asked if contract is not None else ():
        if ask.variable:
            found.setdefault(ask.variable, set()).add(leaf.size(d))
    return found


def _sources(line: str, names: Mapping[str, set[str]]) -> set[str]:
    """The sizes that a violation is about."""
    found = set(SOURCE.findall(line))
    found |= {f"L{path}.size()[{d}]" for path, d in PATH.findall(line)}
    return found or {source for name in NAMED.findall(line) for source in names.get(name.strip(), ())}


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
    rewrites = list(dict.fromkeys(finding.rewrite for finding in findings if finding.rewrite))
    more = [f"and {len(clauses) - MOST_CLAUSES} more"] if len(clauses) > MOST_CLAUSES else []
    evidence = "; ".join(seen[:MOST_CLAUSES]) or None
    return replace(
        findings[0],
        message="; ".join([*list(clauses)[:MOST_CLAUSES], *more]),
        rewrite=" ".join(rewrites[:MOST_REWRITES]) or None,
        evidence=evidence,
    )


def _meant(
    guards: Sequence[Guard], kinds: frozenset[Kind], sources: set[str], kin: Mapping[str, set[str]]
) -> list[Guard]:
    """The guards that a violation can be about: of its kinds, and over its sizes where it names them."""
    live = [guard for guard in guards if not guard.deferred and guard.place is not None]
    of_kind = [guard for guard in live if kind_of(guard) in kinds]
    if not sources:
        return of_kind
    same = [guard for guard in of_kind if sources == set(guard.sources.values())]
    if not same:  # torch may name a size that others were found to be equal to
        one = merged(guards)
        wanted = {one.get(source, source) for source in sources}
        same = [g for g in of_kind if wanted == {one.get(source, source) for source in g.sources.values()}]
    about = [guard for guard in of_kind if sources & set(guard.sources.values())]
    if same or about or not kinds:
        return same or about
    found = _meant_of_kin(guards, kinds, sources, kin)
    if found:
        return found
    return [guard for guard in live if sources & set(guard.sources.values()) and not _is_declared(guard, kin)]


def _meant_of_kin(
    guards: Sequence[Guard], kinds: frozenset[Kind], sources: set[str], kin: Mapping[str, set[str]]
) -> list[Guard]:
    """The guards that narrow a size which others follow, such as ``b`` where ``2*b`` is violated."""
    wider = set().union(*(same for same in kin.values() if same & sources))
    live = (guard for guard in guards if not guard.deferred and guard.place is not None and kind_of(guard) in kinds)
    return [guard for guard in live if wider & set(guard.sources.values())]


def _is_declared(guard: Guard, kin: Mapping[str, set[str]]) -> bool:
    """Whether a guard makes equal what follows one `Dim`."""
    sizes = set(guard.sources.values())
    return kind_of(guard) == "equal" and any(sizes <= same for same in kin.values())
