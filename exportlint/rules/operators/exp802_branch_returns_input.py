"""# branch-returns-input (EXP802)

## What it does
Reports a branch of `torch.cond`, or a body of `while_loop`, that returns one of its inputs or a view of one, and a
branch of `torch.cond` that writes to one of its inputs, or to a buffer.

## Why it matters
What a branch returns must not share memory with what it is given. No capture mode takes a branch that does, and neither
function runs with one in eager while gradients are on. Without gradients, eager and some backends of `torch.compile`
take such a branch of `cond`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.fixes.edits import Behind, fix
from exportlint.rules.base import Match, Near, Observer, Rule, Variant, outcomes
from exportlint.rules.examples import example
from exportlint.source.events import Branched

if TYPE_CHECKING:
    from collections.abc import Iterator


def match(event: Branched) -> Iterator[Match]:
    """A branch hands on what it was given."""
    text = event.site.text
    if event.writes:
        said = f"`{text}` writes to a tensor from outside of this branch of `{event.name}`"
        yield Match(event.site, said, "writes", "Compute a new tensor, and return it.")
        return
    yield Match(
        event.site,
        f"`{text}`, which this branch of `{event.name}` returns, shares the memory of its input",
        rewrite=f"Return a copy: `{text}.clone()`.",
        fix=fix("Return a copy", Behind(event.site.range, ".clone()")),
    )


def _cond(result: str) -> str:
    return example(f"""
        def forward(self, x):
            with torch.enable_grad():
                return torch.cond(x.sum() > 0, lambda x: {result}, lambda x: x * 2, (x,))
    """)


def _loop(result: str) -> str:
    return example(
        f"""
        def forward(self, x):
            def body(i, x, y):
                y = y + x
                return i + 1, {result}, y

            return while_loop(lambda i, x, y: i < 3, body, (torch.tensor(0), x, x * 2))[2]
        """,
        imports="from torch._higher_order_ops.while_loop import while_loop",
    )


RULE = Rule(
    code="EXP802",
    name="branch-returns-input",
    summary="A branch of torch.cond or while_loop returns its input, or a view of it",
    rewrite="Return a copy: `x.clone()`.",
    page=__doc__,
    outcomes=outcomes(export="breaks", strict="breaks", compiled="breaks"),
    variants={
        "writes": Variant(
            outcomes=outcomes(export="breaks", strict="breaks", compiled="fine"),
            bad=example(
                "def forward(self, x):\n    return torch.cond(x.sum() > 0, lambda x: x.add_(1) * 2, torch.sin, (x,))"
            ),
        ),
    },
    bad=_loop("x"),
    good=_loop("x + 1"),
    fixed=_loop("x.clone()"),
    near=(
        Near(bad=_cond("x[:2].view_as(x)"), good=_cond("x[:2].div(x)")),
        Near(bad=_cond("x"), good=_cond("-x")),
    ),
    proof="capture",
    observed_by=(Observer(check="capture"), Observer(check="compile", mode="compile")),
    events=(Branched,),
    match=match,
)
