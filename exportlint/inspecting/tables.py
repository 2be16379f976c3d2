"""What torch's files name, by the table that ``benchmarks/file_facts.py`` writes."""

from __future__ import annotations

import functools
import json
import re
from importlib.resources import files
from typing import Any


@functools.cache
def table() -> dict[str, Any]:
    """The table."""
    found: dict[str, Any] = json.loads((files("exportlint") / "inspecting" / "torch_files.json").read_text("utf-8"))
    return found


def dtype(number: Any) -> str:
    """The dtype of a number in a saved program."""
    return str(table()["dtypes"].get(str(number), "?"))


def storage_dtype(name: str) -> str:
    """The dtype of a class of storage; ``?`` where the class does not say."""
    return str(table()["storages"].get(name, "?"))


def width(dtype: str) -> int:
    """Bytes of an element, 0 where they are not known."""
    bits = re.search(r"(\d+)(?:_|$)", dtype)
    return 1 if dtype == "bool" else int(bits[1]) // 8 if bits and not dtype.startswith("q") else 0


@functools.cache
def _accepted() -> frozenset[str]:
    return frozenset(table()["weights_only"])


def refused(imports: tuple[str, ...]) -> tuple[str, ...]:
    """Those names that ``torch.load(weights_only=True)`` refuses."""
    return tuple(name for name in imports if name.replace("__builtin__.", "builtins.") not in _accepted())


@functools.cache
def _namespaces() -> frozenset[str]:
    return frozenset(table()["namespaces"])


def is_custom(operator: str) -> bool:
    """Whether an operator, such as ``mylib::scale``, does not come with torch."""
    namespace, colons, _ = operator.partition("::")
    return bool(colons) and namespace not in _namespaces()
