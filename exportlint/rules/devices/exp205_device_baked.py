"""# device-baked (EXP205)

## What it does
Names the tensors whose device follows the inputs in the source, as it should, and which the exported program
nevertheless makes on the device of the export.

## Why it matters
`torch.export` bakes every device, good or bad. Such a program fails after `.to(...)`; `move_to_device_pass` rewrites
it. Nothing is wrong with the source, so this is information only.
"""

from exportlint.rules.base import Rule

RULE = Rule(
    code="EXP205",
    name="device-baked",
    summary="A device that follows the inputs in the source is a constant in the exported program",
    rewrite="Export on the target device, or move the program with torch.export.passes.move_to_device_pass.",
    severity="info",
    page=__doc__,
)
