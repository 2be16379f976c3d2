"""# device-literal (EXP201)

## What it does
Reports a device that is a constant in the source: `device="cpu"`, `.cuda()`, `.to("cuda:0")`.

## Why it matters
After the model moved, the tensor stays where the literal says. The eager model then fails with tensors on two
devices, and a program exported on one device keeps that device for good.
"""

from exportlint.rules.base import Rule

RULE = Rule(
    code="EXP201",
    name="device-literal",
    summary="A device is written down in the source, so the tensor does not follow the model",
    rewrite="Take the device from a tensor at hand: device=x.device.",
    severity="error",
    page=__doc__,
)
