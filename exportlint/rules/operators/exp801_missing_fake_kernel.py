"""# missing-fake-kernel (EXP801)

## What it does
Reports custom operators without a fake kernel, or whose fake kernel disagrees with the real one.

## Why it matters
The capture runs on fake tensors. Without a fake kernel it does not know the shape of the result.
"""

from exportlint.rules.base import Rule

RULE = Rule(
    code="EXP801",
    name="missing-fake-kernel",
    summary="A custom operator has no fake kernel, so nothing can be captured through it",
    rewrite="Register one with torch.library.register_fake.",
    severity="error",
    page=__doc__,
)
