"""# unnamed-inputs (EXP603)

## What it does
Reports a `forward` whose parameters cannot be matched to `dynamic_shapes`: it takes `*args` or `**kwargs`, or names or
nesting differ, be it by a misspelt key.

## Why it matters
`torch.export` matches `dynamic_shapes` to the parameters of `forward`. What has no name cannot be made dynamic.
"""

from exportlint.rules.base import Rule

RULE = Rule(
    code="EXP603",
    name="unnamed-inputs",
    summary="dynamic_shapes cannot be matched to the parameters of forward",
    rewrite="Give forward one named parameter for each input, and use the same names and nesting in dynamic_shapes.",
    severity="error",
    page=__doc__,
)
