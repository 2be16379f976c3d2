"""# fake-tensor-left-behind (EXP503)

## What it does
Reports tensors that `forward` keeps, in an attribute, a class attribute, a global or a cached function, and that a
capture leaves behind as fake tensors.

## Why it matters
While `torch.export` captures a model, tensors have no data. One that outlives the capture is met by the next eager
call, which then returns a tensor without data or fails, far from the export that did the damage.
"""

from exportlint.rules.base import Rule

RULE = Rule(
    code="EXP503",
    name="fake-tensor-left-behind",
    summary="A tensor without data is left behind in the eager model by the capture",
    rewrite="Make the tensor in __init__ and register it as a buffer, or make it anew in every call.",
    severity="warning",
    page=__doc__,
)
