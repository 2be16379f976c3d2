"""Python state that a call can change: attributes, class attributes and globals of the user's code.

`Snapshot` notes all of it before a call, tells afterwards what changed, and puts any of it back.
"""

from __future__ import annotations

import collections
import functools
import itertools
import random
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn

from exportlint import places

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

MAX_ELEMENTS = 200  # of one container
MAX_DEPTH = 3  # of containers in containers, and of objects in objects
MAX_KEPT = 2**20  # elements of a tensor whose values are kept

CONTAINERS: tuple[Any, ...] = (list, dict, set, tuple, collections.deque)
RESTORED = frozenset({list, dict, set, collections.deque, collections.OrderedDict, collections.defaultdict})

Kind = Literal["attribute", "buffer", "class attribute", "global"]
_WHOLE = re.compile(r"count\((-?\d+)(?:, (-?\d+))?\)")
_OWN = frozenset(vars(nn.Module()))  # what torch keeps in every module


@dataclass(frozen=True, slots=True)
class Saved:
    """A value as it was: `mark` differs where the value was changed or replaced; `restore` gives it back."""

    mark: Hashable
    restore: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Slot:
    """A name that holds state.

    Attributes:
        owner: The module, object, class or Python module that has the name.
        name: The attribute or global.
        kind: What it is.
    """

    owner: Any
    name: str
    kind: Kind

    @property
    def key(self) -> tuple[int, str]:
        """The same for two slots of one name of one owner."""
        return id(self.owner), self.name

    @property
    def shared(self) -> bool:
        """Whether it outlives the model: a fresh model has it too."""
        return self.kind in ("class attribute", "global")

    @property
    def bare(self) -> bool:
        """Whether the name alone may mean it in the source."""
        return self.shared

    @property
    def words(self) -> str:
        """How the source names it."""
        if self.kind == "global":
            return self.name
        return f"{self.owner.__name__}.{self.name}" if self.kind == "class attribute" else f"self.{self.name}"

    @property
    def counts(self) -> bool:
        """Whether it holds a Python number."""
        value = self.table().get(self.name)
        return isinstance(value, (int, float)) and not isinstance(value, bool)

    def table(self) -> dict[str, Any] | Any:
        """The mapping that holds it; read-only for a class."""
        return self.owner._buffers if self.kind == "buffer" else vars(self.owner)

    def put(self, value: Any) -> None:
        """Give it this value."""
        if self.kind == "class attribute":
            setattr(self.owner, self.name, value)
        else:
            self.table()[self.name] = value

    def drop(self) -> None:
        """Take it away, as if it had never been set."""
        if self.name not in self.table():
            return
        if self.kind == "class attribute":
            delattr(self.owner, self.name)
        else:
            del self.table()[self.name]


class Snapshot:
    """All slots of a model and of the code that it runs, with their values at this moment."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.values = {slot.key: (slot, save(value)) for slot, value in slots(model)}

    def changed(self) -> list[Slot]:
        """The slots that hold something else by now, new ones included."""
        found = []
        now = dict[tuple[int, str], Slot]()
        for slot, value in slots(self.model):
            now[slot.key] = slot
            before = self.values.get(slot.key)
            if before is None or before[1].mark != save(value, keep=False).mark:
                found.append(slot)
        return found + [slot for key, (slot, _) in self.values.items() if key not in now]

    def restore(self, wanted: Iterable[Slot]) -> None:
        """Give these slots their value back; those that did not exist lose theirs."""
        for slot in wanted:
            before = self.values.get(slot.key)
            if before is None:
                slot.drop()
            else:
                slot.put(before[1].restore())


def slots(model: nn.Module) -> Iterator[tuple[Slot, Any]]:
    """Each slot with its value: of the modules and objects, of their classes, of the Python modules."""
    owners = list(_objects(model))
    for owner in owners:
        ignored: frozenset[str] = frozenset()
        if isinstance(owner, nn.Module):
            ignored = _OWN
            yield from ((Slot(owner, name, "buffer"), value) for name, value in list(owner._buffers.items()))
        for name, value in list(vars(owner).items()):
            if name not in ignored:
                yield Slot(owner, name, "attribute"), value
    classes = dict.fromkeys(cls for owner in owners for cls in users_classes(owner))
    for cls in classes:
        yield from (
            (Slot(cls, n, "class attribute"), value) for n, value in list(vars(cls).items()) if _is_state(n, value)
        )
    for module in python_modules(classes):
        if is_library(module):
            continue  # what libraries keep for all that use them is theirs
        yield from (
            (Slot(module, n, "global"), value) for n, value in list(vars(module).items()) if _is_state(n, value)
        )


def users_classes(owner: Any) -> list[type]:
    """The class of an object and its bases, as far as they are the user's or a model library's."""
    return [cls for cls in type(owner).__mro__ if users_module(cls.__module__) is not None]


def _objects(model: nn.Module) -> Iterator[Any]:
    """The modules of the model, and the user's own objects that they hold."""
    seen: set[int] = set()
    pending: list[tuple[Any, int]] = [(module, 0) for module in model.modules()]
    while pending:
        owner, depth = pending.pop(0)
        if id(owner) in seen:
            continue
        seen.add(id(owner))
        yield owner
        if depth < MAX_DEPTH:
            pending += [(value, depth + 1) for value in _held(owner)]


