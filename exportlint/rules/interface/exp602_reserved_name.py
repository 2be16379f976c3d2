"""# reserved-name (EXP602)

## What it does
Reports top-level submodules, parameters and buffers named `graph`, `code` or `meta`.

## Why it matters
The export succeeds, but `ExportedProgram.module()` raises, so the program cannot be run from Python.
"""

from exportlint.rules.base import Rule

RULE = Rule(
    code="EXP602",
    name="reserved-name",
    summary="A submodule, parameter or buffer has a name that torch.fx keeps for itself",
    rewrite="Rename the attribute.",
    severity="error",
    page=__doc__,
)
