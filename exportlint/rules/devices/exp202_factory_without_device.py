"""# factory-without-device (EXP202)

## What it does
Reports a factory call (`torch.arange`, `torch.zeros`, `torch.tensor`, ...) without `device=` whose result meets tensors
that follow the inputs.

## Why it matters
The result is made on the default device, the CPU. The model runs and exports there, and fails or computes on the wrong
device everywhere else.
"""

from exportlint.rules.base import Rule

RULE = Rule(
    code="EXP202",
    name="factory-without-device",
    summary="A tensor is made on the default device instead of the device of the inputs",
    rewrite="Pass the device of a tensor at hand: device=x.device, or use x.new_zeros and its like.",
    severity="warning",
    page=__doc__,
)
