"""# not-captured (EXP003)

## What it does
Reports a failure of `torch.export.export` for which the catalogue holds no more specific rule; of `torch.compile` and
AOTInductor too, where they are checked.

## Why it matters
A model that is not captured cannot be shipped without its Python source.
"""

from exportlint.rules.base import Near, Observer, Rule, observed
from exportlint.rules.examples import example

_GOOD = example("def forward(self, x):\n    return x * 2 + 1")

RULE = Rule(
    code="EXP003",
    name="not-captured",
    summary="torch.export cannot capture the model",
    rewrite="Rewrite the line with operators that torch.export can trace, or keep it outside of forward.",
    page=__doc__,
    outcomes=observed("breaks"),
    bad=example("def forward(self, x):\n    y = x * 2\n    y.data.add_(1)\n    return y"),
    good=_GOOD,
    fixed=_GOOD,
    near=(
        Near(
            bad=example("def forward(self, x):\n    y = x.exp()\n    y.data.add_(1)\n    return y"),
            good=example("def forward(self, x):\n    y = x.exp()\n    y.T.add_(1)\n    return y"),
        ),
    ),
    proof="check",
    observed_by=(Observer(check="capture"),),
)
