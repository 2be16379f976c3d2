"""# unregistered-type (EXP601)

## What it does
Reports inputs and outputs of classes that are not registered as pytree nodes.

## Why it matters
`torch.export` flattens inputs and outputs to tensors. It refuses a class that it cannot flatten.
"""

from exportlint.rules.base import Rule

RULE = Rule(
    code="EXP601",
    name="unregistered-type",
    summary="An input or output is of a class that torch.export does not know",
    rewrite="Register the class: torch.export.register_dataclass or torch.utils._pytree.register_pytree_node.",
    severity="error",
    page=__doc__,
)
