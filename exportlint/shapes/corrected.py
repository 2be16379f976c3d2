"""The ``dynamic_shapes`` that an export accepts, where it refuses those that were asked for: as code, tried before."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exportlint.shapes import narrowing
from exportlint.shapes.contract import HINT_MIN, children, granted, named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from torch.export import ExportedProgram

    from exportlint.checks.case import Inputs
    from exportlint.shapes.contract import Ask, Contract, Granted, Leaf
    from exportlint.torch_hooks.guards import Guard

    Export = Callable[[Any], ExportedProgram]


@dataclass(frozen=True, slots=True)
class Corrected:
    """Dynamic shapes with which the model was exported.

    Attributes:
        code: An expression for them, in terms of `torch.export.Dim`.
        value: The dynamic shapes themselves.
    """

    code: str
    value: Any


def corrected(
    model: Any, inputs: Inputs, contract: Contract, export: Export, guards: Callable[[], Sequence[Guard]]
) -> Corrected | None:
    """The widest dynamic shapes near those of the contract with which the model can be exported.

    The model is exported with every asked dimension `Dim.AUTO`; what that program grants is then written down in the
    user's names and exported with. Where that fails, dimensions are left to torch one after the other.

    Args:
        model: Its ``forward`` gives the names of the arguments.
        inputs: The example call.
        contract: What was asked.
        export: Exports a fresh model from the example call with these dynamic shapes; raises where it cannot.
        guards: The guards of the last export.
    """
    everything = {leaf.size(d): "Dim.AUTO" for leaf in contract.leaves for d in leaf.asked}
    loose = _attempt(model, inputs, contract, everything, export)
    if loose is None:
        return None
    program, fallback = loose
    exact = _Names(contract, granted(program), guards()).dims()
    for dims in (exact, _with_hints(exact, contract)):
        found = _attempt(model, inputs, contract, dims, export)
        if found is not None:
            return found[1]
    return fallback


def _attempt(
    model: Any, inputs: Inputs, contract: Contract, dims: Mapping[str, str], export: Export
) -> tuple[ExportedProgram, Corrected] | None:
    from torch.export import Dim

    code = written(model, inputs, contract, dims)
    try:
        value = eval(code, {"Dim": Dim})
        return export(value), Corrected(code, value)
    except Exception:  # refused again, or torch itself fails
        return None


def _with_hints(dims: Mapping[str, str], contract: Contract) -> dict[str, str]:
    """The same with `Dim.DYNAMIC` for each dimension whose bounds only the code gives."""
    hinted = dict(dims)
    for leaf in contract.leaves:
        for d in leaf.asked:
            if hinted.get(leaf.size(d), "None") != "None":
                hinted[leaf.size(d)] = "Dim.DYNAMIC"
    return hinted


class _Names:
    """Writes what is granted in the user's names; sizes that the user or the program makes equal have one."""

    def __init__(self, contract: Contract, grants: Granted, guards: Iterable[Guard]) -> None:
        self._contract, self._grants = contract, grants
        self._names: dict[Any, str] = {}
        self._factors: dict[str, int] = {}
        factors = _factors(guards)
        for leaf, d, ask in self._asked():
            size = self._size(leaf, d)
            if getattr(size, "is_Symbol", False) and ask.name and not ask.root:
                name = self._names.setdefault(size, ask.name)
                self._factors[name] = math.lcm(self._factors.get(name, 1), factors.get(leaf.size(d), 1))

    def dims(self) -> dict[str, str]:
        """The code of each asked dimension, by torch's words for the size."""
        return {leaf.size(d): self._dim(self._size(leaf, d), ask, leaf.shape[d]) for leaf, d, ask in self._asked()}

    def _asked(self) -> Iterator[tuple[Leaf, int, Ask]]:
        for leaf in self._contract.leaves:
            for d, ask in leaf.asked.items():
                yield leaf, d, ask

    def _size(self, leaf: Leaf, d: int) -> Any:
        return self._grants.sizes.get(leaf.index, leaf.shape)[d]

    def _dim(self, size: Any, ask: Ask, example: int) -> str:
        symbols = list(getattr(size, "free_symbols", ()))
        if not symbols:
            return "None"
        if not ask.name or len(symbols) > 1:
            return "Dim.DYNAMIC" if size.is_Symbol else "Dim.AUTO"
        (symbol,) = symbols
        offset = int(size.subs({symbol: 0}))
        scale = int(size.subs({symbol: 1})) - offset
        name = self._names.get(symbol)
        if name is None:  # the root of a derived dimension, which the user may have named
            name = self._names.setdefault(symbol, ask.root or f"{ask.name}_{scale}")
        if example - offset < 2 * scale * self._factors.get(name, 1):  # torch takes a root of 1 for a constant
            return "Dim.DYNAMIC"
        return self._written(symbol, name, scale, offset)

    def _written(self, symbol: Any, name: str, scale: int, offset: int) -> str:
        factor = self._factors.get(name, 1)
        whole = name if factor == 1 else f"{name}_{factor}"
        text = f"Dim({', '.join([repr(whole), *self._bounds(symbol, name, factor)])})"
        text = text if scale * factor == 1 else f"{scale * factor} * {text}"
        return text if not offset else f"{text} + {offset}" if offset > 0 else f"{text} - {-offset}"

    def _bounds(self, symbol: Any, name: str, factor: int) -> list[str]:
        """The bounds of a `Dim`: the program's, and those of all dimensions that have its name."""
        low, high = 0, None
        for leaf, d, ask in self._asked():
            size = self._size(leaf, d)
            if size == symbol or self._names.get(size) == name:
                least, most = self._grants.ranges.get(size, (0, None))
                low = max(low, least if least > HINT_MIN else 0, ask.minimum if ask.minimum > 1 else 0)
                high = min((n for n in (high, most, ask.maximum) if n is not None), default=None)
        found = [f"min={-(-low // factor)}"] if low > 1 else []
        return found if high is None else [*found, f"max={high // factor}"]


