"""# autocast-device-literal (EXP206)

## What it does
Reports `torch.autocast("cuda")` and its like in code that runs under capture.

## Why it matters
Exported on a machine without that device, the autocast region is stored as disabled for good.
"""

from exportlint.rules.base import Rule

RULE = Rule(
    code="EXP206",
    name="autocast-device-literal",
    summary="torch.autocast names a device type that is not the inputs' one",
    rewrite="Name the device type of a tensor at hand: torch.autocast(x.device.type).",
    severity="warning",
    page=__doc__,
)
