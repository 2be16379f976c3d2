"""Python state that a call can change: attributes, globals, defaults and variables of closures of the user's code.

`Snapshot` notes all of it before a call, tells afterwards what changed, and puts any of it back.
"""

from __future__ import annotations

import collections
import functools
import itertools
import random
import re
from contextvars import ContextVar
from dataclasses import dataclass
from types import FunctionType, MemberDescriptorType, ModuleType
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn

from exportlint.checks.context import write_back
from exportlint.checks.state import holders
from exportlint.checks.state.holders import CONTAINERS, MAX_DEPTH, MAX_ELEMENTS, elements, is_library, slots_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from exportlint.checks.state.holders import Holders

MAX_KEPT = 2**20  # elements of a tensor or array whose values are kept

RESTORED = frozenset(
    {list, dict, set, collections.deque, collections.OrderedDict, collections.defaultdict, collections.Counter}
)

Kind = Literal["attribute", "buffer", "class attribute", "global", "function attribute", "default", "closure"]
_WHOLE = re.compile(r"count\((-?\d+)(?:, (-?\d+))?\)")
_OWN = frozenset(vars(nn.Module()))  # what torch keeps in every module
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Saved:
    """A value as it was: `mark` differs where the value was changed or replaced; `restore` gives it back."""

    mark: Hashable
    restore: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Slot:
    """A name that holds state.

    Attributes:
        owner: The module, object, class, function or Python module that has the name.
        name: The attribute, global, parameter with a default or variable of a closure.
        kind: What it is.
    """

    owner: Any
    name: str
    kind: Kind

    @property
    def key(self) -> tuple[int, str]:
        """The same for two slots of one name of one owner; functions may share a variable of a closure."""
        return id(self._cell() if self.kind == "closure" else self.owner), self.name

    @property
    def shared(self) -> bool:
        """Whether code has it, and not an object of which there may be several."""
        return self.kind not in ("attribute", "buffer")

    @property
    def outlives(self) -> bool:
        """Whether a fresh model may have it too."""
        return not isinstance(self.owner, nn.Module)

    @property
    def bare(self) -> bool:
        """Whether the name alone may mean it in the source."""
        return self.shared and self.kind != "function attribute"

    @property
    def words(self) -> str:
        """How the source names it."""
        if self.kind in ("global", "closure"):
            return self.name
        if self.kind == "default":
            return f"the default of {self.name}"
        if self.shared:
            return f"{self.owner.__name__}.{self.name}"
        if isinstance(self.owner, nn.Module):
            return f"self.{self.name}"
        return f"{self.name} of {'an' if self.holder[0] in 'AEIOUaeiou' else 'a'} {self.holder}"

    @property
    def holder(self) -> str:
        """The name of what holds it: of a class for its objects."""
        owner = self.owner if self.shared else type(self.owner)
        return str(getattr(owner, "__qualname__", owner.__name__))

    @property
    def counts(self) -> bool:
        """Whether it holds a Python number."""
        value = self.value()
        return isinstance(value, (int, float)) and not isinstance(value, bool)

    @property
    def draws(self) -> bool:
        """Whether it holds a generator of random numbers."""
        value = self.value()
        of_numpy = type(value).__module__.startswith("numpy.random")
        return of_numpy or isinstance(value, (torch.Generator, random.Random))

    def value(self, missing: Any = None) -> Any:
        """What it holds; `missing` where it has no value."""
        table = self._table()
        if table is not None:
            return table.get(self.name, missing)
        try:
            return self._cell().cell_contents if self.kind == "closure" else self._member().__get__(self.owner)
        except (AttributeError, ValueError):
            return missing

    def put(self, value: Any) -> None:
        """Give it this value."""
        table = self._table()
        if self.kind == "closure":
            self._cell().cell_contents = value
        elif self.kind == "class attribute":
            setattr(self.owner, self.name, value)
        elif self.kind == "default" and self.name in (self.owner.__kwdefaults__ or ()):
            self.owner.__kwdefaults__[self.name] = value
        elif self.kind == "default":
            self.owner.__defaults__ = tuple({**_defaults(self.owner), self.name: value}.values())
        elif table is None:
            self._member().__set__(self.owner, value)
        else:
            table[self.name] = value

    def drop(self) -> None:
        """Take it away, as if it had never been set; a default becomes ``None``."""
        if self.value(_NOTHING) is _NOTHING:
            return
        table = self._table()
        if self.kind == "default":
            self.put(None)
        elif self.kind == "closure":
            del self._cell().cell_contents
        elif self.kind == "class attribute":
            delattr(self.owner, self.name)
        elif table is None:
            self._member().__delete__(self.owner)
        else:
            del table[self.name]

    def _table(self) -> Any:
        """The mapping that holds it, read-only for a class; ``None`` for a slot of an object or of a closure."""
        if self.kind == "buffer":
            return self.owner._buffers
        if self.kind == "default":
            return {**_defaults(self.owner), **(self.owner.__kwdefaults__ or {})}
        if self.kind == "closure" or (self.kind == "attribute" and self._member() is not None):
            return None
        return vars(self.owner)

    def _member(self) -> Any:
        return dict(slots_of(self.owner)).get(self.name)

    def _cell(self) -> Any:
        return self.owner.__closure__[self.owner.__code__.co_freevars.index(self.name)]


