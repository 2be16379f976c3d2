"""Reading pickles without running them: the opcodes build inert objects, nothing is imported and nothing is called."""

from __future__ import annotations

import io
import pickletools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from exportlint.inspecting.budget import Budget
from exportlint.inspecting.description import InspectError

if TYPE_CHECKING:
    from collections.abc import Callable

MARK = object()
WEIGHT = 3  # of an opcode that makes an object which holds others; any other is 1


class Readable(Protocol):
    """What pickles are read from."""

    def read(self, size: int = -1, /) -> bytes:
        """Some bytes, or all."""

    def readline(self, size: int = -1, /) -> bytes:
        """A line."""

    def tell(self) -> int:
        """The place."""


@dataclass(frozen=True, slots=True)
class Name:
    """Something that loading would import."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(slots=True, eq=False)
class Made:
    """What calling `function` would give.

    Attributes:
        function: Mostly a `Name`.
        arguments: What it would be called with.
        state: What would be set on it afterwards.
        items: Items that would be set on it.
    """

    function: Any
    arguments: Any
    state: Any = None
    items: list[Any] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Pairs:
    """A dict: its keys may be anything, so they are not hashed."""

    items: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class Persistent:
    """A reference to something outside of the pickle, such as the storage of a tensor."""

    key: Any


@dataclass(frozen=True, slots=True)
class Read:
    """A pickle that was read.

    Attributes:
        root: The object.
        imports: Names, in the order of the pickle, each once.
    """

    root: Any
    imports: tuple[Name, ...]


def read(content: bytes | Readable, where: str = "the pickle", budget: Budget | None = None) -> Read:
    """Read one pickle, from its first opcode to its ``STOP``.

    Args:
        content: The pickle, or what it is read from.
        where: What it is called in messages.
        budget: Takes the opcodes; one of its own where it is ``None``.

    Raises:
        InspectError: When it is no pickle, is cut off, or is longer than the budget has it.
    """
    machine, budget = _Machine(where), budget or Budget()
    stream: Any = io.BytesIO(content) if isinstance(content, bytes) else content
    try:
        for opcode, argument, _ in pickletools.genops(stream):
            budget.take_values(WEIGHT if opcode.name in _HOLDERS else 1)
            machine.step(opcode.name, argument)
    except (InspectError, RecursionError, MemoryError):
        raise
    except Exception as error:  # the machine checks nothing: what is no pickle fails in any way
        raise InspectError(f"{where} is no valid pickle ({str(error)[:80] or type(error).__name__})") from error
    return Read(machine.stack[-1] if machine.stack else None, tuple(dict.fromkeys(machine.imports)))


class _Machine:
    """The stack machine of pickles, over inert objects."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.imports: list[Name] = []

    def step(self, name: str, argument: Any) -> None:
        """One opcode."""
        action = _ACTIONS.get(name)
        if action is not None:
            action(self, argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in _LITERALS:
            self.stack.append(argument)
        elif name not in ("PROTO", "FRAME", "STOP", "READONLY_BUFFER"):
            raise InspectError(f"{self.where} has the opcode {name}, which no checkpoint uses")

    def to_mark(self) -> list[Any]:
        """What lies above the last mark, which is taken away too."""
        place = len(self.stack) - 1
        while self.stack[place] is not MARK:
            place -= 1
            if place < 0:
                raise ValueError("a mark is missing")
        found = self.stack[place + 1 :]
        del self.stack[place:]
        return found

    def name(self, module: Any, name: Any) -> None:
        """An import."""
        found = Name(_text(module), _text(name))
        self.imports.append(found)
        self.stack.append(found)

    def call(self, function: Any, arguments: Any) -> None:
        """A call that is not made."""
        self.stack.append(Made(function, arguments))

    def top_items(self, found: list[Any]) -> None:
        """Items for the container on top."""
        top = self.stack[-1]
        (top if isinstance(top, list) else top.items).extend(found)

    def build(self, _: Any) -> None:
        """State for the object on top."""
        state, top = self.stack.pop(), self.stack[-1]
        if isinstance(top, Made):
            top.state = state


def _text(value: Any) -> str:
    """A part of a name; of what is no text, the text may have no end."""
    return value[:500] if isinstance(value, str) else "?"


def _global(machine: _Machine, argument: str) -> None:
    module, _, name = argument.partition(" ")
    machine.name(module, name)


def _stack_global(machine: _Machine, _: Any) -> None:
    name, module = machine.stack.pop(), machine.stack.pop()
    machine.name(module, name)


def _instance(machine: _Machine, argument: str) -> None:
    arguments = machine.to_mark()
    _global(machine, argument)
    machine.call(machine.stack.pop(), tuple(arguments))


def _object(machine: _Machine, _: Any) -> None:
    function, *arguments = machine.to_mark()
    machine.call(function, tuple(arguments))


def _reduce(machine: _Machine, _: Any) -> None:
    arguments, function = machine.stack.pop(), machine.stack.pop()
    machine.call(function, arguments)


def _reduce_with_names(machine: _Machine, _: Any) -> None:
    names, arguments, function = machine.stack.pop(), machine.stack.pop(), machine.stack.pop()
    machine.call(function, (arguments, names))


def _take(machine: _Machine, count: int) -> list[Any]:
    if len(machine.stack) < count:
        raise IndexError("the stack is too short")
    items = machine.stack[-count:]
    del machine.stack[-count:]
    return items


def _extension(machine: _Machine, argument: Any) -> None:
    machine.name("copyreg", f"extension_{argument}")


_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "MARK": MARK, "NEXT_BUFFER": b""}
_LITERALS = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
}
_HOLDERS = {
    *("EMPTY_LIST", "EMPTY_TUPLE", "EMPTY_DICT", "EMPTY_SET", "LIST", "TUPLE", "DICT", "FROZENSET"),
    *("TUPLE1", "TUPLE2", "TUPLE3", "GLOBAL", "STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "REDUCE"),
    *("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "PERSID", "BINPERSID", "EXT1", "EXT2", "EXT4"),
}
_ACTIONS: dict[str, Callable[[_Machine, Any], Any]] = {
    "POP": lambda m, _: m.stack.pop(),
    "POP_MARK": lambda m, _: m.to_mark(),
    "DUP": lambda m, _: m.stack.append(m.stack[-1]),
    "EMPTY_LIST": lambda m, _: m.stack.append([]),
    "EMPTY_TUPLE": lambda m, _: m.stack.append(()),
    "EMPTY_DICT": lambda m, _: m.stack.append(Pairs()),
    "EMPTY_SET": lambda m, _: m.stack.append([]),
    "LIST": lambda m, _: m.stack.append(m.to_mark()),
    "TUPLE": lambda m, _: m.stack.append(tuple(m.to_mark())),
    "DICT": lambda m, _: m.stack.append(Pairs(m.to_mark())),
    "FROZENSET": lambda m, _: m.stack.append(m.to_mark()),
    "TUPLE1": lambda m, _: m.stack.append(tuple(_take(m, 1))),
    "TUPLE2": lambda m, _: m.stack.append(tuple(_take(m, 2))),
    "TUPLE3": lambda m, _: m.stack.append(tuple(_take(m, 3))),
    "APPEND": lambda m, _: m.top_items(_take(m, 1)),
    "APPENDS": lambda m, _: m.top_items(m.to_mark()),
    "ADDITEMS": lambda m, _: m.top_items(m.to_mark()),
    "SETITEM": lambda m, _: m.top_items(_take(m, 2)),
    "SETITEMS": lambda m, _: m.top_items(m.to_mark()),
    "GLOBAL": _global,
    "STACK_GLOBAL": _stack_global,
    "INST": _instance,
    "OBJ": _object,
    "NEWOBJ": _reduce,
    "NEWOBJ_EX": _reduce_with_names,
    "REDUCE": _reduce,
    "BUILD": _Machine.build,
    "PUT": lambda m, argument: m.memo.__setitem__(argument, m.stack[-1]),
    "BINPUT": lambda m, argument: m.memo.__setitem__(argument, m.stack[-1]),
    "LONG_BINPUT": lambda m, argument: m.memo.__setitem__(argument, m.stack[-1]),
    "MEMOIZE": lambda m, _: m.memo.__setitem__(len(m.memo), m.stack[-1]),
    "GET": lambda m, argument: m.stack.append(m.memo[argument]),
    "BINGET": lambda m, argument: m.stack.append(m.memo[argument]),
    "LONG_BINGET": lambda m, argument: m.stack.append(m.memo[argument]),
    "PERSID": lambda m, argument: m.stack.append(Persistent(argument)),
    "BINPERSID": lambda m, _: m.stack.append(Persistent(m.stack.pop())),
    "EXT1": _extension,
    "EXT2": _extension,
    "EXT4": _extension,
}
