"""# tensor-outside-state (EXP203)

## What it does
Reports a tensor used in `forward` that is kept as a plain attribute of a module, as a global or as a default argument.

## Why it matters
`module.to(device)` moves parameters and buffers only. The plain tensor stays on the device where it was made, is
missing from the state dict, and is baked into the exported program as a constant.
"""

from exportlint.rules.base import Rule

RULE = Rule(
    code="EXP203",
    name="tensor-outside-state",
    summary="A tensor is kept as a plain attribute, so neither .to() nor the state dict knows it",
    rewrite="Register it: self.register_buffer(name, tensor, persistent=False).",
    severity="warning",
    page=__doc__,
)
