"""# wrong-result (EXP004)

## What it does
Reports a difference between the exported program and the eager model on the same inputs, where no more specific rule
explains it. The same holds of what `torch.compile` and AOTInductor make of them, where they are checked.

## Why it matters
The program was captured without an error, so nobody notices until its results are used.
"""

from exportlint.rules.base import Near, Observer, Rule, observed
from exportlint.rules.examples import example

_GOOD = example("def forward(self, x):\n    return x * 2 if isinstance(x, torch.Tensor) else x")

RULE = Rule(
    code="EXP004",
    name="wrong-result",
    summary="The exported program computes something else than the eager model",
    rewrite="Find the first module whose output parts and compare its forward with the program's graph.",
    page=__doc__,
    outcomes=observed("silent"),
    bad=example("def forward(self, x):\n    return x * 2 if type(x) is torch.Tensor else x"),
    good=_GOOD,
    fixed=_GOOD,
    near=(
        Near(
            bad=example("def forward(self, x):\n    return x * 2 if type(x) == torch.Tensor else x"),
            good=example("def forward(self, x):\n    return x * 2 if type(self) == torch.Tensor else x"),
        ),
    ),
    proof="check",
    observed_by=(Observer(check="capture"),),
)
