"""# module-made-in-forward (EXP502)

## What it does
Reports modules with parameters, `nn.Linear(...)`, and parameters, `nn.Parameter(...)`, that `forward` makes.

## Why it matters
Its parameters are new in every call, on the default device, and unknown to the state dict. TorchDynamo (strict export
and `torch.compile`) refuses to make parameters; `torch.compile` makes one of a tensor that is there before the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.rules.base import Match, Near, Observer, Rule, Variant, outcomes
from exportlint.rules.examples import example
from exportlint.source.events import Called
from exportlint.source.facts import facts
from exportlint.source.values import Tensor, TorchModule

if TYPE_CHECKING:
    from collections.abc import Iterator

_PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})
_KEPT = "Make it in __init__, or compute with the tensor itself."


def match(event: Called) -> Iterator[Match]:
    """A module with parameters, or a parameter, was made."""
    if event.name in _PARAMETERS:
        of = event.arguments[0] if event.arguments else event.keywords.get("data")
        own = isinstance(of, Tensor) and not of.fed and not of.kept
        text = f"`{event.site.text}` makes a new parameter in every call"
        yield Match(event.site, text, "parameter" if own else "parameter of a tensor", _KEPT)
        return
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
    variants={
        "parameter": Variant(
            outcomes=outcomes(export="fine", strict="breaks", compiled="breaks"),
            bad=example("def forward(self, x):\n    return x * nn.Parameter(torch.ones(4, device=x.device))"),
        ),
        "parameter of a tensor": Variant(
            outcomes=outcomes(export="fine", strict="breaks", compiled="fine"),
            bad=example("def forward(self, x):\n    return x * nn.Parameter(x)"),
        ),
    },
    bad=example("def forward(self, x):\n    return nn.Linear(4, 4)(x) * 0"),
    good=example("def forward(self, x):\n    return nn.ReLU()(x)"),
    fixed=example("def forward(self, x):\n    return self.head(x) * 0", init="self.head = nn.Linear(4, 4)"),
    near=(
        Near(
            bad=example("def forward(self, x):\n    return nn.LayerNorm(4)(x) * x"),
            good=example("def forward(self, x):\n    return nn.Identity(4)(x) * x"),
        ),
        Near(
            variant="parameter",
            bad=example("def forward(self, x):\n    return x - nn.Parameter(torch.ones(4, device=x.device))"),
            good=example("def forward(self, x):\n    return x - nn.Buffer(torch.ones(4, device=x.device))"),
        ),
    ),
    proof="second device",
    observed_by=(Observer(check="device"), Observer(check="compile", mode="compile")),
    events=(Called,),
    match=match,
)
