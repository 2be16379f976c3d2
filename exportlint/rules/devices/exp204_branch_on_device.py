"""# branch-on-device (EXP204)

## What it does
Reports a branch on `x.is_cuda`, `x.device.type` or `torch.cuda.is_available()` that changes the captured program.

In the source it is told where that is sure: a test of where a tensor is, such as `x.is_cuda` or
`x.device.type == "mps"`, does plain arithmetic with tensors on one side and something else on the other, or keeps
float64 away from a device that has none. A test that only chooses a kernel or moves a tensor is none, and one of what
the machine has, such as `torch.cuda.is_available()`, is found by runs only, as is everything that a call hides.

## Why it matters
The branch is taken once, on the machine that exports. The program keeps it everywhere.

Under `torch.compile` it is no finding: the model is captured anew on the device at hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.rules.base import Match, Near, Observer, Rule, Variant, outcomes
from exportlint.rules.examples import example
from exportlint.source.events import Parted

if TYPE_CHECKING:
    from collections.abc import Iterator


def match(event: Parted) -> Iterator[Match]:
    """A test of where a tensor is decides what is computed."""
    what = "the dtype" if event.casts else "what is computed"
    why = f"decides {what}, which is another on {event.kind}"
    if event.lacking:
        why = f"keeps {event.lacking.removeprefix('torch.')} away from {event.kind}, which has none"
    words = f"`{event.site.text}` {why}; a program keeps what the exporting machine takes"
    yield Match(event.site, words, "another path" if event.casts else "")


RULE = Rule(
    code="EXP204",
    name="branch-on-device",
    summary="Python control flow is decided by the device at export time",
    rewrite="Write device-independent code, or export once for each kind of device.",
    page=__doc__,
    outcomes=outcomes(export="unportable", strict="unportable", compiled="fine"),
    variants={
        "another path": Variant(
            outcomes=outcomes(export="fine", strict="fine", compiled="fine"),
            bad=example("def forward(self, x):\n    return x.half().float() if x.is_cuda else x"),
            advice=True,
        ),
    },
    bad=example("def forward(self, x):\n    return x * 2 if x.is_cuda else x"),
    good=example("def forward(self, x):\n    return x * 2 if x.requires_grad else x"),
    fixed=example("def forward(self, x):\n    return x"),
    near=(
        Near(
            bad=example('def forward(self, x):\n    return x * 2 if x.device.type == "cuda" else x'),
            good=example('def forward(self, x):\n    return x * 2 if x.device.type == "none" else x'),
        ),
    ),
    proof="check",
    observed_by=(Observer(check="device"),),
    events=(Parted,),
    match=match,
)