def _factors(guards: Iterable[Guard]) -> dict[str, int]:
    """By size: the number that a guard wants it to be a multiple of."""
    found: dict[str, int] = {}
    for guard in guards:
        if guard.deferred or narrowing.kind_of(guard) != "divisible" or len(guard.sources) != 1:
            continue
        (source,) = guard.sources.values()
        numbers = [int(n) for n in guard.expression.atoms() if getattr(n, "is_Integer", False) and int(n) > 1]
        if numbers and "Mod(" in str(guard.expression):
            found[source] = math.lcm(found.get(source, 1), numbers[0])
    return found


def written(model: Any, inputs: Inputs, contract: Contract, dims: Mapping[str, str]) -> str:
    """``dynamic_shapes`` as code, by the names of the parameters of forward.

    Args:
        model: Its ``forward`` gives the names.
        inputs: The example call, which gives the structure.
        contract: The tensors in it.
        dims: The code of each dynamic dimension, by torch's words for the size; ``None`` for a static one.
    """
    leaves = {leaf.source: leaf for leaf in contract.leaves}
    items = [f"{name!r}: {_value(value, f'L[{name!r}]', leaves, dims)}" for name, value in named(model, inputs).items()]
    return "{" + ", ".join(items) + "}"


def _value(value: Any, source: str, leaves: Mapping[str, Leaf], dims: Mapping[str, str]) -> str:
    leaf = leaves.get(source)
    if leaf is not None:
        said = {d: dims.get(leaf.size(d), "None") for d in leaf.asked}
        inner = ", ".join(f"{d}: {text}" for d, text in said.items() if text != "None")
        return f"{{{inner}}}" if inner else "None"
    parts = [(key, _value(child, source + suffix, leaves, dims)) for key, child, suffix in children(value)]
    if not parts:
        return "None"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {text}" for key, text in parts) + "}"
    texts = ", ".join(text for _, text in parts)
    return f"({texts},)" if isinstance(value, tuple) else f"[{texts}]"
