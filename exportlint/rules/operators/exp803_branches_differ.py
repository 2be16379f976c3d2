"""# branches-differ (EXP803)

## What it does
Reports a `torch.cond` whose branches return different things: another number of results, tensors of other ranks, bools
and floating-point numbers, dtypes of which only one is cast to, a tensor and a Python number. All but the casts holds
of what the body of a `while_loop` returns and what it is given, too.

## Why it matters
One graph stands for both ways, so both must return the same number of tensors, of the same rank and dtype. No capture
mode takes branches that differ, and in eager neither function runs with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.rules.base import Match, Near, Observer, Rule, outcomes
from exportlint.rules.examples import example
from exportlint.source.events import Paired
from exportlint.source.values import ANY_DTYPE, Const, Sequence, Tensor, Value

if TYPE_CHECKING:
    from collections.abc import Iterator


def match(event: Paired) -> Iterator[Match]:
    """What is known of two results shows that they are not alike."""
    first, second = _leaves(event.first), _leaves(event.second)
    if first is None or second is None:
        return
    found = _counts(first, second) or next(filter(None, map(_difference, first, second)), "")
    if event.name == "torch.cond" and not found:
        found = next(filter(None, (*map(_casts, first, second), *map(_casts, second, first))), "")
    if found:
        ends = "its branches return" if event.name == "torch.cond" else "its body returns, and is given,"
        yield Match(event.site, f"`{event.name}` is not captured: {ends} {found}")


def _leaves(value: Value) -> tuple[Value, ...] | None:
    """The results that a branch returns, one after another; ``None`` where their number is not known."""
    if isinstance(value, (Tensor, Const)):
        return (value,)
    if not isinstance(value, Sequence) or value.items is None:
        return None
    parts = [_leaves(part) for part in value.items]
    return None if None in parts else tuple(leaf for part in parts for leaf in part or ())


def _counts(first: tuple[Value, ...], second: tuple[Value, ...]) -> str:
    return f"{len(first)} and {len(second)} results" if len(first) != len(second) else ""


def _difference(first: Value, second: Value) -> str:
    """How two results surely differ, in words; nothing where they may be alike."""
    if not isinstance(first, Tensor) or not isinstance(second, Tensor):
        mixed = isinstance(first, Tensor) != isinstance(second, Tensor)
        other = second if isinstance(first, Tensor) else first
        return f"a tensor and `{other.value}`" if mixed and isinstance(other, Const) else ""
    ranks = _rank(first), _rank(second)
    if None not in ranks and ranks[0] != ranks[1]:
        return f"tensors of {ranks[0]} and {ranks[1]} dimensions"
    if (first.boolean and second.real) or (first.real and second.boolean):
        return "bools and floating-point numbers"
    return ""


def _casts(first: Value, second: Value) -> str:
    """Two dtypes, to one of which a branch casts; a result that was not cast has the one that models compute in."""
    if not isinstance(first, Tensor) or not isinstance(second, Tensor):
        return ""
    if first.dtype in ("", ANY_DTYPE, "torch.float32") or second.dtype in (first.dtype, ANY_DTYPE):
        return ""
    if not second.dtype and not (second.full and second.fed and not second.boolean):
        return ""
    return f"`{first.dtype}` and " + (f"`{second.dtype}`" if second.dtype else "what was not cast")


def _rank(tensor: Tensor) -> int | None:
    return 0 if tensor.scalar else None if tensor.dims is None else len(tensor.dims)


def _cond(result: str) -> str:
    return example(f"def forward(self, x):\n    return torch.cond(x.sum() > 0, torch.sin, lambda x: {result}, (x,))")


def _loop(result: str) -> str:
    return example(
        f"""
        def forward(self, x):
            def body(i, y):
                return i + 1, {result}

            return while_loop(lambda i, y: i < 3, body, (torch.tensor(0), x.sin()))[1]
        """,
        imports="from torch._higher_order_ops.while_loop import while_loop",
    )


RULE = Rule(
    code="EXP803",
    name="branches-differ",
    summary="The branches of torch.cond, or the body of a while_loop and its inputs, are not alike",
    rewrite="Return as many tensors from both, of the same rank and dtype.",
    page=__doc__,
    outcomes=outcomes(export="breaks", strict="breaks", compiled="breaks"),
    bad=_loop("y.sum()"),
    good=_loop("y.sin()"),
    fixed=_loop("y.sum().expand_as(y) * 1"),
    near=(
        Near(bad=_loop("y.isnan()"), good=_loop("y.tanh()")),
        Near(bad=_loop("-1"), good=_loop("-y")),
        Near(bad=_cond("x.double()"), good=_cond("x.negative()")),
    ),
    proof="capture",
    observed_by=(Observer(check="capture"), Observer(check="compile", mode="compile")),
    events=(Paired,),
    match=match,
)