def _defaults(function: FunctionType) -> dict[str, Any]:
    """The defaults of parameters that may be given by position, in order."""
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    return dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))


class Snapshot:
    """All slots of a model and of the code that it runs, with their values at this moment.

    Args:
        model: The model.
        lasting: Whether to note only what a fresh model may have too; `model` is then not kept.
    """

    def __init__(self, model: nn.Module, *, lasting: bool = False) -> None:
        self.model = None if lasting else model
        found = holders.of_model(model)
        noted = [slot for slot in _slots_of(found) if slot[0].outlives or not lasting]
        self.values = {slot.key: (slot, save(value)) for slot, value in noted}
        self.owners = {id(owner) for owner in (*found.objects, *found.classes, *found.functions, *found.modules)}

    def take_over(self, earlier: Snapshot) -> None:
        """Put what was noted earlier in the place of what is noted here."""
        new = [key for key, (slot, _) in self.values.items() if slot.outlives and id(slot.owner) in earlier.owners]
        for key in new:
            del self.values[key]
        self.values |= earlier.values

    def changed(self) -> list[Slot]:
        """The slots that hold something else by now, new ones included."""
        found = []
        now = dict[tuple[int, str], Slot]()
        for slot, value in slots(self.model) if self.model is not None else ():
            now[slot.key] = slot
            before = self.values.get(slot.key)
            if before is None or before[1].mark != save(value, keep=False).mark:
                found.append(slot)
        return found + [slot for key, (slot, _) in self.values.items() if key not in now]

    def restore(self, wanted: Iterable[Slot]) -> None:
        """Give these slots their value back; those that did not exist lose theirs, unless their owner is as new."""
        for slot in wanted:
            before = self.values.get(slot.key)
            if before is not None:
                slot.put(before[1].restore())
            elif id(slot.owner) in self.owners:
                slot.drop()


def slots(model: nn.Module) -> Iterator[tuple[Slot, Any]]:
    """Each slot with its value: of the modules and objects, of their classes, of functions, of the Python modules."""
    return _slots_of(holders.of_model(model))


def _slots_of(found: Holders) -> Iterator[tuple[Slot, Any]]:
    for owner in found.objects:
        ignored: frozenset[str] = frozenset()
        if isinstance(owner, nn.Module):
            ignored = _OWN
            yield from ((Slot(owner, name, "buffer"), value) for name, value in list(owner._buffers.items()))
        for name, value in holders.attributes_of(owner):
            if name not in ignored:
                yield Slot(owner, name, "attribute"), value
    for cls in found.classes:
        yield from (
            (Slot(cls, n, "class attribute"), value) for n, value in list(vars(cls).items()) if _is_state(n, value)
        )
    for function in found.functions:
        yield from _slots_of_function(function)
    for module in found.modules:
        if is_library(module):
            continue  # what libraries keep for all that use them is theirs
        yield from (
            (Slot(module, n, "global"), value) for n, value in list(vars(module).items()) if _is_state(n, value)
        )


def _slots_of_function(function: FunctionType) -> Iterator[tuple[Slot, Any]]:
    held: tuple[tuple[Kind, Iterable[tuple[str, Any]]], ...] = (
        ("default", [*_defaults(function).items(), *(function.__kwdefaults__ or {}).items()]),
        ("closure", holders.cells_of(function)),
        ("function attribute", list(vars(function).items())),
    )
    for kind, items in held:
        yield from ((Slot(function, n, kind), value) for n, value in items if _is_state(n, value))


def _is_state(name: str, value: Any) -> bool:
    """Whether a name of a class, function or Python module can be state: no code, nothing of Python's own."""
    code = (FunctionType, ModuleType, type, staticmethod, classmethod, property, MemberDescriptorType)
    return not (name.startswith("__") or isinstance(value, code))


