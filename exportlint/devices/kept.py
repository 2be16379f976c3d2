"""Tensors that a model keeps outside its state dict, and the line that keeps each of them.

``module.to(device)`` moves parameters and buffers. It does not move a tensor in a plain attribute (or in a list, dict
or object there), on the class, in a default argument, in a closure or in a global. These are found before the model
runs, so that a tensor met later can be told by its identity.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import inspect
import types
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from exportlint.places import Place, is_users, parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_REGISTERED = frozenset({"_parameters", "_buffers", "_modules", "training"})
_DEEPEST = 4  # levels of containers and objects to look into
_WIDEST = 4096  # items of one container to look at


@dataclass(frozen=True, slots=True)
class Kept:
    """A tensor outside the state dict.

    Attributes:
        where: What keeps it, such as ``the attribute `mask` of Attention``.
        place: The line that keeps it, where the source could be read.
        attribute: Whether it is an attribute of a module.
        parameters: Whether it is, or holds, parameters that no module registers.
        container: The type of what holds the tensor, such as ``dict``; empty where it is the tensor itself.
    """

    where: str
    place: Place | None
    attribute: bool = False
    parameters: bool = False
    container: str = ""

    @property
    def words(self) -> str:
        """What it is."""
        article = "an" if self.container[:1].lower() in "aeiou" else "a"
        held = f"{article} {self.container} that holds " if self.container else ""
        return f"{self.where} is {held}a tensor outside the state dict"


@dataclass(slots=True)
class KeptTensors:
    """What `find_kept` found, by identity; the tensors are held so that no identity is used twice."""

    _found: dict[int, tuple[torch.Tensor, Kept]] = field(default_factory=dict)
    _storages: dict[int, Kept] = field(default_factory=dict)

    def add(self, value: Any, made: Callable[[], Kept], registered: set[int]) -> None:
        """Add every tensor in this value that is not part of a registered module; `made` says what keeps it."""
        kept: Kept | None = None
        for tensor in tensors_in(value, registered):
            if id(tensor) in registered:
                continue
            if kept is None:
                container = "" if value is tensor else type(value).__name__
                parameters = isinstance(tensor, torch.nn.Parameter)
                kept = dataclasses.replace(made(), parameters=parameters, container=container)
            self._found.setdefault(id(tensor), (tensor, kept))
            storage = _storage(tensor)
            if storage:
                self._storages.setdefault(storage, kept)

    def get(self, tensor: torch.Tensor) -> Kept | None:
        """What keeps this very tensor."""
        found = self._found.get(id(tensor))
        return found[1] if found is not None else None

    def since(self, earlier: KeptTensors) -> set[Kept]:
        """What keeps the tensors that were not there earlier."""
        return {kept for key, (_, kept) in self._found.items() if key not in earlier._found}

    def owner(self, tensor: torch.Tensor) -> Kept | None:
        """What keeps the memory of this tensor, which may be a view."""
        return self._storages.get(_storage(tensor)) if self._storages else None

    def __len__(self) -> int:
        return len(self._found)


def _storage(tensor: torch.Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0  # no memory of its own: fake, meta, or a wrapper


def tensors_in(value: Any, registered: set[int] | None = None, depth: int = _DEEPEST) -> Iterator[torch.Tensor]:
    """Tensors in nested containers, unregistered modules and the state of the user's objects, in order."""
    registered = registered or set()
    if isinstance(value, torch.Tensor):
        yield value
    elif depth > 0 and not isinstance(value, (str, bytes, int, float, type(None))):
        for item in _items(value, registered):
            yield from tensors_in(item, registered, depth - 1)


