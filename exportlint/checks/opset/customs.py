"""Operators of the user's own, tried by ``torch.library.opcheck`` with the inputs that they get in the example call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from exportlint import blame
from exportlint.checks.opset.facts import kind_of
from exportlint.parity.parting import line_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch.export import ExportedProgram

    from exportlint.places import Place

MOST_CALLS = 3  # of one operator, with arguments of other shapes and dtypes


@dataclass(frozen=True, slots=True)
class Failure:
    """What a test of torch says of an operator.

    Attributes:
        operator: Its name.
        test: The test.
        words: What torch says.
        place: The line that calls the operator.
    """

    operator: str
    test: str
    words: str
    place: Place | None


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an operator, as it was observed."""

    node: torch.fx.Node
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def like(self) -> str:
        """The same for calls that opcheck need not try twice."""
        leaves = pytree.tree_leaves((self.args, self.kwargs))
        shapes = [(tuple(t.shape), t.dtype) if isinstance(t, torch.Tensor) else t for t in leaves]
        return f"{self.node.target}{shapes!r}"


class _Observer(torch.fx.Interpreter):
    """Runs a program, and notes what operators of nobody's own are given."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.calls: dict[str, Call] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        if n.op == "call_function" and kind_of(n) == "custom":
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            call = Call(n, _copied(args), dict(_copied(kwargs)))
            self.calls.setdefault(call.like, call)
        return super().run_node(n)


def _copied(tree: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, lambda t: t.detach().clone(), tree)


def observed(program: ExportedProgram, flat: Sequence[Any]) -> list[Call]:
    """The calls of such operators in one call of the program; those inside of control flow are not seen.

    Args:
        program: The program.
        flat: Its flattened arguments.
    """
    observer = _Observer(program.module(check_guards=False))
    with torch.no_grad():
        observer.run(*flat)
    number: dict[str, int] = {}
    calls = []
    for call in observer.calls.values():
        name = str(call.node.target)
        number[name] = number.get(name, 0) + 1
        if number[name] <= MOST_CALLS:
            calls.append(call)
    return calls


def failures(calls: Sequence[Call]) -> Iterator[Failure]:
    """What torch finds wrong with the operators, the first of each test."""
    seen: set[tuple[str, str]] = set()
    for call in calls:
        operator: Any = call.node.target
        results = torch.library.opcheck(operator, call.args, call.kwargs, raise_exception=False)
        for test, result in results.items():
            key = str(call.node.target), test
            if isinstance(result, BaseException) and key not in seen:
                seen.add(key)
                yield Failure(*key, blame.words(result), line_of(call.node))
