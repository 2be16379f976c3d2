"""# training-operator (EXP005)

## What it does
Reports an operator of the exported program that belongs to training, in a module that is in evaluation mode: dropout
that is always on, or a batch normalisation that goes on updating its statistics.

## Why it matters
The functions of `torch.nn.functional` do not follow `eval()`: `F.dropout(x)` drops values at random unless it is told
otherwise, in eager and in every program that is exported from it.
"""

from exportlint.rules.base import Near, Observer, Rule, observed
from exportlint.rules.examples import example

_HEAD = "import torch.nn.functional as F"
_GOOD = example("def forward(self, x):\n    return F.dropout(x, 0.5, self.training)", imports=_HEAD)

RULE = Rule(
    code="EXP005",
    name="training-operator",
    summary="An operator that belongs to training is left in the program",
    rewrite="Pass training=self.training, or use the module, which follows eval().",
    page=__doc__,
    outcomes=observed("unportable"),
    bad=example("def forward(self, x):\n    return F.dropout(x, 0.5)", imports=_HEAD),
    good=_GOOD,
    fixed=_GOOD,
    fixed_differs="The bad example drops values at random.",
    near=(
        Near(
            bad=example("def forward(self, x):\n    return F.dropout(x, 0.5, True)", imports=_HEAD),
            good=example("def forward(self, x):\n    return F.dropout(x, 0.5, False)", imports=_HEAD),
        ),
    ),
    proof="check",
    observed_by=(Observer(check="capture"),),
)
