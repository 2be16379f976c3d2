"""# fake-tensor-left-behind (EXP503)

## What it does
Reports tensors that `forward` keeps, in an attribute, a class attribute, a global or a cached function, and that a
capture leaves behind as fake tensors.

## Why it matters
While `torch.export` captures a model, tensors have no data. One that outlives the capture is met by the next eager
call, which then returns a tensor without data or fails, far from the export that did the damage.
"""

from exportlint.rules.base import Near, Observer, Rule, observed
from exportlint.rules.examples import example


def _example(decorator: str, made: str) -> str:
    return example(
        f"def forward(self, x):\n    return x + {made}",
        imports="from functools import cache",
        above=f"@{decorator}\ndef table(length, device):\n    return torch.arange(length, device=device)",
    )


RULE = Rule(
    code="EXP503",
    name="fake-tensor-left-behind",
    summary="A tensor without data is left behind in the eager model by the capture",
    rewrite="Make the tensor in __init__ and register it as a buffer, or make it anew in every call.",
    page=__doc__,
    outcomes=observed("silent"),
    bad=_example("cache", "table(4, x.device)"),
    good=_example("cache", "torch.arange(4, device=x.device)"),
    fixed=example(
        "def forward(self, x):\n    return x + self.table",
        init='self.register_buffer("table", torch.arange(4), persistent=False)',
    ),
    near=(
        Near(
            bad=_example("cache", "table(2, x.device).sum()"),
            good=_example("staticmethod", "table(2, x.device).sum()"),
        ),
    ),
    proof="check",
    observed_by=(Observer(check="state"),),
)
