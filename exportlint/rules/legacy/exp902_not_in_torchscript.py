"""# not-in-torchscript (EXP902)

## What it does
Reports a line that neither `torch.jit.trace` nor `torch.jit.script` captures. What only one of the two refuses is
advice.

## Why it matters
The model cannot be deployed by TorchScript. It may well be captured by `torch.export`, which needs neither.
"""

from exportlint.rules.base import Near, Observer, Rule, observed
from exportlint.rules.examples import example

_BODY = (
    "def forward(self, x):\n    return torch.func.{}(self.total)(x)\n\ndef total(self, x):\n    return (x * x).sum()"
)
_GOOD = example(
    """
    def forward(self, x):
        return torch.where(x.sum() > 0, x * 2, x * 3)
    """
)

RULE = Rule(
    code="EXP902",
    name="not-in-torchscript",
    summary="TorchScript captures the model neither by a trace nor by a script",
    rewrite="Deploy by torch.export instead, or write the line with operators that TorchScript knows.",
    page=__doc__,
    outcomes=observed("unportable"),
    bad=example(
        """
        def forward(self, x):
            return torch.cond(x.sum() > 0, self.double, self.triple, (x,))

        def double(self, x):
            return x * 2

        def triple(self, x):
            return x * 3
        """
    ),
    good=_GOOD,
    fixed=_GOOD,
    near=(Near(bad=example(_BODY.format("grad")), good=example(_BODY.format("vmap"))),),
    proof="check",
    observed_by=(Observer(check="torchscript"),),
)
