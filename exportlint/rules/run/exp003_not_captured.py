"""# not-captured (EXP003)

## What it does
Reports a failure of `torch.export.export` for which the catalogue holds no more specific rule.

## Why it matters
A model that is not captured cannot be shipped without its Python source.
"""

from exportlint.rules.base import Rule

RULE = Rule(
    code="EXP003",
    name="not-captured",
    summary="torch.export cannot capture the model",
    rewrite="Rewrite the line with operators that torch.export can trace, or keep it outside of forward.",
    severity="error",
    page=__doc__,
)
