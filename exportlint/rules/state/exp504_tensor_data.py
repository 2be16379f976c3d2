"""# tensor-data (EXP504)

## What it does
Reports `.data` of a tensor in code that runs under capture: computed with, written to, or bound anew on a parameter or
buffer. What it says of the tensor, such as `x.data.shape`, is fine.

## Why it matters
`.data` is another tensor over the same memory, which no capture records. `torch.export` fails without a line of the
user's, and where something new is bound to it keeps the old one. Strict export keeps what the memory held during the
capture, or drops the write. `torch.compile` does it right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.rules.base import Match, Near, Observer, Rule, Variant, outcomes
from exportlint.rules.examples import example
from exportlint.source.events import Unwrapped

if TYPE_CHECKING:
    from collections.abc import Iterator


def match(event: Unwrapped) -> Iterator[Match]:
    """The ``.data`` of a tensor is read, written to or bound."""
    text = event.site.text
    tensor = text.removesuffix(".data")
    if event.how == "bound":
        yield Match(
            event.site,
            f"`{text}` is bound anew, and the program keeps the old one",
            "bound",
            f"Use {tensor}.copy_(...) under torch.no_grad().",
        )
    elif event.how == "written":
        rewrite = f"Write to {tensor} itself, under torch.no_grad()."
        yield Match(event.site, f"what is written to `{text}` is not captured", "written", rewrite)
    else:
        rewrite = f"Use {tensor}.detach()." if tensor != text else ""
        yield Match(event.site, f"`{text}` is computed with, and no capture records where it comes from", "", rewrite)


_MEAN = 'self.register_buffer("mean", torch.zeros(4))'

RULE = Rule(
    code="EXP504",
    name="tensor-data",
    summary="The `.data` of a tensor bypasses what a capture records",
    rewrite="Use detach() to read it, and write in place under torch.no_grad().",
    page=__doc__,
    outcomes=outcomes(export="breaks", strict="breaks", compiled="fine"),
    variants={
        "written": Variant(
            outcomes=outcomes(export="breaks", strict="silent", compiled="fine"),
            bad=example(
                """
                def forward(self, x):
                    self.mean.data.copy_(x.mean(0))
                    return x - self.mean
                """,
                init=_MEAN,
            ),
            proof="second call",
        ),
        "bound": Variant(
            outcomes=outcomes(export="silent", strict="fine", compiled="fine"),
            bad=example(
                """
                def forward(self, x):
                    self.mean.data = self.mean * 0.9 + x.mean(0) * 0.1
                    return x - self.mean
                """,
                init=_MEAN,
            ),
            proof="second call",
        ),
    },
    bad=example("def forward(self, x):\n    return x - x.data.mean(-1, keepdim=True)"),
    good=example("def forward(self, x):\n    return x - x.data.dim()"),
    fixed=example("def forward(self, x):\n    return x - x.detach().mean(-1, keepdim=True)"),
    near=(
        Near(
            bad=example("def forward(self, x):\n    return x * x.data.sum()"),
            good=example("def forward(self, x):\n    return x * x.mT.sum()"),
        ),
    ),
    proof="capture",
    observed_by=(Observer(check="capture"),),
    events=(Unwrapped,),
    match=match,
)
