"""# branch-on-device (EXP204)

## What it does
Reports a branch on `x.is_cuda`, `x.device.type` or `torch.cuda.is_available()` that changes the captured program.

## Why it matters
The branch is taken once, on the machine that exports. The program keeps it everywhere.
"""

from exportlint.rules.base import Rule

RULE = Rule(
    code="EXP204",
    name="branch-on-device",
    summary="Python control flow is decided by the device at export time",
    rewrite="Write device-independent code, or export once for each kind of device.",
    severity="warning",
    page=__doc__,
)
