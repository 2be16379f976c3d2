"""What the linter knows about torch without importing it: tables generated from torch itself."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class Operator:
    """A function or tensor method of torch.

    Attributes:
        returns: ``tensor``, ``tensors``, ``tensor|tensors``, ``bool``, ``number`` or ``other``.
        device: Whether it takes ``device=``.
        takes_tensor: Whether one of its arguments is a tensor, so that the device follows that.
    """

    returns: str
    device: bool
    takes_tensor: bool

    @property
    def factory(self) -> bool:
        """Whether it makes a tensor from numbers, on the default device unless told otherwise."""
        return self.device and not self.takes_tensor and self.returns.startswith("tensor")


@dataclass(frozen=True, slots=True)
class Facts:
    """The tables; see ``benchmarks/torch_facts.py`` and ``benchmarks/module_bases.py``, which write them."""

    torch: str
    functions: dict[str, Operator]
    methods: dict[str, Operator]
    constructors: frozenset[str]
    data_dependent_size: frozenset[str]
    data_dependent_value: frozenset[str]
    reductions: frozenset[str]
    keeps_shape: frozenset[str]
    result_fields: frozenset[str]
    modules: dict[str, str]
    module_keeps_shape: frozenset[str]
    modules_with_parameters: frozenset[str]
    module_bases: dict[str, frozenset[str]]

    def is_module(self, dotted: str) -> bool:
        """Whether the dotted name is known to be a module's class."""
        package, _, rest = dotted.partition(".")
        return dotted in self.modules or rest.rpartition(".")[2] in self.module_bases.get(package, ())


@functools.cache
def facts() -> Facts:
    """The tables that ship with the package."""
    table = _load("operators.json")
    bases = _load("module_bases.json")
    return Facts(
        torch=table["torch"],
        functions={name: Operator(**entry) for name, entry in table["functions"].items()},
        methods={name: Operator(**entry) for name, entry in table["methods"].items()},
        constructors=frozenset(table["constructors"]),
        data_dependent_size=frozenset(table["data_dependent_size"]),
        data_dependent_value=frozenset(table["data_dependent_value"]),
        reductions=frozenset(table["reductions"]),
        keeps_shape=frozenset(table["keeps_shape"]),
        result_fields=frozenset(table["result_fields"]),
        modules=table["modules"],
        modules_with_parameters=frozenset(table["modules_with_parameters"]),
        module_keeps_shape=frozenset(table["module_keeps_shape"]),
        module_bases={package: frozenset(names) for package, names in bases["bases"].items()},
    )


def _load(name: str) -> Any:
    return json.loads((files("exportlint") / "torch_facts" / name).read_text(encoding="utf-8"))
