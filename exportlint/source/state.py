"""The state of an analysed function: its variables, and what it changed on objects and globals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from exportlint.source.values import UNKNOWN, Closure, Device, Value, join

if TYPE_CHECKING:
    from exportlint.source.index import ClassEntry, ModuleIndex
    from exportlint.source.sites import Site

Key = tuple[object, str]
"""An attribute of an object (the object's key and the name), or a global (the file's index and the name)."""


@dataclass(frozen=True, slots=True)
class Slot:
    """What a call wrote to an attribute or global; not `sure` where only some paths wrote it."""

    value: Value
    site: Site | None = None
    sure: bool = True


CLEARED = "cleared"
"""Names the slot, at a container's place, that holds whether the last change emptied it."""


@dataclass(frozen=True, slots=True)
class Guard:
    """The test of an ``if`` that is entered, and whether it also returns something or binds a variable."""

    site: Site
    decides: bool


@dataclass(slots=True, eq=False)
class Exits:
    """The states in which a loop is left, or begun anew, before its body ends."""

    states: list[State] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Frame:
    """One call of a function: where its code stands, what it is a method of, and what it returned so far.

    It is `guarded` where a test around the call, or one of devices or dtypes before it, may keep it from running.
    """

    module: ModuleIndex
    cls: ClassEntry | None = None
    owner: Value | None = None
    globals: set[str] = field(default_factory=set)
    home: Closure | None = None
    around: set[str] = field(default_factory=set)
    returned: list[Value] = field(default_factory=list)
    yielded: list[Value] = field(default_factory=list)
    heaps: list[dict[Key, Slot]] = field(default_factory=list)
    loops: list[Exits] = field(default_factory=list)
    devices: list[Device] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    guarded: bool = False
    validating: bool = False


@dataclass(slots=True, eq=False)
class State:
    """What is known at one point of a function.

    Attributes:
        frame: The call of the function.
        variables: Its variables.
        heap: What it changed on objects and globals.
        dead: Whether the point cannot be reached.
        there: The types of the devices that the inputs are on where the point is reached, as a test around it says.
    """

    frame: Frame
    variables: dict[str, Value] = field(default_factory=dict)
    heap: dict[Key, Slot] = field(default_factory=dict)
    dead: bool = False
    there: frozenset[str] = frozenset()

    def copy(self) -> State:
        """An independent state of the same frame."""
        return State(self.frame, dict(self.variables), dict(self.heap), self.dead, self.there)

    def become(self, other: State) -> None:
        """Take over what the other state knows."""
        self.variables, self.heap, self.dead, self.there = other.variables, other.heap, other.dead, other.there


def place_of(kept: str, state: State) -> tuple[object, str]:
    """Where a container lives that outlives the call, as the heap names what is in it."""
    where, _, name = kept.partition(" ")
    return (getattr(state.frame.owner, "key", where) if where == "attribute" else where, name)


def join_states(left: State, right: State) -> State:
    """What is known where two paths meet."""
    if left.dead:
        return right
    if right.dead:
        return left
    variables = dict(left.variables)
    for name, value in right.variables.items():
        variables[name] = join(variables[name], value) if name in variables else value
    return State(left.frame, variables, join_heaps(left.heap, right.heap), there=left.there & right.there)


def join_heaps(left: dict[Key, Slot], right: dict[Key, Slot]) -> dict[Key, Slot]:
    """What is known of attributes and globals where two paths meet."""
    heap: dict[Key, Slot] = {}
    for key in (*left, *(k for k in right if k not in left)):
        first, second = left.get(key), right.get(key)
        if first is not None and second is not None:
            same = first == second
            heap[key] = first if same else _join_slots(first, second)
        else:
            only = first or second or Slot(UNKNOWN)
            heap[key] = Slot(only.value, only.site, sure=False)
    return heap


def _join_slots(first: Slot, second: Slot) -> Slot:
    return Slot(join(first.value, second.value), first.site or second.site, first.sure and second.sure)
