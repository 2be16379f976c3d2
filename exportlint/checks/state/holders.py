"""What can hold state: the modules of a model, and the objects, classes, functions and Python modules of its code."""

from __future__ import annotations

import collections
import functools
import itertools
import sys
import threading
from dataclasses import dataclass, field
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from exportlint import places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MAX_ELEMENTS = 200  # of one container
MAX_DEPTH = 3  # of containers in containers, and of objects in objects

CONTAINERS: tuple[Any, ...] = (list, dict, set, tuple, collections.deque)


@dataclass
class Holders:
    """What was found, each once.

    Attributes:
        objects: The modules of the model, then objects of the user's classes.
        classes: Classes of these objects, and those of the project that its code names.
        functions: Functions of the project.
        modules: Python modules of the code, those of libraries included.
    """

    objects: list[Any] = field(default_factory=list)
    classes: list[type] = field(default_factory=list)
    functions: list[FunctionType] = field(default_factory=list)
    modules: list[ModuleType] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)

    def walk(self, values: Iterable[Any]) -> None:
        """Add what these values are and hold, breadth first."""
        pending = collections.deque((value, 0) for value in values if _may_hold(value))
        while pending:
            value, depth = pending.popleft()
            if id(value) in self._seen:
                continue
            self._seen.add(id(value))
            inner = self._held(value)
            deeper = depth + (not isinstance(value, _CODE))
            if deeper <= MAX_DEPTH:
                pending += [(item, deeper) for item in inner if _may_hold(item)]

    def all_classes(self) -> list[type]:
        """The classes of the objects, then those that the code names."""
        return list(dict.fromkeys([*(cls for owner in self.objects for cls in users_classes(owner)), *self.classes]))

    def _held(self, value: Any) -> Iterable[Any]:
        """Note a value, and return what it holds."""
        if isinstance(value, CONTAINERS):
            return elements(value)
        if isinstance(value, FunctionType):
            if not _is_own(value.__code__.co_filename):
                return ()
            self.functions.append(value)
        elif isinstance(value, type):
            if not _is_own(_file_of(value.__module__)):
                return ()
            self.classes.append(value)
        elif not isinstance(value, _CODE):
            if users_module(type(value).__module__) is None and not isinstance(value, threading.local):
                return ()
            self.objects.append(value)
        return _inside(value)


def _may_hold(value: Any) -> bool:
    """Whether state may be in it: not in what torch keeps, and modules are found by their model."""
    plain = (type(None), bool, int, float, complex, str, bytes, torch.Tensor, nn.Module, ModuleType)
    return not isinstance(value, plain)


def _inside(value: Any) -> Iterable[Any]:
    """What code, or an object of the user's, holds."""
    if isinstance(value, type):
        return [held for name, held in vars(value).items() if isinstance(held, _CODE) or not name.startswith("__")]
    for kind, held_by in _HELD_BY.items():
        if isinstance(value, kind):
            return held_by(value)
    return [held for _, held in attributes_of(value)]


def _held_by_function(function: FunctionType) -> list[Any]:
    cells = [content for _, content in cells_of(function)]
    named = (function.__kwdefaults__ or {}).values()
    return [*(function.__defaults__ or ()), *named, *cells, *vars(function).values()]


_HELD_BY: dict[type, Callable[[Any], list[Any]]] = {
    FunctionType: _held_by_function,
    MethodType: lambda value: [value.__func__, value.__self__],
    staticmethod: lambda value: [value.__func__],
    classmethod: lambda value: [value.__func__],
    property: lambda value: [value.fget, value.fset],
    functools.partial: lambda value: [value.func, *value.args, *value.keywords.values()],
    functools.cached_property: lambda value: [value.func],
    functools._lru_cache_wrapper: lambda value: [value.__wrapped__],
}
_CODE = (type, *_HELD_BY)


def cells_of(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The variables that a function closes over, with what they hold; those without a value are left out."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            content = cell.cell_contents
        except ValueError:
            continue
        if name != "__class__":
            yield name, content


def functions_in(held: Any, depth: int = 0) -> Iterator[FunctionType]:
    """The functions that a class holds as one of its names: methods, those of properties, what decorators wrap."""
    inner: list[Any] = []
    if isinstance(held, FunctionType):
        yield held
        inner = [vars(held).get("__wrapped__"), *(content for _, content in cells_of(held))]
    else:
        for kind, held_by in _HELD_BY.items():
            inner += held_by(held) if isinstance(held, kind) else ()
    for value in inner if depth < MAX_DEPTH else ():
        if isinstance(value, tuple(_HELD_BY)):
            yield from functions_in(value, depth + 1)


def attributes_of(owner: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of an object itself, those in slots of its class included; no code of it is run."""
    yield from list(table_of(owner).items())
    for name, member in slots_of(owner):
        try:
            yield name, member.__get__(owner)
        except AttributeError:
            continue


def table_of(owner: Any) -> dict[str, Any]:
    """The attributes of an object that are in no slots; of a `threading.local` those of this thread."""
    if isinstance(owner, threading.local):
        return vars(owner)
    try:
        table: dict[str, Any] = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return {}
    return table


def slots_of(owner: Any) -> Iterator[tuple[str, Any]]:
    """The descriptors of the slots that the user's classes of an object declare, by name."""
    for cls in users_classes(owner):
        names = vars(cls).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            member = vars(cls).get(name)
            if type(member).__name__ == "member_descriptor":
                yield name, member


def of_model(model: nn.Module) -> Holders:
    """All that can hold state for a model.

    Objects are those of the user's or a model library's classes. Functions, and what code holds, are the project's own:
    what libraries keep for all that use them is theirs.
    """
    modules = list(model.modules())
    found = Holders(objects=list(modules), _seen={id(module) for module in modules})
    found.walk(held for module in modules for held in list(vars(module).values()))
    found.modules = python_modules(found.all_classes())
    for python in found.modules:
        if not is_library(python):
            found.walk([held for name, held in vars(python).items() if not name.startswith("__")])
    found.classes = found.all_classes()
    return found


def users_classes(owner: Any) -> list[type]:
    """The class of an object and its bases, as far as they are the user's or a model library's."""
    return [cls for cls in type(owner).__mro__ if users_module(cls.__module__) is not None]


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
    return places.is_installed(module.__file__ or "")


def _file_of(name: str) -> str:
    return getattr(sys.modules.get(name), "__file__", None) or ""


def _is_own(file: str) -> bool:
    """Whether the file is the project's."""
    return bool(file) and places.is_users(file) and not places.is_installed(file)


def elements(value: Any) -> list[Any]:
    """The first elements of a container, the values of a dict; a subclass's own way to look them up is not asked."""
    base = next(kind for kind in CONTAINERS if isinstance(value, kind))
    return list(itertools.islice(dict.values(value) if base is dict else base.__iter__(value), MAX_ELEMENTS))