def _items(value: Any, registered: set[int]) -> Iterable[Any]:
    """What to look into: items of containers, the state of unregistered modules and of the user's objects."""
    if isinstance(value, dict):
        return list(value.values())[:_WIDEST]
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)[:_WIDEST]
    if isinstance(value, torch.nn.Module):
        return () if id(value) in registered else [*value.parameters(), *value.buffers()]
    if isinstance(value, (functools.partial, types.MethodType)):
        return _bound(value)
    if isinstance(value, (type, types.ModuleType)):
        return ()
    return list(getattr(value, "__dict__", {}).values()) if _is_users_object(value) else ()


def _bound(value: functools.partial[Any] | types.MethodType) -> list[Any]:
    """What is handed over whenever this is called."""
    if isinstance(value, types.MethodType):
        return [value.__self__]
    return [value.func, *value.args, *value.keywords.values()]


def _is_users_object(value: Any) -> bool:
    module = inspect.getmodule(type(value))
    return module is not None and is_users(getattr(module, "__file__", None) or "")


def find_kept(model: torch.nn.Module) -> KeptTensors:
    """Find the tensors that the model can reach in ``forward`` and that ``model.to(device)`` does not move."""
    kept = KeptTensors()
    registered = {id(module) for module in model.modules()}
    registered |= {id(tensor) for tensor in (*model.parameters(), *model.buffers())}
    functions: dict[types.FunctionType, None] = {}
    for module in model.modules():
        cls: Any = type(module)
        for name, value in vars(module).items():
            if name not in _REGISTERED:
                kept.add(value, functools.partial(_attribute, cls, name), registered)
    for cls in dict.fromkeys(cls for module in model.modules() for cls in type(module).__mro__):
        if not is_users(_file_of(cls)):
            continue
        for name, value in vars(cls).items():
            function = _plain_function(value)
            if function is not None:
                functions[function] = None
            elif not name.startswith("__"):
                kept.add(value, functools.partial(_class_attribute, cls, name), registered)
    _search_functions(functions, kept, registered)
    return kept


def _attribute(cls: type, name: str) -> Kept:
    return Kept(f"the attribute `{name}` of {cls.__name__}", attribute_place(cls, name), attribute=True)


def _class_attribute(cls: type, name: str) -> Kept:
    return Kept(f"the class attribute `{name}` of {cls.__name__}", _class_place(cls, name))


def _default(function: types.FunctionType, name: str) -> Kept:
    return Kept(f"the default of the argument `{name}` of {_label(function)}", _default_place(function, name))


def _closure_variable(function: types.FunctionType, name: str) -> Kept:
    return Kept(f"the closure variable `{name}` of {_label(function)}", None)


def _global(file: str, name: str) -> Kept:
    return Kept(f"the global `{name}`", _global_place(file, name))


def _label(function: types.FunctionType) -> str:
    return function.__qualname__.replace(".<locals>", "")


def _plain_function(value: Any) -> types.FunctionType | None:
    """The function below a method, property, decorator or bound arguments."""
    if isinstance(value, property):
        value = value.fget
    while isinstance(value, (functools.partial, types.MethodType)):
        value = value.func if isinstance(value, functools.partial) else value.__func__
    value = inspect.unwrap(value.__func__ if isinstance(value, (staticmethod, classmethod)) else value)
    return value if isinstance(value, types.FunctionType) else None


def _search_functions(functions: dict[types.FunctionType, None], kept: KeptTensors, registered: set[int]) -> None:
    """Defaults, closures and globals of these functions, and of the user's functions that they name."""
    waiting = list(functions)
    while waiting:
        function = waiting.pop()
        for name, value in _defaults(function):
            kept.add(value, functools.partial(_default, function, name), registered)
        for name, value in _closure(function):
            kept.add(value, functools.partial(_closure_variable, function, name), registered)
        for name, value, file in _globals_named(function):
            helper = _plain_function(value)
            if helper is None or isinstance(value, (functools.partial, types.MethodType)):
                kept.add(value, functools.partial(_global, file, name), registered)
            if helper is not None and helper not in functions and is_users(helper.__code__.co_filename):
                functions[helper] = None
                waiting.append(helper)


