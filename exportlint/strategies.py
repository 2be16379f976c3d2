"""Strategies of hypothesis for the inputs of models, drawn from a dynamic-shape contract.

::

    from hypothesis import given
    from exportlint import strategies

    @given(strategies.inputs(CASE))
    def test_is_finite(inputs):
        args, kwargs = inputs
        assert model(*args, **kwargs).isfinite().all()

Needs torch and hypothesis; importing this module imports neither.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import torch
    from hypothesis.strategies import SearchStrategy

    from exportlint.checks.case import Inputs, ModelCase
    from exportlint.checks.context import Context
    from exportlint.shapes.contents import Domain
    from exportlint.shapes.contract import Contract
    from exportlint.shapes.strategies import Space

__all__ = ["contract", "inputs", "shapes"]

MOST_ELEMENTS = 2**20  # of all tensors of a drawn call


def contract(model: torch.nn.Module, *calls: Any, dynamic_shapes: Any = None) -> Contract:
    """Which dimensions of a model's inputs may vary.

    Args:
        model: Its ``forward`` gives the names of the arguments.
        *calls: Example calls: each a tuple of positional arguments, or a pair ``(args, kwargs)`` with a dict as its
            second item. Without `dynamic_shapes` the dimensions that vary between them are dynamic, and those of the
            same sizes in every call vary together.
        dynamic_shapes: As for `torch.export.export`, in every form that it takes.

    Raises:
        ValueError: When there is no call, or nothing that says what may vary, or `dynamic_shapes` do not fit the call.
        TypeError: When the model, an example call or `dynamic_shapes` is of another kind.
    """
    from exportlint.shapes import contract as contracts

    _require_module(model)
    if not calls:
        raise ValueError("a contract needs an example call")
    first, *others = map(_call, calls)
    if dynamic_shapes is not None:
        asked = contracts.declared(model, first, _fitting(model, first, dynamic_shapes))
        if not asked.dynamic:
            raise ValueError("dynamic_shapes let nothing vary")
        return asked
    if not others:
        raise ValueError("a contract needs dynamic_shapes, or a second example call of other sizes")
    if not any(contracts.same_structure(first, other) for other in others):
        raise ValueError("no further example call has the structure of the first")
    found = contracts.inferred(model, first, *others)
    if not found.dynamic:
        raise ValueError("nothing varies between the example calls, and there are no dynamic_shapes")
    return found


def _require_module(model: Any) -> None:
    """Look whether it is a module.

    Raises:
        TypeError: When it is not.
    """
    from torch import nn

    if not isinstance(model, nn.Module):
        kind = f"the class {model.__name__}: make one" if isinstance(model, type) else type(model).__name__
        raise TypeError(f"a contract is that of a module, not of {kind}")


def _fitting(model: torch.nn.Module, call: Inputs, dynamic_shapes: Any) -> Any:
    """Dynamic shapes that fit the call, those of a class of torch's own written out.

    Raises:
        ValueError: When they do not fit.
        TypeError: When they are of another kind.
    """
    from collections.abc import Mapping

    from exportlint.shapes.misfit import misfit

    if hasattr(dynamic_shapes, "dynamic_shapes"):
        try:
            dynamic_shapes = dynamic_shapes.dynamic_shapes(model, *call)
        except Exception as error:
            raise ValueError(f"dynamic_shapes cannot be written out: {error}") from error
    if not isinstance(dynamic_shapes, (Mapping, tuple, list)):
        raise TypeError(f"dynamic_shapes must be a mapping, a tuple or a list, not {type(dynamic_shapes).__name__}")
    wrong = misfit(model, call, dynamic_shapes)
    if wrong is not None:
        raise ValueError(f"dynamic_shapes {wrong}")
    return dynamic_shapes


def shapes(contract: Contract) -> SearchStrategy[dict[str, tuple[int, ...]]]:
    """Shapes inside a contract: by the user's words for a tensor, such as ``batch['ids']``, its sizes.

    Relations between dimensions are kept. Sizes go to the declared maximum, and shrink towards the smallest. A Python
    integer that may vary is there as well, alone in its tuple.

    Raises:
        TypeError: When it is no contract.
    """
    from exportlint.shapes.contract import Contract, wanted
    from exportlint.shapes.strategies import Space, values_of

    if not isinstance(contract, Contract):
        raise TypeError(f"shapes are drawn from what strategies.contract returns, not from a {type(contract).__name__}")
    space = Space(((), {}), contract, wanted(contract), {})

    def named(values: Mapping[Any, int]) -> dict[str, tuple[int, ...]]:
        made = space.shapes(values)
        return {leaf.words: made[leaf.index] for leaf in contract.leaves}

    return values_of(space.variables()).map(named)


def inputs(case: ModelCase) -> SearchStrategy[Inputs]:
    """Calls of a model case: pairs of positional and keyword arguments, new tensors in each.

    Sizes are drawn inside the case's contract, relations kept, and so are integers that are dynamic. The tensors of a
    call have at most `MOST_ELEMENTS` elements in all, or as many as the example; a warning says where that lowers a
    declared maximum. Contents are drawn
    by kind and seed: floats, negative ones as well where the case gives no range, integers over the range that the case
    gives or that the model's embeddings have, masks of each pattern, each in several memory layouts. What else is no
    tensor stays as in the example. The model is built and called: once, and where sizes are hints, such as `Dim.AUTO`,
    some times more with others, since of hints that are equal in the example it may take equal ones only.

    Args:
        case: Its `dynamic_shapes`, or a second example of other sizes, say what may vary; without either only contents
            vary.

    Raises:
        TypeError: When it is no model case.
        ValueError: When its `dynamic_shapes` do not fit its example, it holds tensors of which no others can be drawn
            (sparse and quantised ones), or it has methods, which have calls of their own.
        Exception: What the case's functions or its model raise.
    """
    from exportlint.checks.case import ModelCase
    from exportlint.checks.context import ModelError
    from exportlint.shapes.contract import wanted
    from exportlint.shapes.strategies import Space

    if not isinstance(case, ModelCase):
        raise TypeError(f"inputs are drawn of a ModelCase, not of a {type(case).__name__}")
    if case.methods:
        names = ", ".join(case.methods)
        raise ValueError(
            f"case {case.name!r} has methods, each with calls of its own; case.expand() gives one: {names}"
        )
    try:
        example, asked, domains = _of_case(case)
    except ModelError as error:
        raise (error.__cause__ or error) from None
    space = Space(example, asked, wanted(asked), domains, _few_elements(asked))
    _warn_of_lowered(space)
    return space.drawn().map(lambda drawn: drawn.inputs)


def _of_case(case: ModelCase) -> tuple[Inputs, Contract, dict[int, Domain]]:
    """The example of a case, its contract, and the values of its tensors.

    Raises:
        ModelError: When the model cannot be built, or a call not be made.
        ValueError: When the dynamic shapes do not fit the example.
    """
    from exportlint.checks.context import Context, Settings
    from exportlint.shapes import contents

    context = Context(case, Settings(()), announce=lambda _: None)
    _require_plain(context.example(), case.name)
    context.expected()
    if case.dynamic_shapes is not None and not hasattr(case.dynamic_shapes, "dynamic_shapes"):
        _fitting(context.build(), context.example(), case.dynamic_shapes)
    asked, _ = context.contract()
    domains = contents.domains(context.build(), asked, (context.example(),), case.value_ranges)
    return context.example(), _tied(context, asked, domains), domains


def _tied(context: Context, asked: Contract, domains: dict[int, Domain]) -> Contract:
    """The contract in which hints vary together where the model takes nothing else."""
    from exportlint.checks.context import call, fresh
    from exportlint.shapes import hints, strategies
    from exportlint.shapes.contract import wanted

    space, model = strategies.Space(context.example(), asked, wanted(asked), domains), context.build()

    def takes(shapes: Mapping[int, tuple[int, ...]]) -> bool:
        drawn = space.call(shapes, lambda kinds, layouts: strategies.plain(0, kinds, layouts))
        try:
            call(model, fresh(drawn.inputs))
        except Exception:
            return False
        return True

    return hints.tied(asked, takes)


def _require_plain(example: Inputs, name: str) -> None:
    """Look whether others of the tensors can be made.

    Raises:
        ValueError: When one is sparse or quantised.
    """
    import torch
    from torch.utils import _pytree as pytree

    for tensor in pytree.tree_leaves(example):
        if isinstance(tensor, torch.Tensor) and (tensor.layout != torch.strided or tensor.is_quantized):
            kind = "quantised" if tensor.is_quantized else "sparse"
            raise ValueError(f"case {name!r} has a {kind} tensor as input, of which no others are drawn")


def _few_elements(contract: Contract) -> Callable[[Mapping[str, int]], bool]:
    """Whether tensors of some sizes, by torch's words for them, have few elements in all."""
    most = max(MOST_ELEMENTS, sum(math.prod(leaf.shape) for leaf in contract.tensors))

    def affords(sizes: Mapping[str, int]) -> bool:
        shapes = ([sizes[leaf.size(d)] for d in range(len(leaf.shape))] for leaf in contract.tensors)
        return sum(map(math.prod, shapes)) <= most

    return affords


def _warn_of_lowered(space: Space) -> None:
    """Say which declared maximum no call is drawn with."""
    for leaf, d, ask in space.contract.asked:
        largest = max(space.shapes({key: edge for key, (_, _, edge) in space.variables().items()})[leaf.index][d], 0)
        if ask.maximum is not None and largest < ask.maximum:
            words = f"{leaf.name(d)} is drawn up to {largest}, not to the declared {ask.maximum}"
            warnings.warn(f"{words}: a call has at most {MOST_ELEMENTS} elements", stacklevel=3)


def _call(call: Any) -> Inputs:
    """A call as positional and keyword arguments.

    Raises:
        TypeError: When it is none.
    """
    if isinstance(call, tuple) and len(call) == 2 and isinstance(call[0], tuple) and isinstance(call[1], dict):
        return call[0], call[1]
    if not isinstance(call, tuple):
        raise TypeError(f"an example call is a tuple of arguments, or a pair (args, kwargs), not {type(call).__name__}")
    return call, {}
