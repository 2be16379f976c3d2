"""Which way the conditions of the user's source went in eager calls.

Lines do not tell which way a condition on one line went, so the conditional jumps of the bytecode are watched. Each is
found in the source by its position; where Python keeps none (3.10) by its line, if that holds no other condition.
"""

from __future__ import annotations

import ast
import contextlib
import dis
import functools
import re
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from exportlint import places
from exportlint.places import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import CodeType, FrameType

    Position = tuple[int, int, int, int]  # first and last line, first column and the one behind the last

T = TypeVar("T")

MOST_CHARACTERS = 40  # of a condition that is quoted
# Instructions between what computes a condition and the jump.
BETWEEN = frozenset({"TO_BOOL", "COPY", "CACHE", "EXTENDED_ARG", "NOP", "DUP_TOP"})
CALLS = 3 if sys.version_info >= (3, 12) else 1  # of a function that is watched
CAPTURING = re.compile(r"\bis_(exporting|compiling|dynamo_compiling|tracing)\(")  # never true in an eager call
SUBJECT, PATTERN = -1, -2  # parts of a match that are no case's body


@dataclass(frozen=True, slots=True, order=True)
class Branch:
    """A condition, or a case of a ``match``.

    Attributes:
        place: Its line.
        column: Where it begins there.
        ways: What to say where it was always true, and where it was always false.
    """

    place: Place
    column: int
    ways: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Condition:
    """What a jump may decide on.

    Attributes:
        branch: Whose condition it is.
        negated: Whether it is true where that is false.
        on_none: Of ``x is None`` and ``x is not None`` whether it is true for ``None``.
        chained: Whether it has several comparisons, each with a jump.
    """

    branch: Branch
    negated: bool
    on_none: bool
    chained: bool


@dataclass(frozen=True, slots=True)
class Jump:
    """A conditional jump: what it decides, where it leads, and what is true where it jumps, or where it does not."""

    branch: Branch
    target: int
    jumping: bool | None
    passing: bool | None


@dataclass(frozen=True, slots=True)
class Match:
    """A ``match``: its cases but those that take everything, and which part of it each instruction belongs to."""

    cases: tuple[Branch | None, ...]
    parts: Mapping[int, int]


