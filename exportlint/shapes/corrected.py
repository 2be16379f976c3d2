"""The ``dynamic_shapes`` that an export accepts, where it refuses those that were asked for: as code, tried before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exportlint.shapes.contract import HINT_MIN, granted
from exportlint.shapes.printing import import_of
from exportlint.shapes.relations import Relations
from exportlint.shapes.specification import names_in, written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torch.export import ExportedProgram

    from exportlint.checks.case import Inputs
    from exportlint.shapes.contract import Ask, Contract, Granted, Leaf
    from exportlint.shapes.linear import Linear
    from exportlint.shapes.relations import Group
    from exportlint.torch_hooks.guards import Guard

    Export = Callable[[Any], ExportedProgram]

MOST_ALONE = 4  # names that are left to torch one after the other


@dataclass(frozen=True, slots=True)
class Corrected:
    """Dynamic shapes with which the model was exported.

    Attributes:
        code: An expression for them, in terms of `torch.export.Dim`.
        value: The dynamic shapes themselves.
        imports: The statements that import what the expression names.
        lost: Dimensions that should vary together and that nothing holds together any more, in words.
        grants: What the program grants that was exported with them.
        guards: The guards of that export.
    """

    code: str
    value: Any
    imports: tuple[str, ...]
    lost: tuple[str, ...]
    grants: Granted
    guards: tuple[Guard, ...]


def corrected(
    model: Any, inputs: Inputs, contract: Contract, export: Export, guards: Callable[[], Sequence[Guard]]
) -> Corrected | None:
    """The widest dynamic shapes near those of the contract with which the model can be exported.

    The model is exported with every asked dimension `Dim.AUTO`; what that program grants is then written down in the
    user's names and exported with. Where that fails, the dimensions of one name after the other are left to torch.

    Args:
        model: Its ``forward`` gives the names of the arguments.
        inputs: The example call.
        contract: What was asked.
        export: Exports a fresh model from the example call with these dynamic shapes; raises where it cannot.
        guards: The guards of the last export.
    """
    names = names_in(inputs)

    def attempt(dims: Mapping[str, str], *, loose: bool = False) -> Corrected | None:
        code = written(model, inputs, contract, dims)
        try:
            value = eval(code, dict(names))
            program = export(value)
        except Exception:  # refused again, or torch itself fails
            return None
        grants = granted(program)
        asked = [grants.of(leaf, d) for leaf, d, _ in contract.asked if dims[leaf.size(d)] != "None"]
        if not loose and any(not getattr(size, "free_symbols", ()) for size in asked):
            return None
        used = [kind for name, kind in names.items() if f"{name}(" in code or name == "Dim"]
        imports = tuple(statement for kind in used if (statement := import_of(kind)) is not None)
        return Corrected(code, value, imports, _lost(contract, grants), grants, tuple(guards()))

    hints = {leaf.size(d): _hint("Dim.AUTO", ask.minimum, ask.maximum) for leaf, d, ask in contract.asked}
    loose = attempt(hints, loose=True)
    if loose is None:
        return None
    found = (attempt(dims) for dims in _Words(contract, loose.grants, loose.guards).attempts())
    return next((made for made in found if made is not None), loose)


def _hint(hint: str, low: int, high: int | None) -> str:
    """A hint with the bounds of the size."""
    bounds = [f"min={low}"] * (low > 1 and low != HINT_MIN) + [f"max={high}"] * (high is not None)
    return f"{hint}({', '.join(bounds)})" if bounds else hint


class _Words:
    """The code of each asked dimension, by torch's words for the size."""

    def __init__(self, contract: Contract, grants: Granted, guards: Sequence[Guard]) -> None:
        self._relations = Relations(contract, grants, guards)
        # A group of one dimension whose root is 1, which torch takes for a constant, is left to a hint.
        self._groups = [g for g in self._relations.groups() if g.rising and g.start >= HINT_MIN]
        self._hints = {leaf.size(d): self._hinted(grants, leaf, d, ask) for leaf, d, ask in contract.asked}
        self._numbers = {leaf.size(d): self._hints[leaf.size(d)] for leaf, d, _ in contract.asked if leaf.number}

    def attempts(self) -> Iterator[dict[str, str]]:
        """What to try: everything by name, above sizes that torch tells apart, all but one name, hints alone."""
        yield self._named(self._groups)
        apart = [self._relations.past_apart(group) for group in self._groups]
        if apart != self._groups:
            yield self._named(apart)
        for group in self._groups[:MOST_ALONE] if len(self._groups) > 1 else ():
            yield self._named([other for other in self._groups if other is not group])
        yield self._hints

    def _named(self, groups: Sequence[Group]) -> dict[str, str]:
        named = {words: _of_root(group, size) for group in groups for words, size in group.sizes.items()}
        return {**self._hints, **named, **self._numbers}

    def _hinted(self, grants: Granted, leaf: Leaf, d: int, ask: Ask) -> str:
        if not getattr(grants.of(leaf, d), "free_symbols", ()):
            return "None"
        return _hint("Dim.DYNAMIC", *self._relations.range_of(leaf, d, ask))


def _of_root(group: Group, size: Linear) -> str:
    """A size in terms of the root of its group."""
    low, high = group.bounds
    bounds = [f"min={low}"] * group.lower + [f"max={high}"] * (high is not None)
    text = f"Dim({', '.join([repr(group.name), *bounds])})"
    text = text if size.scale == 1 else f"{size.scale} * {text}"
    return text if not size.offset else f"{text} + {size.offset}" if size.offset > 0 else f"{text} - {-size.offset}"


def _lost(contract: Contract, grants: Granted) -> tuple[str, ...]:
    """Dimensions that should vary together and that nothing holds together any more, in words."""
    first: dict[str, tuple[str, Any]] = {}
    found = []
    for leaf, d, ask in contract.asked:
        size = grants.of(leaf, d)
        if not ask.name or not getattr(size, "free_symbols", None):
            continue
        words, number = leaf.name(d), (size - ask.offset) / ask.scale
        other, expected = first.setdefault(ask.variable, (words, number))
        if (number - expected).expand() != 0:
            found.append(f"{other} and {words}")
    return tuple(found)
