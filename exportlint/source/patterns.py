"""``match``: which case a value is sent to, what asks for that, and what the names in the pattern then are."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from exportlint.source import attributes, conditions
from exportlint.source.events import Asked, Iterated
from exportlint.source.expressions import compared
from exportlint.source.parameters import OPEN
from exportlint.source.state import Guard, State, join_states
from exportlint.source.statements import element
from exportlint.source.values import (
    NONE,
    NOTHING,
    UNKNOWN,
    Class,
    Const,
    Dict,
    External,
    Instance,
    Number,
    Sequence,
    Shape,
    Size,
    Static,
    Tensor,
    Truth,
    Unknown,
    Value,
    join,
    join_all,
    options,
)

if TYPE_CHECKING:
    from exportlint.source.interpreter import Interpreter

_TENSOR = External("torch.Tensor")
_BUILTINS = "builtins."
_PLAIN = {"int", "float", "bool", "str", "bytes", "complex", "list", "tuple", "dict", "set", "frozenset"}


class Sides(NamedTuple):
    """The states in which a pattern fits and in which it does not, and what the subject is in each."""

    true: State
    false: State
    inside: Value
    outside: Value


Handler = Callable[["Interpreter", Any, Value, State, bool], Sides]


def run(it: Interpreter, node: ast.Match, state: State, raises: list[bool], decides: list[bool]) -> None:
    """Run a ``match``; the state becomes what it is after it.

    Args:
        it: The interpreter.
        node: The statement.
        state: The state before it.
        raises: Of each case, whether it does nothing but raise.
        decides: Of each case, whether it returns something or binds a variable.
    """
    value = it.expression(node.subject, state)
    left, after = state.copy(), state.copy()
    after.dead = True
    last = node.cases[-1]
    open_ended = last.guard is not None or not _fits_all(last.pattern)
    for i, case in enumerate(node.cases):
        validates = raises[i] or (not open_ended and i + 1 < len(node.cases) and all(raises[i + 1 :]))
        found = matched(it, case.pattern, value, left, validates)
        for side, what in ((found.true, found.inside), (found.false, found.outside)):
            if what not in (value, NOTHING):
                conditions.rebind(it, node.subject, what, side)
        true, left = _guarded(it, case, found)
        state.frame.guards.append(Guard(it.site(case.pattern, state), decides[i]))
        if not true.dead:
            it.block(case.body, true)
        state.frame.guards.pop()
        after = join_states(after, true)
        if left.dead:
            break
        value = found.outside if case.guard is None else value
    state.become(join_states(left, after))


def _guarded(it: Interpreter, case: ast.match_case, found: Sides) -> tuple[State, State]:
    """The states in which a case is entered and in which the next one is tried."""
    if case.guard is None or found.true.dead:
        return found.true, found.false
    undecided = not found.false.dead
    it.optional += undecided
    holds, fails = conditions.branch(it, case.guard, found.true, "if")
    it.optional -= undecided
    return holds, join_states(found.false, fails)


def _fits_all(pattern: ast.pattern) -> bool:
    """Whether a pattern is a name or ``_``."""
    return isinstance(pattern, ast.MatchAs) and (pattern.pattern is None or _fits_all(pattern.pattern))


def matched(it: Interpreter, pattern: ast.pattern, value: Value, state: State, validates: bool = False) -> Sides:
    """What a pattern makes of a value; one of the states is dead where the answer is certain."""
    return _HANDLERS[type(pattern)](it, pattern, value, state, validates)


def _sides(state: State, verdict: bool | None, inside: Value, outside: Value) -> Sides:
    true, false = state.copy(), state.copy()
    if verdict is not None:
        (false if verdict else true).dead = True
    return Sides(true, false, inside, outside)


def _value(it: Interpreter, pattern: ast.MatchValue, value: Value, state: State, validates: bool) -> Sides:
    answer = compared(it, pattern, ast.Eq(), (value, it.expression(pattern.value, state)), state)
    it.emit(Asked(it.site(pattern, state), answer, "case", validates))
    return _sides(state, conditions.truth(answer), value, value)


def _singleton(it: Interpreter, pattern: ast.MatchSingleton, value: Value, state: State, validates: bool) -> Sides:
    wanted = Const(pattern.value)
    found = options(value)
    inside = tuple(v for v in found if v == wanted or isinstance(v, (Unknown, Static, Number, Truth)))
    outside = tuple(v for v in found if v != wanted)
    verdict = False if not inside else True if not outside else None
    return _sides(state, verdict, wanted if inside else NOTHING, join_all(outside) if outside else NOTHING)


def _as(it: Interpreter, pattern: ast.MatchAs, value: Value, state: State, validates: bool) -> Sides:
    if pattern.pattern is None:
        found = _sides(state, True, value, NOTHING)
    else:
        found = matched(it, pattern.pattern, value, state, validates)
    if pattern.name is not None:
        found.true.variables[pattern.name] = found.inside
    return found


def _or(it: Interpreter, pattern: ast.MatchOr, value: Value, state: State, validates: bool) -> Sides:
    found = matched(it, pattern.patterns[0], value, state, validates)
    for part in pattern.patterns[1:]:
        if found.false.dead:
            break
        undecided = not found.true.dead
        it.optional += undecided
        other = matched(it, part, found.outside, found.false, validates)
        it.optional -= undecided
        inside = join(found.inside, other.inside) if undecided else other.inside
        found = Sides(join_states(found.true, other.true), other.false, inside, other.outside)
    return found


def _all(it: Interpreter, parts: list[tuple[ast.pattern, Value]], first: Sides) -> Sides:
    """A pattern that has parts: it fits where its own test and all of its parts do."""
    true, false = first.true, first.false
    for part, value in parts:
        if true.dead:
            break
        undecided = not false.dead
        it.optional += undecided
        found = matched(it, part, value, true)
        it.optional -= undecided
        true, false = found.true, join_states(false, found.false)
    return Sides(true, false, first.inside, first.outside)


def _sequence(it: Interpreter, pattern: ast.MatchSequence, value: Value, state: State, validates: bool) -> Sides:
    starred = [i for i, part in enumerate(pattern.patterns) if isinstance(part, ast.MatchStar)]
    count = len(pattern.patterns) - len(starred)
    found = options(value)
    verdicts = [_is_sequence(v, count, bool(starred)) for v in found]
    fitting = tuple(v for v, verdict in zip(found, verdicts, strict=True) if verdict is not False)
    verdict = None if None in verdicts or len(set(verdicts)) > 1 else verdicts[0]
    for each in fitting:
        if isinstance(each, Sequence) and each.items is None:
            it.emit(Iterated(it.site(pattern, state), each, "unpacking"))
    items = [_parts(it, v, len(pattern.patterns), starred) for v in fitting]
    joined = [join_all(each) for each in zip(*items, strict=True)]
    first = _sides(state, verdict, join_all(fitting) if fitting else NOTHING, value)
    return _all(it, list(zip(pattern.patterns, joined, strict=False)), first)


def _is_sequence(value: Value, count: int, starred: bool) -> bool | None:
    """Whether a value is a sequence that has so many elements, or at least so many."""
    if isinstance(value, Shape):
        return None
    if isinstance(value, Sequence) and value.kind in ("list", "tuple"):
        if value.items is None:
            return None
        return len(value.items) >= count if starred else len(value.items) == count
    return None if isinstance(value, (Unknown, Static, Sequence, Instance)) else False


def _parts(it: Interpreter, value: Value, count: int, starred: list[int]) -> list[Value]:
    """What the parts of a pattern are given of a sequence."""
    if isinstance(value, Sequence) and value.items is not None:
        before = starred[0] if starred else count
        after = len(value.items) - (count - before - 1)
        rest = Sequence(value.items[before:after]) if starred else NOTHING
        return [*value.items[:before], *((rest, *value.items[after:]) if starred else ())]
    if isinstance(value, Shape):
        return [UNKNOWN if i in starred else value.size(i, None if starred else count) for i in range(count)]
    each = element(it, value)
    return [Sequence(None, each) if i in starred else each for i in range(count)]


def _star(it: Interpreter, pattern: ast.MatchStar, value: Value, state: State, validates: bool) -> Sides:
    found = _sides(state, True, value, NOTHING)
    if pattern.name is not None:
        found.true.variables[pattern.name] = value
    return found


def _mapping(it: Interpreter, pattern: ast.MatchMapping, value: Value, state: State, validates: bool) -> Sides:
    keys = [it.expression(key, state) for key in pattern.keys]
    found = options(value)
    fitting = tuple(v for v in found if isinstance(v, (Dict, Unknown, Static, Instance)))
    known = [v for v in fitting if isinstance(v, Dict)]
    verdict = False if not fitting else True if len(known) == len(found) and not keys else None
    parts = [join_all(tuple(_entry(v, key) for v in fitting)) if fitting else UNKNOWN for key in keys]
    first = _sides(state, verdict, join_all(fitting) if fitting else NOTHING, value)
    if pattern.rest is not None:
        first.true.variables[pattern.rest] = Dict(kept=OPEN)
    return _all(it, list(zip(pattern.patterns, parts, strict=True)), first)


def _entry(value: Value, key: Value) -> Value:
    """What a dictionary holds under a key."""
    if not isinstance(value, Dict) or not isinstance(key, Const):
        return UNKNOWN
    known: dict[object, Value] = dict(value.items)
    return known.get(key.value, UNKNOWN if value.kept == OPEN else value.element)


def _class(it: Interpreter, pattern: ast.MatchClass, value: Value, state: State, validates: bool) -> Sides:
    wanted = it.expression(pattern.cls, state)
    found = [(option, _is_of(it, option, wanted)) for option in options(value)]
    inside = join_all(tuple(_as_one(v, wanted) for v, is_one in found if is_one is not False) or (NOTHING,))
    outside = join_all(tuple(v for v, is_one in found if is_one is not True) or (NOTHING,))
    verdict = False if inside == NOTHING else True if outside == NOTHING else None
    names = _positional(it, wanted, len(pattern.patterns))
    named = zip(pattern.kwd_patterns, pattern.kwd_attrs, strict=True)
    parts = [*zip(pattern.patterns, names, strict=True), *named]
    given = [(part, inside if name is None else _named(it, inside, name, state)) for part, name in parts]
    plain = not given or all(_fits_all(part) for part, _ in given)
    return _all(it, given, _sides(state, verdict, inside, outside if plain else value))


def _positional(it: Interpreter, wanted: Value, count: int) -> list[str | None]:
    """The names of attributes that the parts without a name stand for."""
    if isinstance(wanted, Class):
        fields: list[str | None] = [name for c in reversed(it.project.lineage(wanted.entry)[0]) for name in c.fields]
        return [*fields, *[""] * count][:count]
    return [None if isinstance(wanted, External) and wanted.name.startswith(_BUILTINS) else ""] * count


def _named(it: Interpreter, value: Value, name: str, state: State) -> Value:
    return attributes.get(it, value, name, state) if name else UNKNOWN


def _as_one(value: Value, wanted: Value) -> Value:
    """What a value is, once it is known to be of a class."""
    return Tensor("unknown", fed=True) if isinstance(value, Unknown) and wanted == _TENSOR else value


def _is_of(it: Interpreter, value: Value, wanted: Value) -> bool | None:
    """Whether a value is an object of a class, if that is certain."""
    if isinstance(value, Unknown):
        return None
    if isinstance(value, Tensor):
        return True if wanted == _TENSOR else False if _plain(wanted) else None
    if isinstance(value, Instance) and isinstance(wanted, Class):
        return wanted.entry in it.project.lineage(value.cls)[0]
    if wanted == _TENSOR:
        return False if isinstance(value, (Const, Sequence, Dict, Shape, Size)) else None
    return _is_plain(value, _plain(wanted))


def _plain(wanted: Value) -> str:
    name = wanted.name.removeprefix(_BUILTINS) if isinstance(wanted, External) else ""
    return name if name in _PLAIN else ""


def _is_plain(value: Value, name: str) -> bool | None:
    """Whether a value is an object of one of Python's own types."""
    if not name:
        return False if value == NONE else None
    if isinstance(value, Const):
        return isinstance(value.value, getattr(builtins, name))
    if isinstance(value, Sequence) and value.kind in ("list", "tuple", "set"):
        return value.kind == name
    known = "tuple" if isinstance(value, Shape) else "dict" if isinstance(value, Dict) else ""
    known = "int" if isinstance(value, Size) and value.dim is not None else known
    return True if name == (value.of if isinstance(value, Static) else known) else None


_HANDLERS: dict[type[ast.pattern], Handler] = {
    ast.MatchValue: _value,
    ast.MatchSingleton: _singleton,
    ast.MatchAs: _as,
    ast.MatchOr: _or,
    ast.MatchSequence: _sequence,
    ast.MatchStar: _star,
    ast.MatchMapping: _mapping,
    ast.MatchClass: _class,
}
