"""# tensor-identity (EXP103)

## What it does
Reports Python that asks whether two tensors are the same object: `q is k`, `id(q) == id(k)`.

## Why it matters
The answer of the one call that was captured is kept, without a guard: the program goes the same way for tensors of
which the answer is another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.rules.base import Match, Near, Observer, Rule, outcomes
from exportlint.rules.examples import example
from exportlint.source.events import Identified

if TYPE_CHECKING:
    from collections.abc import Iterator


def match(event: Identified) -> Iterator[Match]:
    """Two tensors were compared by identity."""
    yield Match(event.site, f"`{event.site.text}` asks for the identity of a tensor, and the capture keeps the answer")


_INPUTS = {"inputs": "*(2 * (torch.ones(2),))", "inputs2": "torch.ones(2), torch.ones(2)"}

RULE = Rule(
    code="EXP103",
    name="tensor-identity",
    summary="Python control flow is decided by whether two tensors are one object",
    rewrite="Pass a tensor that says so, or leave out the argument that is the same.",
    page=__doc__,
    outcomes=outcomes(export="silent", strict="silent", compiled="fine"),
    bad=example("def forward(self, q, k):\n    return q.relu() if q is k else q + k.relu()", **_INPUTS),
    good=example("def forward(self, q, k):\n    return q.relu() if k is None else q + k.relu()", **_INPUTS),
    fixed=example(
        "def forward(self, q, k, same):\n    return torch.where(same, q.relu(), q + k.relu())",
        inputs="*(2 * (torch.ones(2),)), torch.tensor(True)",
        inputs2="torch.ones(2), torch.ones(2), torch.tensor(False)",
    ),
    near=(
        Near(
            bad=example(
                """
                def forward(self, q, k):
                    key = id
                    return q.relu() if key(q) == key(k) else q + k.relu()
                """,
                **_INPUTS,
            ),
            good=example(
                """
                def forward(self, q, k):
                    key = type
                    return q.relu() if key(q) == key(k) else q + k.relu()
                """,
                **_INPUTS,
            ),
        ),
    ),
    proof="second call",
    observed_by=(Observer(check="shapes"),),
    events=(Identified,),
    match=match,
)