def _held(owner: Any) -> Iterator[Any]:
    """Objects of the user's classes among the attributes, also inside lists and dicts."""
    for value in list(vars(owner).values()):
        values = elements(value) if isinstance(value, (list, tuple, dict)) else [value]
        for item in values:
            code = isinstance(item, (type, ModuleType, FunctionType, nn.Module, torch.Tensor))
            if hasattr(item, "__dict__") and not code and users_module(type(item).__module__) is not None:
                yield item


def python_modules(classes: Iterable[type]) -> list[ModuleType]:
    """The user's modules that define the classes, and those that they import from; of libraries one step only."""
    found: dict[str, ModuleType] = {}
    pending = [cls.__module__ for cls in classes]
    while pending:
        name = pending.pop()
        module = users_module(name)
        if name in found or module is None:
            continue
        found[name] = module
        if is_library(module):
            continue
        for value in list(vars(module).values()):
            if isinstance(value, ModuleType):
                pending.append(value.__name__)
            elif isinstance(value, type) or callable(value):
                pending.append(str(getattr(value, "__module__", None)))
    return list(found.values())


def users_module(name: str) -> ModuleType | None:
    """The imported module of this name, where it is the user's or a model library's."""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    return module if isinstance(module, ModuleType) and file and places.is_users(file) else None


def is_library(module: ModuleType) -> bool:
    """Whether the module is an installed package's."""
    return is_installed(module.__file__ or "")


def is_installed(file: str) -> bool:
    """Whether the file is an installed package's."""
    return bool({"site-packages", "dist-packages"} & set(Path(file).parts))


def _is_state(name: str, value: Any) -> bool:
    """Whether a name of a class or Python module can be state: no code, nothing of Python's own."""
    code = (FunctionType, ModuleType, type, staticmethod, classmethod, property)
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
    return _save_generator(value) or Saved(id(value), lambda: value)


def _save_tensor(value: torch.Tensor, *, keep: bool) -> Saved:
    version = 0 if value.is_inference() else value._version
    plain = type(value) in (torch.Tensor, nn.Parameter) and value.device.type == "cpu"
    copy = value.detach().clone() if keep and plain and value.numel() <= MAX_KEPT else None

    def restore() -> torch.Tensor:
        if copy is not None and (value.is_inference() or value._version != version):
            with torch.no_grad():
                value.detach().copy_(copy)
        return value

    return Saved((id(value), version), restore)


def elements(value: Any) -> list[Any]:
    """The first elements of a container, the values of a dict; a subclass's own way to look them up is not asked."""
    base = next(kind for kind in CONTAINERS if isinstance(value, kind))
    return list(itertools.islice(dict.values(value) if base is dict else base.__iter__(value), MAX_ELEMENTS))


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
        if base in (dict, set):
            value.update(zip(keys, old, strict=True) if base is dict else old)
        else:
            value.extend(old)
        return value

    return Saved((type(value), 0 if base is tuple else id(value), size, names, marks), restore)


def _save_generator(value: Any) -> Saved | None:
    """Things whose state is inside: random generators and counters."""
    if isinstance(value, random.Random) and not isinstance(value, random.SystemRandom):
        state = value.getstate()
        return Saved((id(value), hash(state)), lambda: _put_back(value, value.setstate, state))
    if isinstance(value, torch.Generator):
        seed = value.get_state()
        return Saved((id(value), bytes(seed.numpy())), lambda: value.set_state(seed))
    if isinstance(value, itertools.count) and (numbers := _WHOLE.fullmatch(repr(value))):
        start, step = int(numbers[1]), int(numbers[2] or 1)
        return Saved((itertools.count, start, step), lambda: itertools.count(start, step))
    if not type(value).__module__.startswith("numpy"):  # an attribute is not asked of objects that may answer anything
        return None
    bits = getattr(value, "bit_generator", None)
    if bits is not None:
        kept = bits.state
        return Saved((id(value), repr(kept)), lambda: _put_back(value, functools.partial(setattr, bits, "state"), kept))
    return None


def _put_back(value: Any, put: Callable[[Any], None], state: Any) -> Any:
    put(state)
    return value