def _defaults(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    yield from zip(names[len(names) - len(defaults) :], defaults, strict=True)
    yield from (function.__kwdefaults__ or {}).items()


def _closure(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # a cell that is not filled yet
            yield name, cell.cell_contents


def _globals_named(function: types.FunctionType) -> Iterator[tuple[str, Any, str]]:
    """Globals that the function names, and names in the user's modules that it reaches by ``module.name``."""
    names = set(_names(function.__code__))
    for name in names & function.__globals__.keys():
        value = function.__globals__[name]
        if isinstance(value, types.ModuleType):
            file = getattr(value, "__file__", None) or ""
            if is_users(file):
                yield from ((inner, vars(value)[inner], file) for inner in names & vars(value).keys())
        elif not isinstance(value, type):
            yield name, value, function.__code__.co_filename


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


@functools.lru_cache(maxsize=4096)
def _file_of(cls: type) -> str:
    try:
        return inspect.getsourcefile(cls) or ""
    except (TypeError, OSError):
        return ""


_tree = functools.lru_cache(maxsize=64)(parsed)


@functools.lru_cache(maxsize=4096)
def _class_node(cls: type) -> ast.ClassDef | None:
    """The definition of the class; of several with its qualified name, the last one."""
    tree = _tree(_file_of(cls))
    node: ast.AST | None = tree
    for part in cls.__qualname__.replace(".<locals>", "").split("."):
        inner = [] if node is None else [n for n in ast.walk(node) if isinstance(n, _DEFINITION) and n.name == part]
        node = inner[-1] if inner else None
    return node if isinstance(node, ast.ClassDef) else None


_DEFINITION = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@functools.lru_cache(maxsize=4096)
def attribute_place(cls: type, name: str) -> Place | None:
    """The line that sets ``self.name`` in the class or a base: in ``__init__`` and not to a constant, if possible."""
    for owner in cls.__mro__:
        node = _class_node(owner) if is_users(_file_of(owner)) else None
        if node is None:
            continue
        sets = [
            (isinstance(value, ast.Constant), method.name != "__init__", target.lineno)
            for method in node.body
            if isinstance(method, ast.FunctionDef)
            for statement in ast.walk(method)
            for target, value in _assigned(statement)
            if isinstance(target, ast.Attribute) and target.attr == name and _is_self(target.value)
        ]
        if sets:
            return Place(_file_of(owner), min(sets)[2])
    return None


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _assigned(statement: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each single target of an assignment, with the value it gets or takes part in."""
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        yield statement.target, statement.value
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            for single in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
                yield single, statement.value


def _named_place(file: str, body: Iterable[ast.AST], name: str) -> Place | None:
    """The first statement of the body that assigns this name."""
    for statement in body:
        if any(isinstance(target, ast.Name) and target.id == name for target, _ in _assigned(statement)):
            return Place(file, statement.lineno)  # type: ignore[attr-defined]
    return None


def _class_place(cls: type, name: str) -> Place | None:
    node = _class_node(cls)
    return _named_place(_file_of(cls), node.body, name) if node is not None else None


def _global_place(file: str, name: str) -> Place | None:
    tree = _tree(file)
    return _named_place(file, tree.body, name) if tree is not None and is_users(file) else None


def _default_place(function: types.FunctionType, name: str) -> Place | None:
    """The line of the default's expression."""
    file, first = function.__code__.co_filename, function.__code__.co_firstlineno
    for node in ast.walk(_tree(file) or ast.Module([], [])):
        if isinstance(node, _DEFINITION[1:]) and first in (node.lineno, *(d.lineno for d in node.decorator_list)):
            arguments = [*node.args.posonlyargs, *node.args.args]
            defaults = dict(zip(reversed([a.arg for a in arguments]), reversed(node.args.defaults), strict=False))
            defaults |= {a.arg: d for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if d}
            return Place(file, defaults[name].lineno) if name in defaults else None
    return None
