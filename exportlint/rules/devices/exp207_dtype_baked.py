"""# dtype-baked (EXP207)

## What it does
Names the tensors whose dtype follows the inputs or the parameters in the source, as it should, and which the exported
program nevertheless makes in the dtype of the export.

## Why it matters
`torch.export` bakes every dtype, as it bakes devices. A program that was exported in float32 cannot be cast to bfloat16
afterwards: its casts still say float32. Nothing is wrong with the source, so this is information only.
"""

from exportlint.rules.base import Rule

RULE = Rule(
    code="EXP207",
    name="dtype-baked",
    summary="A dtype that follows the inputs in the source is a constant in the exported program",
    rewrite="Cast the model, not the program: export model.to(torch.bfloat16) from inputs of that dtype.",
    severity="info",
    page=__doc__,
)
