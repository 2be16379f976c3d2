"""# module-moved-in-forward (EXP505)

## What it does
Reports modules with parameters that `forward` moves or casts: `self.head.to(x.device)`, `self.head.float()`. A method
that runs only where a test of devices or dtypes says so is not reported.

## Why it matters
Moving a module swaps its parameters, also where it is in place already, and `torch.export` cannot swap those that it
captures. TorchDynamo (strict export and `torch.compile`) fails where the dtype becomes another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.rules.base import Match, Near, Observer, Rule, Variant, outcomes
from exportlint.rules.examples import example
from exportlint.source.events import Moved

if TYPE_CHECKING:
    from collections.abc import Iterator

_OTHERS = ("float16", "float64", "bfloat16")


def match(event: Moved) -> Iterator[Match]:
    """A module with parameters is moved or cast."""
    cast = event.dtype in _OTHERS  # parameters are made with float32
    does = "casts" if event.dtype else "moves or casts"
    yield Match(event.site, f"`{event.site.text}` {does} a module's parameters in every call", "cast" if cast else "")


_HEAD = "self.head = nn.Linear(4, 4)"

RULE = Rule(
    code="EXP505",
    name="module-moved-in-forward",
    summary="A module is moved or cast while the model runs",
    rewrite="Move the model before it is called, and the inputs to where its parameters are.",
    page=__doc__,
    outcomes=outcomes(export="breaks", strict="fine", compiled="fine"),
    variants={
        "cast": Variant(
            outcomes=outcomes(export="breaks", strict="breaks", compiled="breaks"),
            bad=example("def forward(self, x):\n    return self.head.double()(x.double())", init=_HEAD),
        ),
    },
    bad=example("def forward(self, x):\n    self.head.to(x.device)\n    return self.head(x)", init=_HEAD),
    good=example("def forward(self, x):\n    self.head.eval()\n    return self.head(x)", init=_HEAD),
    fixed=example("def forward(self, x):\n    return self.head(x)", init=_HEAD),
    near=(
        Near(
            bad=example(
                "def forward(self, x):\n    return self.head.to(x.dtype)(x)", init="self.head = nn.LayerNorm(4)"
            ),
            good=example(
                "def forward(self, x):\n    return self.head.to(x.dtype)(x)", init="self.head = nn.Identity(4)"
            ),
        ),
    ),
    proof="capture",
    observed_by=(Observer(check="capture"),),
    events=(Moved,),
    match=match,
)
