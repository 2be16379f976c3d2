"""# argument-frozen (EXP304)

## What it does
Reports an argument of `forward` that is no tensor, such as a flag or a factor, and that differs between the example
calls of a case: the program holds the one of the first call, and refuses the others.

## Why it matters
`torch.export` makes a number dynamic only where that is asked for, and only if it is an integer; a flag, a text or a
floating-point number is always a constant. In Python the model takes all values, the program one.
"""

from exportlint.rules.base import Near, Observer, Rule, observed
from exportlint.rules.examples import example

_TENSOR = example(
    "def forward(self, x, scale):\n    return x * scale",
    inputs="torch.ones(2, 4), torch.tensor(0.5)",
    inputs2="torch.ones(2, 4), torch.tensor(0.75)",
)

RULE = Rule(
    code="EXP304",
    name="argument-frozen",
    summary="An argument that is no tensor is a constant in the program",
    rewrite="Make it a tensor where it varies, or export one program for each value.",
    page=__doc__,
    outcomes=observed("specialises"),
    bad=example(
        "def forward(self, x, scale):\n    return x * scale",
        inputs="torch.ones(2, 4), 0.5",
        inputs2="torch.ones(2, 4), 0.75",
    ),
    good=_TENSOR,
    fixed=_TENSOR,
    near=(
        Near(
            bad=example(
                "def forward(self, x, double):\n    return x * 2 if double else x",
                inputs="torch.ones(2, 4), True",
                inputs2="torch.ones(2, 4), False",
            ),
            good=example(
                "def forward(self, x, double):\n    return x * 2 if double else x",
                inputs="torch.ones(2, 4), True",
                inputs2="torch.ones(2, 4), True",
            ),
        ),
    ),
    proof="check",
    observed_by=(Observer(check="shapes"),),
)
