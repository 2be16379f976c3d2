"""Calls as code that needs torch alone, and the modules of the classes whose objects are given."""

from __future__ import annotations

import dataclasses
import enum
import math
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from exportlint.checks.case import Inputs

MOST_ELEMENTS = 64  # of a tensor that is written down by its values
PLAIN = (bool, int, str, bytes, type(None), type(...), range)  # types whose objects read as code


class UnwrittenError(Exception):
    """An argument cannot be written as code."""


def call(inputs: Inputs, tensors: Mapping[int, str], function: str = "model") -> str:
    """The call of a function, such as ``model(torch.zeros([2, 3]), scale=2.0)``; empty where code cannot say it.

    A tensor that is given several times has a name: ``t0 = ...; model(t0, t0)``. Objects of other classes are written
    as calls of these, and the classes are imported first.

    Args:
        inputs: Positional and keyword arguments.
        tensors: The expression of each tensor that has one, by its place among the flattened arguments.
        function: What is called.
    """
    from torch.utils import _pytree as pytree

    flat = pytree.tree_leaves(inputs)
    writer = _Writer()
    for index, expression in tensors.items():
        many = sum(leaf is flat[index] for leaf in flat) > 1
        writer.names[id(flat[index])] = name = f"t{index}" if many else expression
        if many:
            writer.lines.append(f"{name} = {expression}")
    try:
        args = [writer.value(value) for value in inputs[0]]
        args += [f"{key}={writer.value(value)}" for key, value in inputs[1].items()]
    except UnwrittenError:
        return ""
    return "; ".join([*writer.imports, *writer.lines, f"{function}({', '.join(args)})"])


def import_of(kind: type) -> str | None:
    """The statement that imports a class; ``None`` where it has no name of its own in its module."""
    if kind.__qualname__ != kind.__name__ or kind.__module__ == "builtins":
        return None
    parts = kind.__module__.split(".")
    modules = [".".join(parts[:n]) for n in range(1, len(parts) + 1)]
    public = (name for name in modules if getattr(sys.modules.get(name), kind.__name__, None) is kind)
    module = next(public, kind.__module__)  # the outermost that has it is where users find it
    return f"from {module} import {kind.__name__}"


class _Writer:
    """Writes values.

    Attributes:
        names: The code of objects that have one, by their identity.
        imports: Statements that import what the values need, in order.
        lines: Statements that make what no expression can make.
    """

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.imports: dict[str, None] = {}
        self.lines: list[str] = []

    def value(self, value: Any) -> str:
        """A value as an expression.

        Raises:
            UnwrittenError: When there is none.
        """
        if id(value) in self.names:
            return self.names[id(value)]
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return f"{self._class(value)}({self._items(value)})"
        if type(value) is tuple:
            return f"({self._items(value)}{',' * (len(value) == 1)})"
        if type(value) is list:
            return f"[{self._items(value)}]"
        if type(value) is dict:
            return self._dict(value)
        return self._object(value)

    def _items(self, values: Any) -> str:
        return ", ".join(map(self.value, values))

    def _dict(self, value: Mapping[Any, Any]) -> str:
        return "{" + ", ".join(f"{self.value(key)}: {self.value(item)}" for key, item in value.items()) + "}"

    def _class(self, value: Any) -> str:
        """The name of an object's class, which is imported."""
        statement = import_of(type(value))
        if statement is None:
            raise UnwrittenError
        self.imports.setdefault(statement)
        return type(value).__name__

    def _object(self, value: Any) -> str:
        """What is no plain container."""
        if type(value) in (deque, OrderedDict, defaultdict):
            return self._collection(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return f"{self._class(value)}({self._fields(value)})"
        if isinstance(value, Mapping):
            return f"{self._class(value)}({self._dict(value)})"
        if type(value).__name__ in CACHES and type(value).__module__ == "transformers.cache_utils":
            return CACHES[type(value).__name__](self, value)
        return self._leaf(value)

    def _collection(self, value: Any) -> str:
        """A container of the module collections."""
        if isinstance(value, deque):
            limit = f", {value.maxlen}" if value.maxlen is not None else ""
            return f"{self._class(value)}([{self._items(value)}]{limit})"
        if isinstance(value, OrderedDict):
            return f"{self._class(value)}({self._dict(value)})"
        factory = value.default_factory
        made = factory.__name__ if factory in (int, float, list, dict, set) else None
        return f"{self._class(value)}({made}, {self._dict(value)})"

    def _fields(self, value: Any) -> str:
        fields = value.items() if isinstance(value, Mapping) else _of_dataclass(value)
        return ", ".join(f"{name}={self.value(item)}" for name, item in fields)

    def dynamic_cache(self, cache: Any) -> str:
        """The name of a cache of transformers that keeps all keys and values."""
        if any(type(layer).__name__ != "DynamicLayer" for layer in cache.layers):
            raise UnwrittenError  # what a layer of another kind keeps follows from a config
        name = f"cache{sum(line.endswith('Cache()') for line in self.lines)}"
        self.lines.append(f"{name} = {self._class(cache)}()")
        for index, layer in enumerate(cache.layers):
            if layer.keys is not None:
                self.lines.append(f"{name}.update({self.value(layer.keys)}, {self.value(layer.values)}, {index})")
        return name

    def both_caches(self, cache: Any) -> str:
        """A cache of transformers that holds two."""
        return f"{self._class(cache)}({self._items((cache.self_attention_cache, cache.cross_attention_cache))})"

    def _leaf(self, value: Any) -> str:
        import torch

        if isinstance(value, enum.Enum):
            return f"{self._class(value)}.{value.name}"
        if type(value) is torch.Size:
            return repr(value)
        if type(value) is torch.device:
            return f"torch.device({str(value)!r})"
        if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)) or type(value) in PLAIN:
            return repr(value)
        if type(value) is float:
            return repr(value) if math.isfinite(value) else f"float({str(value)!r})"
        text = tensor(value) if type(value) in (torch.Tensor, torch.nn.Parameter) else None
        if text is None:
            raise UnwrittenError
        return text


CACHES = {"DynamicCache": _Writer.dynamic_cache, "EncoderDecoderCache": _Writer.both_caches}


def tensor(value: Any) -> str | None:
    """A tensor by its values; ``None`` where they are too many, or nothing that code makes again."""
    if value.numel() > MOST_ELEMENTS or not _is_plain(value):
        return None
    return f"torch.tensor({value.tolist()!r}, dtype={value.dtype})"


def _is_plain(tensor: Any) -> bool:
    """Whether its values, as Python writes them, make the tensor again."""
    import torch

    if tensor.is_meta or tensor.layout != torch.strided or tensor.is_complex() or 0 in tensor.shape:
        return False
    return bool(tensor.detach().isfinite().all())


def _of_dataclass(value: Any) -> list[tuple[str, Any]]:
    """The fields that its constructor takes, with their values."""
    return [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value) if f.init]