def save(value: Any, depth: int = 0, *, keep: bool = True) -> Saved:
    """The value as it is now.

    Args:
        value: Anything.
        depth: How deep it lies in containers.
        keep: Whether it is to be restored; only its mark is wanted otherwise.
    """
    if isinstance(value, torch.Tensor):
        return _save_tensor(value, keep=keep)
    if isinstance(value, (type(None), bool, int, float, complex, str, bytes)):
        return Saved((type(value), repr(value)), lambda: value)
    if depth < MAX_DEPTH and isinstance(value, CONTAINERS):
        return _save_container(value, depth, keep=keep)
    if isinstance(value, ContextVar):
        return _save_variable(value, depth, keep=keep)
    return _save_generator(value) or _save_of_numpy(value) or Saved(id(value), lambda: value)


def _save_tensor(value: torch.Tensor, *, keep: bool) -> Saved:
    version = 0 if value.is_inference() else value._version
    plain = type(value) in (torch.Tensor, nn.Parameter) and value.device.type == "cpu"
    copy = value.detach().clone() if keep and plain and value.numel() <= MAX_KEPT else None

    def restore() -> torch.Tensor:
        if copy is not None and (value.is_inference() or value._version != version):
            with torch.no_grad():
                write_back(value.detach(), copy)
        return value

    return Saved((id(value), version), restore)


def _save_container(value: Any, depth: int, *, keep: bool) -> Saved:
    base = next(kind for kind in CONTAINERS if isinstance(value, kind))
    keys = list(itertools.islice(dict.__iter__(value), MAX_ELEMENTS)) if base is dict else []
    children = [save(item, depth + 1, keep=keep) for item in elements(value)]
    names = tuple(save(key, MAX_DEPTH, keep=False).mark for key in keys)
    marks = (frozenset if base is set else tuple)(child.mark for child in children)
    size = base.__len__(value)

    def restore() -> Any:
        if size > MAX_ELEMENTS or type(value) not in RESTORED:
            return value
        old = [child.restore() for child in children]
        value.clear()
        if base is dict:
            for key, item in zip(keys, old, strict=True):
                value[key] = item
        elif base is set:
            value.update(old)
        else:
            value.extend(old)
        return value

    return Saved((type(value), 0 if base is tuple else id(value), size, names, marks), restore)


def _save_variable(value: ContextVar[Any], depth: int, *, keep: bool) -> Saved:
    """A variable of the context; one that was not set cannot be unset again."""
    try:
        held = value.get()
    except LookupError:
        return Saved((id(value),), lambda: value)
    inner = save(held, depth + 1, keep=keep)
    return Saved((id(value), inner.mark), lambda: _put_back(value, value.set, inner.restore()))


def _save_generator(value: Any) -> Saved | None:
    """Things whose state is inside: random generators and counters."""
    if isinstance(value, random.Random) and not isinstance(value, random.SystemRandom):
        state = value.getstate()
        return Saved((id(value), hash(state)), lambda: _put_back(value, value.setstate, state))
    if isinstance(value, torch.Generator):
        seed = value.get_state()
        return Saved((id(value), bytes(seed.tolist())), lambda: value.set_state(seed))
    if isinstance(value, itertools.count) and (numbers := _WHOLE.fullmatch(repr(value))):
        start, step = int(numbers[1]), int(numbers[2] or 1)
        return Saved((itertools.count, start, step), lambda: itertools.count(start, step))
    return None


def _save_of_numpy(value: Any) -> Saved | None:
    """Arrays and generators of numpy's."""
    if not type(value).__module__.startswith("numpy"):  # an attribute is not asked of objects that may answer anything
        return None
    if type(value).__name__ == "ndarray":
        return _save_array(value)
    bits = getattr(value, "bit_generator", None)
    if bits is None:
        return None
    kept = bits.state
    return Saved((id(value), repr(kept)), lambda: _put_back(value, functools.partial(setattr, bits, "state"), kept))


def _save_array(value: Any) -> Saved | None:
    """An array of numpy's, unless it is large or holds objects."""
    if value.size > MAX_KEPT or value.dtype.hasobject:
        return None
    kept = value.copy()

    def restore() -> Any:
        if value.flags.writeable:
            value[...] = kept
        return value

    return Saved((id(value), value.shape, str(value.dtype), kept.tobytes()), restore)


def _put_back(value: Any, put: Callable[[Any], Any], state: Any) -> Any:
    put(state)
    return value
