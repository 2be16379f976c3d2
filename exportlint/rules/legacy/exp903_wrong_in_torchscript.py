"""# wrong-in-torchscript (EXP903)

## What it does
Reports a traced or scripted model that computes something else than the eager model, or fails where that does not: for
the example, or for the second call of the case.

## Why it matters
A trace keeps what Python decided in the example: the branch that was taken, how often a loop ran, a number that was
computed from a size. No error tells, and a call that should decide otherwise gets a wrong result.
"""

from exportlint.rules.base import Near, Observer, Rule, observed
from exportlint.rules.examples import example


def _example(condition: str) -> str:
    forward = f"def forward(self, x):\n    if {condition}:\n        return x * 2\n    return x * 3"
    return example(forward, inputs="torch.ones(2, 4)", inputs2="torch.ones(5, 4)")


RULE = Rule(
    code="EXP903",
    name="wrong-in-torchscript",
    summary="The traced or scripted model computes something else than the eager model",
    rewrite="Compute the decision with tensors, such as torch.where, or deploy by torch.export, which guards it.",
    page=__doc__,
    outcomes=observed("unportable"),
    bad=_example("x.shape[0] > 2"),
    good=_example("x.shape[1] > 2"),
    fixed=example(
        """
        def forward(self, x):
            rows = torch.ones_like(x[:, 0]).sum()
            return torch.where(rows > 2, x * 2, x * 3)
        """,
        inputs="torch.ones(2, 4)",
        inputs2="torch.ones(5, 4)",
    ),
    near=(Near(bad=_example("x.shape[0] > 2"), good=_example("x.shape[1] > 2")),),
    proof="check",
    observed_by=(Observer(check="torchscript"),),
)
