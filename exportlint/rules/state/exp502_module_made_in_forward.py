"""# module-made-in-forward (EXP502)

## What it does
Reports modules with parameters that `forward` makes: `nn.Linear(...)` in `forward`.

## Why it matters
Its parameters are new in every call, on the default device, and unknown to the state dict. TorchDynamo (strict export
and `torch.compile`) refuses to make parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.rules.base import Match, Near, Observer, Rule, outcomes
from exportlint.rules.examples import example
from exportlint.source.events import Called
from exportlint.source.facts import facts
from exportlint.source.values import TorchModule

if TYPE_CHECKING:
    from collections.abc import Iterator


def match(event: Called) -> Iterator[Match]:
    """A module with parameters was made."""
    made = isinstance(event.result, TorchModule) and event.receiver is None
    if made and event.name in facts().modules_with_parameters and "device" not in event.keywords:
        yield Match(event.site, f"`{event.site.text}` makes new parameters in every call")


RULE = Rule(
    code="EXP502",
    name="module-made-in-forward",
    summary="A module with parameters is made while the model runs",
    rewrite="Make it in __init__.",
    page=__doc__,
    outcomes=outcomes(export="unportable", strict="breaks", compiled="breaks"),
    bad=example("def forward(self, x):\n    return nn.Linear(4, 4)(x) * 0"),
    good=example("def forward(self, x):\n    return nn.ReLU()(x)"),
    fixed=example("def forward(self, x):\n    return self.head(x) * 0", init="self.head = nn.Linear(4, 4)"),
    near=(
        Near(
            bad=example("def forward(self, x):\n    return nn.LayerNorm(4)(x) * x"),
            good=example("def forward(self, x):\n    return nn.Identity(4)(x) * x"),
        ),
    ),
    proof="second device",
    observed_by=(Observer(check="device"), Observer(check="compile", mode="compile")),
    events=(Called,),
    match=match,
)
