"""# operator-fails-opcheck (EXP804)

## What it does
Reports an operator of your own that `torch.library.opcheck` finds wrong with the inputs that it gets in the example
call: a fake kernel that gives another shape or dtype than the real one, a schema that does not say what is written to.

## Why it matters
The capture goes by the fake kernel and the schema. Where they are wrong, the program is made for other shapes, or torch
moves an operator past what it changes, and the example may not show it.
"""

from exportlint.rules.base import Near, Observer, Rule, observed
from exportlint.rules.examples import example


def _example(fake: str) -> str:
    above = f"""
@torch.library.custom_op("example_of_opcheck::halves", mutates_args=())
def halves(x: torch.Tensor) -> torch.Tensor:
    return x[:, :2] * 1


@halves.register_fake
def fake(x):
    return {fake}
"""
    return example("def forward(self, x):\n    return halves(x)", above=above)


RULE = Rule(
    code="EXP804",
    name="operator-fails-opcheck",
    summary="An operator of the user's own does not do what its fake kernel or its schema says",
    rewrite="Let the fake kernel return what the real one does, and name all arguments that it writes in mutates_args.",
    page=__doc__,
    outcomes=observed("unportable"),
    bad=_example("torch.empty_like(x)"),
    good=_example("x.new_empty(x.shape[0], 2)"),
    fixed=_example("x.new_empty(x.shape[0], 2)"),
    near=(Near(bad=_example("x.new_empty(x.shape[0], 3)"), good=_example("x.new_empty(x.shape[0], 2)")),),
    proof="check",
    observed_by=(Observer(check="opset"),),
)
