"""# data-dependent-number (EXP102)

## What it does
Reports a number taken from a tensor (`int(t)`, `float(t)`, `.item()`, `.tolist()`, the length of a data-dependent
result) on which a Python decision hangs.

## Why it matters
The number is unknown while the model is captured. `.item()` alone is captured as an unknown symbol; a branch, a loop
or a conversion that needs the number is not.
"""

from exportlint.rules.base import Rule

RULE = Rule(
    code="EXP102",
    name="data-dependent-number",
    summary="A Python number read out of a tensor decides what is computed",
    rewrite="Keep the number in a tensor, or constrain it with torch._check before it is used.",
    severity="error",
    page=__doc__,
)
