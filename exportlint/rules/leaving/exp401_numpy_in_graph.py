"""# numpy-in-graph (EXP401)

## What it does
Reports numpy functions on tensors, `.numpy()` and `numpy.asarray(tensor)` in code that runs under capture.

## Why it matters
While a model is captured, tensors have no values to hand over: the capture fails, or the result is baked as a constant.
"""

from exportlint.rules.base import Rule

RULE = Rule(
    code="EXP401",
    name="numpy-in-graph",
    summary="Tensor values are handed to numpy while the model is captured",
    rewrite="Use the torch function of the same name.",
    severity="error",
    page=__doc__,
)
