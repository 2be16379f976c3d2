"""# wrong-result (EXP004)

## What it does
Reports a difference between the exported program and the eager model on the same inputs, where no more specific rule
explains it.

## Why it matters
The program was captured without an error, so nobody notices until its results are used.
"""

from exportlint.rules.base import Rule

RULE = Rule(
    code="EXP004",
    name="wrong-result",
    summary="The exported program computes something else than the eager model",
    rewrite="Find the first module whose output parts and compare its forward with the program's graph.",
    severity="error",
    page=__doc__,
)