@dataclass
class Branches:
    """The conditions that calls came to, each with the ways that they went.

    Attributes:
        taken: By the branch: whether it was true, and whether it was false.
        calls: How many calls were watched.
    """

    taken: dict[Branch, set[bool]] = field(default_factory=dict)
    calls: int = 0
    _seen: set[CodeType] = field(default_factory=set)

    @property
    def settled(self) -> bool:
        """Whether every condition that calls came to went both ways."""
        return all(len(ways) == 2 for ways in self.taken.values())

    def watch(self, function: Callable[[], Any]) -> None:
        """Call a function and note which way each condition goes; what it raises is ignored.

        From Python 3.12 on code tells its opcodes from the second call on that asks for them, so it is called again.
        """
        self.calls += 1
        for _ in range(CALLS):
            before = len(self._seen)
            with contextlib.suppress(Exception):
                self._traced(function)
            if len(self._seen) == before:
                return

    def once(self, function: Callable[[], T]) -> T:
        """Call a function once, note which way each condition goes, and return its result.

        Raises:
            Exception: What the function raises.
        """
        self.calls += 1
        return self._traced(function)

    def _traced(self, function: Callable[[], T]) -> T:
        previous = sys.gettrace()
        sys.settrace(self._on_call)
        try:
            return function()
        finally:
            sys.settrace(previous)

    def one_way(self) -> list[tuple[Place, str]]:
        """The conditions that went one way only, with that way in words."""
        found = [(branch, next(iter(ways))) for branch, ways in sorted(self.taken.items()) if len(ways) == 1]
        return [(branch.place, branch.ways[0 if way else 1]) for branch, way in found]

    def _on_call(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if event != "call" or not places.is_users(code.co_filename) or places.is_installed(code.co_filename):
            return None
        jumps, matches = _jumps(code), _matches(code)
        if not jumps and not matches:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self._seen.add(code)
        waiting: list[Jump] = []
        inside: list[Match] = []

        def on_opcode(frame: FrameType, event: str, _: Any) -> Any:
            at = frame.f_lasti if event == "opcode" else -1
            if event == "exception":
                waiting.clear()
                inside.clear()
            elif waiting and at >= 0:
                jump = waiting.pop()
                self._note(jump.branch, jump.jumping if at == jump.target else jump.passing)
            if at in jumps:
                waiting.append(jumps[at])
            if matches and event in ("opcode", "return"):
                self._in_matches(matches, inside, at)
            return on_opcode

        return on_opcode

    def _note(self, branch: Branch, way: bool | None) -> None:
        if way is not None:
            self.taken.setdefault(branch, set()).add(way)

    def _in_matches(self, matches: tuple[Match, ...], inside: list[Match], at: int) -> None:
        """Note which case was taken where an instruction lies in its body, or behind all of them."""
        for match in [match for match in inside if match.parts.get(at, len(match.cases)) >= 0]:
            inside.remove(match)
            taken = match.parts.get(at, len(match.cases))
            for number, case in enumerate(match.cases[: taken + 1]):
                if case is not None:
                    self._note(case, number == taken)
        inside += [match for match in matches if match.parts.get(at) == SUBJECT and match not in inside]


def parting(first: Callable[[], Any], second: Callable[[], Any]) -> Place | None:
    """The line of the first condition that went another way in the second of two calls; ``None`` where none did.

    Two calls may run the same lines and part within one, as in ``x - x.mean(0) if len(x) > 1 else x``.
    """
    watched = (Branches(), Branches())
    for branches, function in zip(watched, (first, second), strict=True):
        branches.watch(function)
    before, after = (branches.taken for branches in watched)
    return next((branch.place for branch, ways in after.items() if before.get(branch, ways) != ways), None)


@functools.lru_cache(maxsize=1024)
def _jumps(code: CodeType) -> dict[int, Jump]:
    """The jumps of a code object that decide a condition of the source, by their offsets."""
    conditions, _ = _of_file(code.co_filename)
    positions = _positions(code)
    found: dict[int, tuple[Condition, dis.Instruction]] = {}
    before: list[int] = []  # what computes the condition, and what follows it up to the jump
    for here in dis.get_instructions(code):
        before = [*before, here.offset] if here.opname in BETWEEN or _is_conditional(here) else [here.offset]
        if _is_conditional(here):
            told = (conditions.get(positions[offset]) for offset in before)
            condition = next((condition for condition in told if condition is not None), None)
            if condition is not None:
                found[here.offset] = condition, here
    lasts = {condition: offset for offset, (condition, _) in found.items()}
    return {o: _jump(condition, here, last=lasts[condition] == o) for o, (condition, here) in found.items()}


def _is_conditional(here: dis.Instruction) -> bool:
    return "JUMP" in here.opname and "_IF_" in here.opname


def _jump(condition: Condition, here: dis.Instruction, *, last: bool) -> Jump:
    name = here.opname
    truth = condition.on_none != ("NOT_NONE" in name) if "NONE" in name else "IF_TRUE" in name
    ways: dict[bool, bool | None] = {way: way != condition.negated for way in (True, False)}
    if condition.chained and not last:  # 0 < x < 5 is not true yet where 0 < x is
        ways[True] = None
    return Jump(condition.branch, here.argval, ways[truth], ways[not truth])


def _positions(code: CodeType) -> dict[int, Position | int]:
    """The position of each instruction in the source; its line, where Python keeps no more."""
    if not hasattr(code, "co_positions"):
        starts = {offset: line for first, last, line in code.co_lines() for offset in range(first, last, 2)}
        return {offset: line or 0 for offset, line in starts.items()}
    return {2 * i: position for i, position in enumerate(code.co_positions())}


@functools.lru_cache(maxsize=1024)
def _matches(code: CodeType) -> tuple[Match, ...]:
    """The ``match`` statements of a code object."""
    found = []
    for node, cases in _of_file(code.co_filename)[1]:
        parts: dict[int, int] = {}
        for offset, position in _positions(code).items():
            if not isinstance(position, tuple):
                continue
            if None in position:  # Python's own, anywhere
                parts[offset] = PATTERN
            elif _within(position, node):
                parts[offset] = SUBJECT if _within(position, node.subject) else _case_of(position, node)
        if SUBJECT in parts.values():
            found.append(Match(cases, parts))
    return tuple(found)


def _case_of(position: Position, node: ast.Match) -> int:
    """The case in whose body a position lies."""
    bodies = ((i, statement) for i, case in enumerate(node.cases) for statement in case.body)
    return next((i for i, statement in bodies if _within(position, statement)), PATTERN)


def _within(position: Position, node: ast.AST) -> bool:
    first, last, left, right = _position(node)
    return (first, left) <= (position[0], position[2]) and (position[1], position[3]) <= (last, right)


def _position(node: Any) -> Position:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


@functools.lru_cache(maxsize=64)
def _of_file(file: str) -> tuple[dict[Any, Condition], list[tuple[ast.Match, tuple[Branch | None, ...]]]]:
    """The conditions of a file by their positions, and by lines that hold one only; then its ``match`` statements."""
    tree = places.parsed(file)
    if tree is None:
        return {}, []
    conditions: dict[Any, Condition] = {}
    lines: dict[int, list[Condition]] = {}
    asserted = {id(node) for found in ast.walk(tree) if isinstance(found, ast.Assert) for node in ast.walk(found)}
    for node in ast.walk(tree):
        for leaf, negated, words in () if id(node) in asserted else _leaves_of(node):
            if CAPTURING.search(ast.unparse(leaf)):
                continue
            plain, inverted = _condition(file, leaf, negated, words)
            if conditions.setdefault(_position(leaf), plain) is plain:
                lines.setdefault(leaf.lineno, []).append(plain)
            for outer in negated:
                conditions.setdefault(_position(outer), inverted if len(negated) % 2 else plain)
    conditions.update({line: found[0] for line, found in lines.items() if len(found) == 1})
    matches = [node for node in ast.walk(tree) if isinstance(node, ast.Match)]
    return conditions, [(node, tuple(_case(file, case) for case in node.cases)) for node in matches]


def _case(file: str, case: ast.match_case) -> Branch | None:
    """The branch of a case; none of one that takes everything."""
    pattern = case.pattern
    if case.guard is None and isinstance(pattern, ast.MatchAs) and pattern.pattern is None:
        return None
    ways = (f"always case {_quoted(pattern)}", f"never case {_quoted(pattern)}")
    return Branch(Place(file, pattern.lineno), pattern.col_offset, ways)


def _condition(file: str, leaf: ast.expr, negated: list[ast.expr], words: bool) -> tuple[Condition, Condition]:
    """The condition that a leaf is, and the opposite one."""
    ways = (f"{_quoted(leaf)} always true", f"{_quoted(leaf)} always false")
    if words:
        ways = ("always passed by", "always entered") if len(negated) % 2 else ("always entered", "always passed by")
    branch = Branch(Place(file, leaf.lineno), leaf.col_offset, ways)
    operators = leaf.ops if isinstance(leaf, ast.Compare) else []
    on_none, chained = bool(operators) and isinstance(operators[0], ast.Is), len(operators) > 1
    return Condition(branch, False, on_none, chained), Condition(branch, True, on_none, chained)


def _quoted(node: ast.AST) -> str:
    text = ast.unparse(node)
    return f"`{text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 3] + '...'}`"


def _leaves_of(node: ast.AST) -> Iterator[tuple[ast.expr, list[ast.expr], bool]]:
    """What a node decides on: each part, the negations around it, and whether it alone decides a statement's body."""
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        leaves = list(_leaves(node.test, []))
        alone = len(leaves) == 1 and not isinstance(node, ast.IfExp)
        yield from ((leaf, negated, alone) for leaf, negated in leaves)
    elif isinstance(node, ast.comprehension):
        yield from ((leaf, negated, False) for test in node.ifs for leaf, negated in _leaves(test, []))
    elif isinstance(node, ast.match_case) and node.guard is not None:
        yield from ((leaf, negated, False) for leaf, negated in _leaves(node.guard, []))
    elif isinstance(node, ast.BoolOp):  # the last operand of one that is no test is not decided on
        yield from ((leaf, negated, False) for leaf, negated in list(_leaves(node, []))[:-1])


def _leaves(test: ast.expr, negated: list[ast.expr]) -> Iterator[tuple[ast.expr, list[ast.expr]]]:
    if isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from _leaves(value, [])
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _leaves(test.operand, [*negated, test])
    else:
        yield test, negated
