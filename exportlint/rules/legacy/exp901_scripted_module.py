"""# scripted-module (EXP901)

## What it does
Reports a call of a module that `torch.jit.script`, `torch.jit.trace` or `torch.jit.load` made, inside of a model.

## Why it matters
A scripted module runs in TorchScript's own runtime, where no capture follows. A traced one passes `torch.export`, whose
own modes without Python's bytecode follow it, and breaks the others. Functions under `@torch.jit.script` are captured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.rules.base import Match, Near, Observer, Rule, Variant, outcomes
from exportlint.rules.examples import example
from exportlint.source.events import Called
from exportlint.source.values import SCRIPTED, TRACED

if TYPE_CHECKING:
    from collections.abc import Iterator


def match(event: Called) -> Iterator[Match]:
    """A module of TorchScript is called."""
    if event.name == SCRIPTED:
        yield Match(event.site, f"`{event.site.text}` runs a scripted module, which no capture follows")
    elif event.name == TRACED:
        yield Match(event.site, f"`{event.site.text}` runs a traced module", "traced")


def _example(made: str, parts: str = "nn.Sequential(nn.Linear(4, 4), nn.ReLU())") -> str:
    init = f"parts = {parts}\nself.act = {made}"
    return example("def forward(self, x):\n    return self.act(x)", init=init)


_BOTH = """
plain = nn.Linear(4, 4)
legacy = torch.jit.{}
self.act = {}.eval()
"""


def _near(made: str, kept: str) -> str:
    return example("def forward(self, x):\n    return self.act(x)", init=_BOTH.format(made, kept))


_SCRIPT = "script(plain)"
_TRACE = "trace(plain, torch.ones(2, 4))"

RULE = Rule(
    code="EXP901",
    name="scripted-module",
    summary="A module of TorchScript is part of the model",
    rewrite="Keep the plain module: torch.export captures the whole model.",
    page=__doc__,
    outcomes=outcomes(export="breaks", strict="breaks", compiled="breaks"),
    variants={
        "traced": Variant(
            outcomes=outcomes(export="fine", strict="breaks", compiled="breaks"),
            bad=_example("torch.jit.trace(parts, torch.ones(2, 4))"),
        ),
    },
    bad=_example("torch.jit.script(parts)"),
    good=_example("parts"),
    fixed=_example("parts"),
    near=(
        Near(bad=_near(_SCRIPT, "legacy"), good=_near(_SCRIPT, "plain")),
        Near(variant="traced", bad=_near(_TRACE, "legacy"), good=_near(_TRACE, "plain")),
    ),
    proof="capture",
    observed_by=(Observer(check="capture"), Observer(check="compile", mode="compile")),
    events=(Called,),
    match=match,
)
