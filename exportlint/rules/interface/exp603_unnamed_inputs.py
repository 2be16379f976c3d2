"""# unnamed-inputs (EXP603)

## What it does
Reports a `forward` whose signature does not name the inputs that `dynamic_shapes` names: `*args`, `**kwargs`, or a
mismatch of names and structure.

## Why it matters
`torch.export` matches `dynamic_shapes` to the parameters of `forward`. What has no name cannot be made dynamic.
"""

from exportlint.rules.base import Rule

RULE = Rule(
    code="EXP603",
    name="unnamed-inputs",
    summary="The signature of forward does not name its inputs as dynamic_shapes does",
    rewrite="Give forward one named parameter for each input, and use the same names and nesting in dynamic_shapes.",
    severity="error",
    page=__doc__,
)
