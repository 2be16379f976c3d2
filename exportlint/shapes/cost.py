"""What a call of a program costs, by the sizes of its inputs: no draw may take more memory or time than there is."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torch.export import ExportedProgram

    from exportlint.shapes.contract import Granted, Leaf

SHARE = 4  # a call may take one part in so many of the memory that is left
MOST_SECONDS = 2.0  # CPU time that a call may take, when it takes as long for each byte as the example's
FLOOR_SECONDS = 1e-4
ATTENTION = "scaled_dot_product"  # in the names of operators that take each query to each key
MANY = 8  # calls that are made often may cost one part in so many of this


class Cost:
    """Bytes of all values that a program computes, as a sum over its nodes.

    Args:
        program: Its nodes know the shapes of their values.
        granted: Its inputs, which give the symbols their values.
        leaves: The tensors among the arguments.
        seconds: CPU time that the call of the example takes.

    Attributes:
        most: Bytes that a call may take.
        scarce: What limits them: ``memory``, or ``time``.
    """

    def __init__(self, program: ExportedProgram, granted: Granted, leaves: tuple[Leaf, ...], seconds: float) -> None:
        self._terms = _terms(program)
        self._granted, self._leaves = granted, leaves
        self._known: dict[tuple[int, ...], int] = {}
        example = {leaf.size(d): n for leaf in leaves for d, n in enumerate(leaf.shape)}
        self._example = max(1, self.bytes_of(example))
        memory, time = memory_left() // SHARE, int(self._example * MOST_SECONDS / max(seconds, FLOOR_SECONDS))
        self.most = min(memory, time)
        self.scarce = "memory" if memory <= time else "time"

    def affords(self, sizes: Mapping[str, int]) -> bool:
        """Whether a call of these sizes, by torch's words for them, can be made; one as small as the example can."""
        return self.bytes_of(sizes) <= max(self.most, self._example)

    def affords_many(self, sizes: Mapping[str, int]) -> bool:
        """Whether many calls of these sizes can be made; those as small as the example can."""
        return self.bytes_of(sizes) <= max(self.most // MANY, self._example)

    def bytes_of(self, sizes: Mapping[str, int]) -> int:
        """Bytes of all values of a call; in proportion where a size that varies is a constant to the program."""
        key = tuple(sizes.values())
        if key not in self._known:
            self._known[key] = self._sum(sizes)
        return self._known[key]

    def _sum(self, sizes: Mapping[str, int]) -> int:
        values: dict[Any, int] = {}
        factor = 1.0
        for leaf in self._leaves:
            granted = self._granted.sizes.get(leaf.index, leaf.shape)
            for d, size in enumerate(granted):
                asked = sizes.get(leaf.size(d), leaf.shape[d])
                if getattr(size, "is_Symbol", False):
                    values[size] = max(asked, values.get(size, 0))
                elif getattr(size, "free_symbols", None):  # such as 2*s
                    (symbol, *_) = size.free_symbols
                    values.setdefault(symbol, max(1, asked // max(1, _evaluated(size, {symbol: 1}))))
                elif leaf.shape[d] and not leaf.number:
                    factor = max(factor, asked / leaf.shape[d])
        total = sum(count * _evaluated(term, values) for term, count in self._terms.items())
        return int(total * factor)


def _evaluated(term: Any, values: Mapping[Any, int]) -> int:
    try:
        return int(term.subs(values)) if hasattr(term, "subs") else int(term)
    except (TypeError, ZeroDivisionError):  # a size that depends on the data, or that these sizes have no part of
        return 0


def _terms(program: ExportedProgram) -> dict[Any, int]:
    """Elements of the values of nodes, as expressions over sizes, each with the bytes of one, summed over nodes."""
    import torch
    from torch.utils import _pytree as pytree

    terms: dict[Any, int] = {}

    def add(sizes: Iterable[Any], width: int) -> None:
        elements: Any = 1
        for size in sizes:
            elements = elements * (size.node.expr if isinstance(size, torch.SymInt) else int(size))
        terms[elements] = terms.get(elements, 0) + width

    for node in program.graph.nodes:
        for value in pytree.tree_leaves(node.meta.get("val")):
            if isinstance(value, torch.Tensor):
                add(value.shape, value.element_size())
        if ATTENTION in str(node.target):  # computes scores that no node holds, or eager holds them
            query, key = (argument.meta["val"] for argument in node.args[:2])
            add((*query.shape[:-1], key.shape[-2]), 2 * query.element_size())
    return terms


def memory_left() -> int:
    """Bytes that this process may still take: what the machine has, and what its limit leaves."""
    left = 2**33
    status = {line.split(":")[0]: line.split()[1] for line in _lines("/proc/self/status") if len(line.split()) > 1}
    machine = {line.split(":")[0]: line.split()[1] for line in _lines("/proc/meminfo")}
    if "MemAvailable" in machine:
        left = int(machine["MemAvailable"]) * 1024
    limit = resource.getrlimit(resource.RLIMIT_DATA)[0]
    if limit != resource.RLIM_INFINITY and "VmData" in status:
        left = min(left, limit - int(status["VmData"]) * 1024)
    return max(0, left)


def _lines(file: str) -> list[str]:
    try:
        return Path(file).read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
