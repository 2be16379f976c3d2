"""# model-does-not-run (EXP002)

## What it does
Reports a model case whose factory or whose plain eager call raises, aborts or never ends. The check `device` reports
the line of a model that runs on the CPU and raises on an accelerator, as a warning.

## Why it matters
Everything else that exportlint checks compares with the eager model. While that does not run, no check can pass.
"""

from exportlint.rules.base import Near, Observer, Rule, observed
from exportlint.rules.examples import example

_FORWARD = "def forward(self, x):\n    return x @ self.weight"
_GOOD = example(_FORWARD, init="self.weight = nn.Parameter(torch.ones(4, 3))")

RULE = Rule(
    code="EXP002",
    name="model-does-not-run",
    summary="The model cannot be built, or its eager call fails, so nothing can be said about its export",
    rewrite="Make the factory return a module that accepts the example inputs.",
    page=__doc__,
    outcomes=observed("breaks"),
    bad=example(_FORWARD, init="self.weight = nn.Parameter(torch.ones(3, 4))"),
    good=_GOOD,
    fixed=_GOOD,
    near=(
        Near(
            bad=example("def forward(self, x):\n    return x.reshape(7)"),
            good=example("def forward(self, x):\n    return x.reshape(8)"),
        ),
    ),
    proof="check",
    observed_by=(Observer(check="capture"),),
)
