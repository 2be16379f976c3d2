"""# branch-on-tensor (EXP101)

## What it does
Reports Python control flow (`if`, `while`, `assert`, `and`, `or`, `not`, a conditional expression) that asks a tensor
for its truth value.

## Why it matters
While a model is captured, tensors have no values, so there is nothing to decide on: the capture fails. It fails for
buffers and constants as well.
"""

from exportlint.rules.base import Rule

RULE = Rule(
    code="EXP101",
    name="branch-on-tensor",
    summary="Python control flow is decided by the value of a tensor",
    rewrite="Use torch.where or torch.cond, or decide from shapes, dtypes or configuration instead.",
    severity="error",
    page=__doc__,
)
